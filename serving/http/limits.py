"""How much one client may ask, and how much one replica takes on."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable

_REMEMBERED = 10_000


class Rate:
    """A token bucket for each of those who ask. Forgets whoever has not asked for longest beyond 10,000 of them."""

    def __init__(self, a_minute: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_second, self._burst, self._clock = a_minute / 60, float(burst), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> float:
        """0 where they may ask now; else the seconds until they may."""
        now = self._clock()
        left, since = self._buckets.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._a_second)
        granted = left >= 1
        self._buckets[who] = (left - granted, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1 - left) / self._a_second


class Full(Exception):
    """No place, and none to wait at, or none came free in time."""


class Room:
    """Places for requests being worked on, and a bounded queue for these."""

    def __init__(self, places: int, waiting: int, wait_s: float, changed: Callable[[int], None]) -> None:
        self._places, self._waiting, self._wait_s, self._changed = places, waiting, wait_s, changed
        self._taken = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Takes a place, to be given back by `leave`. Raises Full."""
        if self._taken < self._places:
            self._taken += 1
            self._changed(self._taken)
        elif len(self._queue) >= self._waiting:
            raise Full
        else:
            await self._wait()

    def leave(self) -> None:
        """The place goes to whoever has waited longest."""
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self._taken -= 1
            self._changed(self._taken)

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await asyncio.wait({turn}, timeout=self._wait_s)
        except asyncio.CancelledError:
            if turn.done():  # a place was given to someone who is gone
                self.leave()
            raise
        finally:
            if not turn.done():
                self._queue.remove(turn)
        if not turn.done():
            raise Full
