"""A request that is cancelled at any moment, whole or streamed, leaves nothing behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from fdarx_core.llm import HttpEndpoint
from fdarx_core.records import Request, Response
from tests.llm.conftest import model
from tests.llm.loopback_server import Call, Fault, LoopbackServer, Trouble
from tests.llm.streams import LONG, TEXT, config, heard, request_to, wait_for

pytestmark = pytest.mark.usefixtures("quick_retries")
SLOTS = 8
Way = Callable[[HttpEndpoint, Request], Awaitable[Any]]


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: TEXT) as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_who_stops_early_stops_the_server(kind: str, server: LoopbackServer) -> None:
    server.faults = lambda call: LONG if call.number <= 3 else None

    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        async with aclosing(endpoint.stream(request_to(endpoint))) as pieces:
            await anext(pieces)
        assert (endpoint.limits.in_flight, endpoint.counters.in_flight) == (0, 0)
        async for _ in endpoint.stream(request_to(endpoint)):
            break
        read: list[str | Response] = []

        async def reads() -> None:
            async for piece in endpoint.stream(request_to(endpoint)):
                read.append(piece)

        reading = asyncio.create_task(reads())
        await asyncio.to_thread(wait_for, lambda: len(read) > 2)
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
    server.faults = lambda call: Fault(stream=Trouble(every=0.01))

    async def run() -> None:
        endpoint = HttpEndpoint(config(server, kind))
        await asyncio.gather(*(heard(endpoint.stream(request_to(endpoint, str(one)))) for one in range(3)))
        await endpoint.close()

    asyncio.run(run())
    assert server.most_in_flight == 1


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
    endpoint = HttpEndpoint(model(server, max_in_flight=SLOTS, timeout_s=60, **fields))
    yield endpoint
    counters = endpoint.counters
    assert (endpoint.limits.in_flight, counters.in_flight) == (0, 0)
    assert counters.asked == counters.done + counters.abandoned
    await _quiet(server)
    for latency in (0.1, 1, 10):  # a loaded machine may bring so many together only when replies take longer
        if await _most_in_flight(server, endpoint, latency) == SLOTS:
            break
    assert server.most_in_flight == SLOTS
    await endpoint.close()


async def _most_in_flight(server: LoopbackServer, endpoint: HttpEndpoint, latency: float) -> int:
    """Return how many requests the server has at a time while there are more than slots, all of which it answers."""
    server.faults, server.most_in_flight = lambda call: Fault(latency=latency), 0
    requests = [request_to(endpoint, f"afterwards {number}") for number in range(2 * SLOTS)]
    responses = await asyncio.gather(*(_ask(endpoint, one) for one in requests), _stream(endpoint, requests[0]))
    assert [(one.reason, one.text) for one in responses] == [("", TEXT)] * (2 * SLOTS + 1)
    return server.most_in_flight


@pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 30_000}, {"tokens_per_minute": 600_000}], ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_deadlines_at_any_moment(seed: int, limits: dict[str, float], server: LoopbackServer) -> None:
    server.faults = troubled
    draw = random.Random(seed)

    async def one(endpoint: HttpEndpoint, number: int, way: Way, seconds: float) -> object:
        await asyncio.sleep(0.0005 * number)
        return await asyncio.wait_for(way(endpoint, request_to(endpoint, str(number))), seconds)

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
                requests = [request_to(endpoint, f"{steps} {number}") for number in range(3 * SLOTS)]
                tasks = [asyncio.ensure_future(way(endpoint, request)) for request in requests]
                for _ in range(steps):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert endpoint.limits.in_flight == 0

    asyncio.run(run())
