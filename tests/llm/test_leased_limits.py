"""Workers that share limits keep them together as one would alone, however uneven their work is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from fdarx_core.llm.asker import Asker
from fdarx_core.llm.attempts import AsyncEndpoint, PendingRequest
from fdarx_core.llm.baseline import response_to
from fdarx_core.llm.failures import AskingStopped, Failure
from fdarx_core.llm.leased_limits import LimitLeases
from fdarx_core.llm.limit_pool import LimitPool, WorkerLease, WorkerReport
from fdarx_core.llm.limits import RequestLimiter
from fdarx_core.records import Request, Response
from tests.llm.helpers import run

LATENCY_S, COST = 0.4, 0.01


@dataclass
class Server:
    """What the workers ask together: it notes when each attempt came, and how many were there at once."""

    fails: Callable[[float, int], Failure | None] = lambda now, number: None
    starts: list[float] = field(default_factory=list)
    in_flight: int = 0
    most: int = 0

    async def reply(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if failure := self.fails(self.starts[-1], len(self.starts)):
                raise failure
            await asyncio.sleep(LATENCY_S)
        finally:
            self.in_flight -= 1

    def rate(self, after_s: float, before_s: float) -> float:
        """Starts a second in a window from the first start on."""
        began = self.starts[0]
        return sum(after_s <= start - began < before_s for start in self.starts) / (before_s - after_s)


class TimedEndpoint(AsyncEndpoint):
    """An endpoint whose every reply costs the same time and money. `tokens` are those of each request."""

    def __init__(self, server: Server, limits: RequestLimiter, tokens: int = 0) -> None:
        super().__init__("timed", limits)
        self._server, self._tokens = server, tokens

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        pending = PendingRequest(request, 50, 1e6, admit)
        with self.counted():
            while True:
                try:
                    async with self.slot(pending, self._tokens):
                        pending.begin_attempt()
                        await self._server.reply()
                    break
                except Failure as failure:
                    await self.wait_after(pending, failure)
        self.counters.cost += COST
        response = response_to(request, "done")
        self.count(response)
        return response

    async def close(self) -> None:
        return

    def delay_after(self, pending: PendingRequest, failure: Failure) -> float:
        return pending.delay_after(failure) or 0.0

    def explain(self, failure: Failure) -> str:
        return failure.detail


class Worker:
    """A process that asks, as far as limits are concerned."""

    def __init__(self, number: int, pool: LimitPool, endpoint: TimedEndpoint) -> None:
        self.number, self.endpoint, self._pool = number, endpoint, pool
        self.leases = LimitLeases(number, {"timed": endpoint}, self._exchange)
        self.asker = Asker({"timed": endpoint}, leases=self.leases)

    async def _exchange(self, report: WorkerReport) -> WorkerLease:
        await asyncio.sleep(0.004)  # on the way there and back
        lease = self._pool.exchange(report, asyncio.get_running_loop().time())
        await asyncio.sleep(0.004)
        return lease

    async def work(self, requests: int, after_s: float = 0.0) -> int:
        """Ask so many different requests at once; return how many were answered before asking stopped."""
        await asyncio.sleep(after_s)
        keys = [f"{self.number}-{after_s}-{number}" for number in range(requests)]
        asked = [self.asker.ask([Request(key, "t", 1, "timed", {}, [], {})]) for key in keys]
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, list | AskingStopped) for one in results), results
        return sum(isinstance(one, list) for one in results)


def work(pool: LimitPool, server: Server, limits: Callable[[], RequestLimiter], *shares: int, tokens: int = 0) -> int:
    """Have one worker for each share of requests; return how many requests were answered."""

    async def main() -> int:
        workers = [Worker(number, pool, TimedEndpoint(server, limits(), tokens)) for number in range(len(shares))]
        answered = sum(await asyncio.gather(*map(Worker.work, workers, shares)))
        for worker in workers:
            await worker.asker.close()
        return answered

    return run(main())


@pytest.mark.parametrize("shares", [(700, 650, 650), (1900, 60, 40), (1000, 0, 1000)])
def test_a_rate_is_kept_and_used_however_the_work_is_spread(shares: Sequence[int]) -> None:
    server = Server()
    assert work(LimitPool(), server, lambda: RequestLimiter(200, 6000, None), *shares) == 2000
    assert server.rate(0.0, 19.0) == pytest.approx(100, rel=0.02)
    assert max(server.rate(begin, begin + 5.0) for begin in range(14)) <= 102  # in any five seconds


def test_a_low_rate_is_kept() -> None:
    server = Server()
    work(LimitPool(), server, lambda: RequestLimiter(8, 30, None), 20, 20, 20)
    assert server.rate(0.0, 110.0) == pytest.approx(0.5, rel=0.04)


def test_a_rate_of_tokens_is_kept_and_used() -> None:
    server = Server()
    work(LimitPool(), server, lambda: RequestLimiter(64, None, 600_000), 600, 100, 20, tokens=500)
    assert server.rate(2.0, 32.0) == pytest.approx(20, rel=0.02)


@pytest.mark.parametrize("shares", [(800, 800, 800), (2380, 10, 10)])
def test_slots_are_never_exceeded_and_all_used(shares: Sequence[int]) -> None:
    server = Server()
    work(LimitPool(), server, lambda: RequestLimiter(30, None, None), *shares)
    assert server.most == 30
    seconds = server.starts[-1] + LATENCY_S - server.starts[0]
    assert seconds == pytest.approx(2400 / 30 * LATENCY_S, rel=0.02)


def test_a_worker_that_joins_gets_its_share() -> None:
    server, pool = Server(), LimitPool()

    async def main() -> int:
        workers = [Worker(number, pool, TimedEndpoint(server, RequestLimiter(20, None, None))) for number in range(2)]
        await asyncio.gather(workers[0].work(800), workers[1].work(20, after_s=4.0))
        late = workers[1].endpoint.counters.done
        for worker in workers:
            await worker.asker.close()
        return late

    assert run(main()) == 20
    assert server.most == 20


def test_what_a_killed_worker_held_is_free_for_its_successor_and_the_others() -> None:
    server, pool = Server(), LimitPool()

    async def main() -> None:
        workers = [Worker(number, pool, TimedEndpoint(server, RequestLimiter(20, None, None))) for number in range(2)]
        killed = asyncio.ensure_future(workers[0].work(500))
        other = asyncio.ensure_future(workers[1].work(500))
        await asyncio.sleep(3.0)
        killed.cancel()
        await workers[0].leases.close()
        for task in list(workers[0].asker._in_flight.values()):
            task.cancel()
        await asyncio.sleep(0)
        again = Worker(0, pool, TimedEndpoint(server, RequestLimiter(20, None, None)))
        await asyncio.gather(again.work(500), other)
        for worker in (again, workers[1]):
            await worker.asker.close()

    run(main())
    assert server.most == 20


def test_a_run_s_requests_are_counted_exactly() -> None:
    server = Server()
    assert (
        work(LimitPool(max_requests=250, sent=50), server, lambda: RequestLimiter(32, None, None), 400, 300, 5) == 200
    )
    assert len(server.starts) == 200


def test_a_run_s_cost_is_limited_as_in_one_process() -> None:
    server = Server()
    answered = work(LimitPool(max_cost=2.0, spent=0.5), server, lambda: RequestLimiter(16, None, None), 400, 300, 5)
    assert answered * COST + 0.5 == pytest.approx(2.0, abs=3 * COST)


def test_a_pause_that_the_server_asks_for_holds_for_all() -> None:
    busy = Failure("transient_rate_limited", "busy", status=429, throttled=True, retry_after=20.0)
    server = Server(lambda now, number: busy if number <= 40 else None)
    assert work(LimitPool(), server, lambda: RequestLimiter(20, None, None), 100, 100, 100) == 300
    gaps = [after - before for before, after in zip(server.starts, server.starts[1:], strict=False)]
    assert max(gaps) >= 15


def test_an_endpoint_that_stops_stops_for_all() -> None:
    fatal = Failure("no_access", "bad key", status=401, fatal=True)
    server, pool = Server(lambda now, number: fatal if number == 30 else None), LimitPool()

    async def main() -> None:
        workers = [Worker(number, pool, TimedEndpoint(server, RequestLimiter(8, None, None))) for number in range(3)]
        await asyncio.gather(*(worker.work(200) for worker in workers))
        for worker in workers:
            with pytest.raises(AskingStopped, match="bad key"):
                await worker.asker.ask([Request("late", "t", 1, "timed", {}, [], {})])
            await worker.asker.close()

    run(main())
    assert len(server.starts) < 60
