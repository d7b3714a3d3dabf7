"""Streamed replies equal whole ones, and a cancelled request leaves nothing behind."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import orjson
import pytest

from fdarx_core.llm import (
    TRANSIENT,
    Baseline,
    EndpointStopped,
    HttpEndpoint,
    ModelConfig,
    Prices,
    Prompt,
    Task,
)
from fdarx_core.records import Request, Response
from tests.llm.conftest import model
from tests.llm.loopback_server import Call, Fault, LoopbackServer, Trouble

pytestmark = pytest.mark.usefixtures("quick_retries")
TEXT = "  Take 50 µg once a day 🧪 with 漢字.\n\n- Not with food.\n"
KEY = "sk-planted/0123456789abcdef"
CHAT = """
name: chat
version: 1
purpose: Answer.
slots: {question: what is asked}
system: You answer.
user: "{{ question }}"
response: text
"""


def brief(value: Any) -> str:
    """A parameter's id: of a fault, only what goes wrong."""
    if not isinstance(value, Fault | Trouble):
        return str(value)
    plain = type(value)()
    said = [f"{name}={str(one)[:40]}" for name, one in vars(value).items() if one != getattr(plain, name)]
    return " ".join(said) or "fine"


def by_rules(slots: Mapping[str, Any]) -> str:
    if not slots["question"].strip():
        raise ValueError("nothing was asked")
    return str(slots["question"])


CHATTING = Task(Prompt.from_yaml(CHAT, "prompts/chat.yaml"), str, by_rules)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: TEXT) as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def config(server: LoopbackServer, kind: str = "openai", **fields: Any) -> ModelConfig:
    return model(server, kind=kind, max_in_flight=1, **fields)


def request_to(endpoint: HttpEndpoint, question: str = "How much?") -> Request:
    return CHATTING.request({"question": question}, endpoint=endpoint.name, sampling=endpoint.sampling)


async def heard(pieces: AsyncGenerator[str | Response, None]) -> tuple[list[str], Response]:
    """All pieces, and the one response after them."""
    texts: list[str] = []
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Response):
                assert [rest async for rest in pieces] == []
                return texts, piece
            texts.append(piece)
    raise AssertionError("no response")


def streamed(settings: ModelConfig, check: Callable[[HttpEndpoint], None] = lambda endpoint: None) -> Any:
    """Pieces and response of one request; then `check` looks at the endpoint."""

    async def run() -> tuple[list[str], Response]:
        endpoint = HttpEndpoint(settings)
        try:
            found = await heard(endpoint.stream(request_to(endpoint)))
            assert (endpoint.limits.in_flight, endpoint.counters.in_flight) == (0, 0)
            check(endpoint)
            return found
        finally:
            await endpoint.close()

    return asyncio.run(run())


def failing(trouble: Trouble, times: int = 10**6) -> Callable[[Call], Fault | None]:
    return lambda call: Fault(stream=trouble) if call.number <= times else None


@pytest.mark.parametrize(
    "trouble", [Trouble(), Trouble(quirks=True), Trouble(portion=1), Trouble(quirks=True, portion=3)], ids=brief
)
def test_streamed_is_as_unstreamed(kind: str, trouble: Trouble, server: LoopbackServer) -> None:
    server.faults = failing(trouble)

    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        texts, response = await heard(endpoint.stream(request_to(endpoint)))
        whole = await endpoint.ask(request_to(endpoint))
        await endpoint.close()
        assert ("".join(texts), len(texts) > 5, all(texts)) == (TEXT, True, True)
        assert response.latency_s > 0
        response.latency_s = whole.latency_s
        assert response == whole
        assert (response.reason, response.finish_reason) == ("", "stop")
        assert response.prompt_tokens > response.cached_tokens > 0 < response.completion_tokens
        assert (endpoint.counters.asked, endpoint.counters.done, endpoint.counters.abandoned) == (2, 2, 0)
        assert endpoint.counters.prompt_tokens == 2 * whole.prompt_tokens

    asyncio.run(run())
    asked, unstreamed = (call.body for call in server.calls)
    assert {name: value for name, value in asked.items() if not name.startswith("stream")} == unstreamed
    assert asked.get("stream_options") == ({"include_usage": True} if kind == "openai" else None)


def test_cost_and_length(kind: str, server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(finish_reason="length")
    costs: list[float] = []
    prices = Prices(input=1e6, output=1e6)
    _, response = streamed(config(server, kind, prices=prices), lambda endpoint: costs.append(endpoint.counters.cost))
    assert response.finish_reason == "length"
    assert costs == [response.prompt_tokens + response.completion_tokens]


def test_one_connection_serves_one_stream_after_another(kind: str, server: LoopbackServer) -> None:
    """A body's end comes a little after the event that ends the reply."""
    server.faults = lambda call: Fault(text="Yes.", stream=Trouble(every=0.02))

    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        for _ in range(4):
            await heard(endpoint.stream(request_to(endpoint)))
        await endpoint.close()

    asyncio.run(run())
    assert len({call.port for call in server.calls}) == 1


def test_pieces_come_as_the_server_sends_them(kind: str, server: LoopbackServer) -> None:
    async def run() -> str:
        endpoint = HttpEndpoint(config(server, kind))
        pieces = endpoint.stream(request_to(endpoint))
        first = await anext(pieces)
        assert server.in_flight == 1
        texts, response = await heard(pieces)
        await endpoint.close()
        assert isinstance(first, str)
        assert first + "".join(texts) == response.text
        return response.text

    server.faults = failing(Trouble(every=0.05))
    assert asyncio.run(run()) == TEXT


def test_a_server_that_knows_no_stream_options_is_asked_without(server: LoopbackServer) -> None:
    refused = Fault(status=400, error={"message": "Unrecognized request argument supplied: stream_options"})
    server.faults = lambda call: refused if "stream_options" in call.body else Fault(stream=Trouble(usage=False))

    async def run() -> None:
        endpoint = HttpEndpoint(config(server))
        for attempts in (2, 1):
            texts, response = await heard(endpoint.stream(request_to(endpoint)))
            assert ("".join(texts), response.reason, response.attempts) == (TEXT, "", attempts)
            assert (response.prompt_tokens, response.completion_tokens) == (0, 0)
        await endpoint.close()

    asyncio.run(run())
    assert ["stream_options" in call.body for call in server.calls] == [True, False, False]
    assert all(call.body["stream"] for call in server.calls)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, retry_after="0"),
        Fault(status=429),
        Fault(status=500),
        Fault(status=503, raw=b"<html>"),
        Fault(drop=True),
        Fault(stream=Trouble(after=0)),
        Fault(stream=Trouble(after=0, error={"type": "overloaded_error", "message": "busy"})),
        Fault(stream=Trouble(after=0, error={"code": 503, "message": "busy"})),
        Fault(stream=Trouble(after=0, error="busy")),
        Fault(text="", stream=Trouble(end=False)),
        Fault(raw=b"Internal hiccup"),
        Fault(reply=[1]),
        Fault(latency=30),
    ],
    ids=brief,
)
def test_before_the_first_piece_a_failure_that_passes_costs_nothing(
    fault: Fault, kind: str, server: LoopbackServer
) -> None:
    server.faults = lambda call: fault if call.attempt == 1 else None
    texts, response = streamed(config(server, kind, timeout_s=0.5))
    assert ("".join(texts), response.text, response.reason, response.attempts) == (TEXT, TEXT, "", 2)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(status=500), f"{TRANSIENT}server_error"),
        (Fault(status=400, error={"message": "temperature must be below 2"}), "refused_request"),
        (Fault(status=400, error={"message": "prompt is too long: 9 tokens > 8"}), "context_too_long"),
        (Fault(stream=Trouble(after=0)), f"{TRANSIENT}cut_body"),
        (Fault(endless=b"x" * (4 << 20)), f"{TRANSIENT}reply_too_large"),
        (Fault(endless=b" \n" * 8192), "whitespace_loop"),
        (Fault(endless=b": ping\n\n"), f"{TRANSIENT}timeout"),
        (Fault(text=""), "null_content"),
    ],
    ids=brief,
)
def test_a_failure_that_stays(fault: Fault, reason: str, kind: str, server: LoopbackServer) -> None:
    server.faults = lambda call: fault
    failed: list[int] = []
    settings = config(server, kind, timeout_s=0.3 if "timeout" in reason else 20, max_wait_s=0.2)
    texts, response = streamed(settings, lambda endpoint: failed.append(endpoint.counters.failed))
    assert (texts, response.reason, response.finish_reason) == ([], reason, "error")
    assert response.attempts == (2 if reason.startswith(TRANSIENT) else 1)
    assert failed == [1]
    assert response.text or reason == "null_content"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Trouble(after=2), "cut_body"),
        (Trouble(end=False), "cut_body"),
        (Trouble(after=2, error={"message": "CUDA out of memory"}), "server_error"),
        (Trouble(after=2, error={"type": "overloaded_error", "message": "busy"}), "overloaded"),
        (Trouble(after=2, error={"code": 401, "message": "expired"}), "no_access"),
        (Trouble(every=0.2), "timeout"),
    ],
    ids=brief,
)
def test_after_the_first_piece_a_failure_ends_the_stream(
    trouble: Trouble, reason: str, kind: str, server: LoopbackServer
) -> None:
    server.faults = failing(trouble)
    texts, response = streamed(config(server, kind, timeout_s=1.0))
    assert response.reason in (f"{TRANSIENT}{reason}", reason)
    assert (response.finish_reason, response.attempts, server.number) == ("error", 1, 1)
    assert response.text == "".join(texts) == TEXT[: len(response.text)] != ""


def test_a_loop_of_white_space_is_left(kind: str, server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text="Well" + "\n" * (1 << 20))
    texts, response = streamed(config(server, kind))
    assert (response.reason, response.text) == ("whitespace_loop", "Well")
    assert len("".join(texts)) < 10_000
    wait_for(lambda: server.abandoned == 1)


def test_a_refusal(server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(message={"content": None, "refusal": "I can't help with that."})
    texts, response = streamed(config(server))
    assert (texts, response.text, response.reason) == ([], "I can't help with that.", "refusal")
    server.faults = lambda call: Fault(text="I won't.", finish_reason="refusal")
    texts, response = streamed(config(server, "anthropic"))
    assert ("".join(texts), response.text, response.reason) == ("I won't.", "I won't.", "refusal")


def test_a_server_that_does_not_stream(kind: str, server: LoopbackServer) -> None:
    whole = {
        "openai": {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}},
        "anthropic": {
            "type": "message",
            "content": [{"type": "text", "text": TEXT}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 7},
        },
    }
    server.faults = lambda call: Fault(reply=whole[kind])
    texts, response = streamed(config(server, kind))
    assert (texts, response.text, response.reason, response.prompt_tokens) == ([TEXT], TEXT, "", 7)


def test_who_stops_early_stops_the_server(kind: str, server: LoopbackServer) -> None:
    server.faults = failing(Trouble(every=0.05), times=3)

    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        async with aclosing(endpoint.stream(request_to(endpoint))) as pieces:
            await anext(pieces)
        assert (endpoint.limits.in_flight, endpoint.counters.in_flight) == (0, 0)
        async for _ in endpoint.stream(request_to(endpoint)):
            break
        reading = asyncio.create_task(heard(endpoint.stream(request_to(endpoint))))
        await asyncio.sleep(0.2)
        reading.cancel()
        await asyncio.wait([reading])
        await asyncio.to_thread(wait_for, lambda: server.abandoned == 3)
        texts, _ = await heard(endpoint.stream(request_to(endpoint)))
        assert "".join(texts) == TEXT
        counters = endpoint.counters
        assert (counters.asked, counters.done, counters.abandoned, counters.in_flight) == (4, 1, 3, 0)
        await endpoint.close()

    asyncio.run(run())
    assert server.in_flight == 0


def test_a_slot_is_held_while_a_stream_runs(kind: str, server: LoopbackServer) -> None:
    server.faults = failing(Trouble(every=0.01))

    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        await asyncio.gather(*(heard(endpoint.stream(request_to(endpoint, str(one)))) for one in range(3)))
        await endpoint.close()

    asyncio.run(run())
    assert server.most_in_flight == 1


@pytest.mark.parametrize("status", [401, 404])
def test_an_endpoint_that_answers_nobody(status: int, kind: str, server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=status)
    with pytest.raises(EndpointStopped, match="model m"):
        streamed(config(server, kind))


def test_a_schema_is_not_streamed(task: Task[Any], server: LoopbackServer) -> None:
    endpoint = HttpEndpoint(config(server))
    with pytest.raises(ValueError, match="spell_backwards has a structured reply"):
        endpoint.stream(task.request({"word": "abc", "times": 1}, endpoint="m"))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(text=f"The key is {KEY}, and sk-plan is no key, nor is sk-plan"),
        Fault(text=KEY[:-1]),
        Fault(text=KEY, stream=Trouble(after=4)),
        Fault(stream=Trouble(after=1, error={"message": f"no access with {KEY}"})),
        Fault(stream=Trouble(after=0, error={"message": "x" * 380 + KEY})),
        Fault(status=400, error={"message": "x" * 380 + KEY}),
        Fault(finish_reason=KEY),
        Fault(raw=orjson.dumps({"choices": [{"delta": {"content": KEY}}]}).replace(b"/", rb"\/")),
    ],
    ids=["text", "nearly", "cut", "error", "first error", "refused", "finish", "escaped"],
)
def test_the_key_is_in_no_piece(
    fault: Fault, kind: str, server: LoopbackServer, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    server.faults = lambda call: fault
    texts, response = streamed(config(server, kind, key_env="PLANTED_KEY", max_wait_s=0.2))
    for shown in ("".join(texts), response.text, repr(response), caplog.text):
        assert KEY not in shown
        assert "sk-planted" not in shown or fault.text == KEY[:-1]
    if fault.text and not response.reason:
        assert response.text == "".join(texts) == fault.text.replace(KEY, "[key]")


@pytest.mark.parametrize("text", [TEXT, "one", " one  two\n\n", "\n", ""])
def test_the_baseline_in_pieces(text: str) -> None:
    baseline = Baseline({"chat": Task(CHATTING.prompt, str, lambda slots: text)}, rules="r1")
    request = CHATTING.request({"question": "?"}, endpoint="baseline")
    texts, response = asyncio.run(heard(baseline.stream(request)))
    assert ("".join(texts), [response]) == (text, baseline.answer([request]))
    assert all(len(piece.split()) <= 1 for piece in texts)


def test_a_baseline_that_fails_shows_nothing() -> None:
    baseline = Baseline({"chat": CHATTING}, rules="r1")
    request = CHATTING.request({"question": " "}, endpoint="baseline")
    texts, response = asyncio.run(heard(baseline.stream(request)))
    assert (texts, response.reason) == ([], "baseline_error")


def wait_for(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """What the server's thread sees, it sees a little later."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


SLOTS = 8
Way = Callable[[HttpEndpoint, Request], Awaitable[Any]]


async def _ask(endpoint: HttpEndpoint, request: Request) -> Response:
    return await endpoint.ask(request)


async def _stream(endpoint: HttpEndpoint, request: Request) -> Response:
    return (await heard(endpoint.stream(request)))[1]


def troubled(call: Call) -> Fault | None:
    """Slow and failing in every way that is tried again, by the call's number."""
    faults = [
        Fault(latency=0.02),
        Fault(status=429, retry_after="0.02"),
        Fault(stream=Trouble(every=0.005), latency=0.005),
        Fault(status=500, latency=0.01),
        Fault(stream=Trouble(after=1), drop=bool(call.number % 2)),
    ]
    return faults[call.number % len(faults)]


async def _quiet(server: LoopbackServer) -> None:
    """Returns when it has nothing under way; of connections that were closed again it may only then read what came."""
    seen = -1
    while seen != server.number or server.in_flight:
        seen = server.number
        await asyncio.sleep(0.25)


@asynccontextmanager
async def unharmed(server: LoopbackServer, **fields: Any) -> AsyncIterator[HttpEndpoint]:
    """An endpoint that is as good as new once the block is left."""
    endpoint = HttpEndpoint(model(server, max_in_flight=SLOTS, timeout_s=10, **fields))
    yield endpoint
    counters = endpoint.counters
    assert (endpoint.limits.in_flight, counters.in_flight) == (0, 0)
    assert counters.asked == counters.done + counters.abandoned
    await _quiet(server)
    server.faults, server.most_in_flight = lambda call: Fault(latency=0.2), 0
    requests = [_request(endpoint, f"afterwards {number}") for number in range(2 * SLOTS)]
    responses = await asyncio.gather(*(_ask(endpoint, one) for one in requests), _stream(endpoint, requests[0]))
    assert [(one.reason, one.text) for one in responses] == [("", TEXT)] * (2 * SLOTS + 1)
    assert server.most_in_flight == SLOTS
    await endpoint.close()


def _request(endpoint: HttpEndpoint, question: str) -> Request:
    return CHATTING.request({"question": question}, endpoint=endpoint.name, sampling=endpoint.sampling)


@pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 30_000}, {"tokens_per_minute": 600_000}], ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_deadlines_at_any_moment(seed: int, limits: dict[str, float], server: LoopbackServer) -> None:
    server.faults = troubled
    draw = random.Random(seed)

    async def one(endpoint: HttpEndpoint, number: int, way: Way, seconds: float) -> object:
        await asyncio.sleep(0.0005 * number)
        return await asyncio.wait_for(way(endpoint, _request(endpoint, str(number))), seconds)

    async def run() -> None:
        async with unharmed(server, **limits) as endpoint:
            seconds = [draw.choice([draw.expovariate(20), draw.expovariate(20), 60.0]) for _ in range(200)]
            asked = [(number, draw.choice([_ask, _stream]), limit) for number, limit in enumerate(seconds)]
            outcomes = await asyncio.gather(*(one(endpoint, *each) for each in asked), return_exceptions=True)
            late = sum(isinstance(outcome, asyncio.TimeoutError) for outcome in outcomes)
            assert late + sum(isinstance(outcome, Response) for outcome in outcomes) == 200
            assert 0 < late < 200

    asyncio.run(run())


@pytest.mark.parametrize("way", [_ask, _stream])
@pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 30_000}], ids=str)
def test_cancelled_after_any_number_of_steps(way: Way, limits: dict[str, float], server: LoopbackServer) -> None:
    """Three times as many as there are slots at a time, so that some of them wait for one."""

    async def run() -> None:
        async with unharmed(server, **limits) as endpoint:
            for steps in range(40):
                requests = [_request(endpoint, f"{steps} {number}") for number in range(3 * SLOTS)]
                tasks = [asyncio.ensure_future(way(endpoint, request)) for request in requests]
                for _ in range(steps):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert endpoint.limits.in_flight == 0

    asyncio.run(run())
