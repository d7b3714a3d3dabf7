"""Streamed replies equal whole ones, and what goes wrong with them has a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import orjson
import pytest

from fdarx_core.llm import TRANSIENT, Baseline, EndpointStopped, HttpEndpoint, ModelConfig, Prices, Task
from fdarx_core.records import Response
from tests.llm.loopback_server import Call, Fault, LoopbackServer, Trouble
from tests.llm.streams import CHATTING, LONG, TEXT, config, heard, request_to, wait_for

pytestmark = pytest.mark.usefixtures("quick_retries")
KEY = "sk-planted/0123456789abcdef"


def brief(value: Any) -> str:
    """A parameter's id: of a fault, only what goes wrong."""
    if not isinstance(value, Fault | Trouble):
        return str(value)
    plain = type(value)()
    said = [f"{name}={str(one)[:40]}" for name, one in vars(value).items() if one != getattr(plain, name)]
    return " ".join(said) or "fine"


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: TEXT) as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


def failing(trouble: Trouble) -> Callable[[Call], Fault]:
    return lambda call: Fault(stream=trouble)


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
    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        async with aclosing(endpoint.stream(request_to(endpoint))) as pieces:
            assert isinstance(await anext(pieces), str)
            assert server.in_flight == 1
        await endpoint.close()

    server.faults = lambda call: LONG
    asyncio.run(run())


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
    ],
    ids=brief,
)
def test_before_the_first_piece_a_failure_that_passes_costs_nothing(
    fault: Fault, kind: str, server: LoopbackServer
) -> None:
    server.faults = lambda call: fault if call.attempt == 1 else None
    texts, response = streamed(config(server, kind))
    assert ("".join(texts), response.text, response.reason, response.attempts) == (TEXT, TEXT, "", 2)


def test_a_reply_that_does_not_begin_is_asked_for_again(kind: str, server: LoopbackServer) -> None:
    """On a loaded machine it may take several attempts until one begins in time."""
    server.faults = lambda call: Fault(latency=60) if call.attempt == 1 else None
    texts, response = streamed(config(server, kind, timeout_s=0.5, max_tries=50))
    assert ("".join(texts), response.text, response.reason) == (TEXT, TEXT, "")
    assert response.attempts >= 2


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
    ],
    ids=brief,
)
def test_after_the_first_piece_a_failure_ends_the_stream(
    trouble: Trouble, reason: str, kind: str, server: LoopbackServer
) -> None:
    server.faults = failing(trouble)
    texts, response = streamed(config(server, kind))
    assert response.reason in (f"{TRANSIENT}{reason}", reason)
    assert (response.finish_reason, response.attempts, server.number) == ("error", 1, 1)
    assert response.text == "".join(texts) == TEXT[: len(response.text)] != ""


def test_a_stream_that_is_too_slow_ends_after_its_first_piece(kind: str, server: LoopbackServer) -> None:
    """Only what had no piece yet is asked again: a second reply would not go on where the first one ended."""
    server.faults = failing(Trouble(every=0.1))
    texts, response = streamed(config(server, kind, timeout_s=0.6, max_tries=50))
    assert (response.reason, response.finish_reason) == (f"{TRANSIENT}timeout", "error")
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


@pytest.mark.parametrize("status", [401, 404])
def test_an_endpoint_that_answers_nobody(status: int, kind: str, server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=status)
    with pytest.raises(EndpointStopped, match="model m"):
        streamed(config(server, kind))


def test_a_schema_is_not_streamed(task: Task[Any], server: LoopbackServer) -> None:
    endpoint = HttpEndpoint(config(server))
    with pytest.raises(ValueError, match="spell_backwards has a structured reply"):
        asyncio.run(heard(endpoint.stream(task.request({"word": "abc", "times": 1}, endpoint="m"))))


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
