"""Limits hold for all together, and follow what the server takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm.failures import AskingStopped
from fdarx_core.llm.limits import RequestLimiter
from tests.llm.helpers import run


class Traffic:
    """Sends requests through limits to a server that is only a function of time: it says whether it takes one."""

    def __init__(
        self, limits: RequestLimiter, takes: Callable[[float], bool] = lambda now: True, latency: float = 0.1
    ) -> None:
        self.limits, self.takes, self.latency = limits, takes, latency
        self.starts: list[float] = []
        self.refused = self.in_flight = self.most = 0

    async def send(self, tokens: int = 0) -> None:
        retry = False
        while not await self._once(tokens, retry):
            retry = True
            await self.limits.pause(1.0)

    async def _once(self, tokens: int, retry: bool) -> bool:
        await self.limits.acquire(tokens, retry)
        now = asyncio.get_running_loop().time()
        self.starts.append(now)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        taken = self.takes(now)
        if taken:
            await asyncio.sleep(self.latency)
            self.limits.accepted()
        else:
            await asyncio.sleep(self.latency / 5)
            self.refused += 1
            self.limits.refused(now, None)
        self.in_flight -= 1
        self.limits.release()
        return taken

    def all(self, requests: int, tokens: int = 0) -> float:
        """Seconds that these take, all asked at once."""

        async def main() -> float:
            before = asyncio.get_running_loop().time()
            await asyncio.gather(*(self.send(tokens) for _ in range(requests)))
            return asyncio.get_running_loop().time() - before

        return run(main())

    def most_within(self, seconds: float) -> int:
        """The most starts in any window of this length."""
        window: deque[float] = deque()
        most = 0
        for start in sorted(self.starts):
            window.append(start)
            while window[0] <= start - seconds:
                window.popleft()
            most = max(most, len(window))
        return most


@given(slots=st.integers(1, 20), requests=st.integers(1, 60))
def test_never_more_in_flight_than_slots(slots: int, requests: int) -> None:
    traffic = Traffic(RequestLimiter(slots, None, None))
    seconds = traffic.all(requests)
    assert traffic.most == min(slots, requests)
    assert seconds == pytest.approx(-(-requests // slots) * 0.1)


@given(per_minute=st.integers(10, 6000), slots=st.integers(2, 64))
def test_requests_a_minute(per_minute: int, slots: int) -> None:
    traffic = Traffic(RequestLimiter(slots, per_minute, None), latency=0.001)
    seconds = traffic.all(100)
    assert seconds == pytest.approx(99 * 60 / per_minute, rel=0.05, abs=0.1)
    burst = 1 + 0.05 * per_minute / 60
    assert traffic.most_within(60) <= per_minute + burst
    assert traffic.most_within(1) <= per_minute / 60 + burst + 1


def test_tokens_a_minute() -> None:
    traffic = Traffic(RequestLimiter(64, None, 60_000))
    assert traffic.all(20, tokens=500) == pytest.approx(19 * 0.5, abs=0.2)


def test_tokens_are_corrected() -> None:
    async def main(counted: int) -> float:
        limits = RequestLimiter(64, None, 60_000)
        await limits.acquire(1000)
        limits.correct_tokens(1000, counted)
        before = asyncio.get_running_loop().time()
        await limits.acquire(1000)
        return asyncio.get_running_loop().time() - before

    assert run(main(3000)) == pytest.approx(3, abs=0.1)
    assert run(main(200)) == pytest.approx(0.2, abs=0.1)


def test_the_pace_finds_a_server_s_rate() -> None:
    served: deque[float] = deque()

    def ten_a_second(now: float) -> bool:
        while served and served[0] <= now - 1:
            served.popleft()
        if len(served) < 10:
            served.append(now)
            return True
        return False

    traffic = Traffic(RequestLimiter(64, None, None), ten_a_second)
    seconds = traffic.all(3000)
    assert seconds < 1.1 * 300
    assert traffic.refused < 0.4 * 3000


@pytest.mark.parametrize("every", [3, 4, 10])
def test_refusals_that_no_pace_avoids_slow_little_down(every: int) -> None:
    count = iter(range(10**6))
    traffic = Traffic(RequestLimiter(64, None, None), lambda now: next(count) % every != 0)
    assert traffic.all(20_000) < 1.3 * 20_000 / 64 * 0.1 + 5


def test_a_slow_while_with_refusals_leaves_no_slow_pace_behind() -> None:
    count = iter(range(10**6))

    def takes(now: float) -> bool:
        traffic.latency = 2.0 if now < 1020 else 0.1
        return next(count) % 10 != 0

    traffic = Traffic(RequestLimiter(64, None, None), takes)
    assert traffic.all(20_000) < 20 + 1.3 * 20_000 / 64 * 0.1 + 10


def test_the_pace_recovers() -> None:
    traffic = Traffic(RequestLimiter(64, None, None), lambda now: now > 1010)
    assert traffic.all(10_000) < 10 + 90 + 10_000 / 64 * 0.1


def test_a_pause_holds_no_slot() -> None:
    async def main() -> list[str]:
        limits, order = RequestLimiter(1, None, None), []

        async def one(name: str, pauses: bool) -> None:
            await limits.acquire()
            limits.release()
            if pauses:
                await limits.pause(5)
                await limits.acquire(retry=True)
                limits.release()
            order.append(name)

        await asyncio.gather(one("first", True), one("second", False))
        return order

    assert run(main()) == ["second", "first"]


def test_another_try_goes_before_a_first_one() -> None:
    async def main() -> list[str]:
        limits, order = RequestLimiter(1, None, None), []

        async def one(name: str, retry: bool) -> None:
            await limits.acquire(retry=retry)
            order.append(name)
            await asyncio.sleep(1)
            limits.release()

        await asyncio.gather(one("holds", False), one("first", False), one("again", True))
        return order

    assert run(main()) == ["holds", "again", "first"]


def test_where_all_are_refused_all_wait() -> None:
    async def main() -> float:
        limits = RequestLimiter(64, None, None)
        for _ in range(16):
            limits.refused(await limits.acquire(), 30.0)
            limits.release()
        before = asyncio.get_running_loop().time()
        await limits.acquire()
        return asyncio.get_running_loop().time() - before

    assert run(main()) == pytest.approx(30)


def test_who_is_cancelled_leaves_no_slot_behind() -> None:
    async def main() -> int:
        limits = RequestLimiter(2, 60, None)
        tasks = [asyncio.ensure_future(limits.acquire()) for _ in range(10)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        left = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in left:
            if isinstance(outcome, float):
                limits.release()
        await asyncio.gather(limits.acquire(), limits.acquire())
        return limits.in_flight

    assert run(main()) == 2


def test_stopping_wakes_all_who_wait() -> None:
    async def main() -> Sequence[object]:
        limits = RequestLimiter(1, None, None)
        await limits.acquire()
        waiting = [asyncio.ensure_future(limits.acquire(retry=one)) for one in (False, True)]
        sleeping = asyncio.ensure_future(limits.pause(1000))
        await asyncio.sleep(0.01)
        limits.stop(AskingStopped("enough"))
        limits.release()
        outcomes = await asyncio.gather(*waiting, sleeping, limits.acquire(), return_exceptions=True)
        assert asyncio.get_running_loop().time() < 1001
        return outcomes

    outcomes = run(main())
    assert [str(one) for one in outcomes] == ["enough"] * 4
    assert len({id(one) for one in outcomes}) == 4
