"""Whoever is cancelled while asking leaves nothing behind: no slot, no count, no broken session."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fdarx_core.llm import HttpEndpoint
from fdarx_core.records import Request, Response
from tests.llm.conftest import model
from tests.llm.loopback_server import Call, Fault, LoopbackServer
from tests.llm.loopback_streams import Trouble
from tests.llm.test_streaming import CHATTING, TEXT, heard

pytestmark = pytest.mark.usefixtures("quick_retries")
SLOTS = 8
Way = Callable[[HttpEndpoint, Request], Awaitable[Any]]


async def _ask(endpoint: HttpEndpoint, request: Request) -> Response:
    return await endpoint.ask(request)


async def _stream(endpoint: HttpEndpoint, request: Request) -> Response:
    return (await heard(endpoint.stream(request)))[1]


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: TEXT) as running:
        yield running


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
