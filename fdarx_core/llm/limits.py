"""Limits of one endpoint, shared by all who ask it."""

from __future__ import annotations

import asyncio
from collections import deque

from fdarx_core.llm.exchange import AskingStopped
from fdarx_core.llm.pace import AdaptivePace, Pace

_REFUSED_BY_ALL = 16


class Limits:
    """Slots in flight, requests and tokens a minute, and a pace that follows what the server refuses.

    A slot is held from `enter` to `leave`, and never while a request waits for its next try. Those who come back for
    another try enter before those who come first. Belongs to one event loop.
    """

    def __init__(self, max_in_flight: int, per_minute: float | None, tokens_per_minute: float | None) -> None:
        self.in_flight = 0
        self._free = max_in_flight
        self._again: deque[asyncio.Future[None]] = deque()
        self._first: deque[asyncio.Future[None]] = deque()
        self._sleeping: set[asyncio.Future[None]] = set()
        self._requests = Pace(per_minute / 60) if per_minute else None
        self._tokens = Pace(tokens_per_minute / 60) if tokens_per_minute else None
        self._adaptive = AdaptivePace()
        self._held_until, self._refused_in_a_row = 0.0, 0
        self._stopped: AskingStopped | None = None
        self._head = asyncio.Lock()

    async def enter(self, tokens: int = 0, again: bool = False) -> float:
        """Waits for a slot and for the pace; the time when both were there. Raises what `stop` was given."""
        await self._slot(self._again if again else self._first)
        try:
            await self._in_turn(tokens)
        except BaseException:
            self._hand_over()
            raise
        self.in_flight += 1
        return asyncio.get_running_loop().time()

    def leave(self) -> None:
        self.in_flight -= 1
        self._hand_over()

    async def pause(self, seconds: float) -> None:
        """Sleeps without a slot. Raises what `stop` was given."""
        await self._sleep_until(asyncio.get_running_loop().time() + seconds)

    def correct_tokens(self, estimated: int, counted: int) -> None:
        """Give back or take what an estimate was off by."""
        if self._tokens:
            self._tokens.book(0.0, counted - estimated)

    def accepted(self) -> None:
        """The server answered a request instead of telling it to wait."""
        self._refused_in_a_row = 0

    def refused(self, entered_at: float, retry_after: float | None) -> None:
        """The server told a request to wait. Where it tells everyone so, all wait as long as it says."""
        now = asyncio.get_running_loop().time()
        self._adaptive.refused(now, entered_at)
        self._refused_in_a_row += 1
        if retry_after and self._refused_in_a_row >= _REFUSED_BY_ALL:
            self._held_until = max(self._held_until, now + retry_after)

    def stop(self, error: AskingStopped) -> None:
        """From now on nobody enters: whoever waits, for a slot, the pace or another try, gets this error."""
        self._stopped = self._stopped or error
        for waiting in (*self._again, *self._first, *self._sleeping):
            if not waiting.done():
                waiting.set_exception(self._stopped.copy())

    async def _slot(self, queue: deque[asyncio.Future[None]]) -> None:
        if self._stopped:
            raise self._stopped.copy()
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand_over()  # cancelled just after a slot was handed over
            raise

    def _hand_over(self) -> None:
        for queue in (self._again, self._first):
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1

    async def _in_turn(self, tokens: int) -> None:
        """Waits for the pace. Only the head of the queue books, so that a new pace holds for all behind it."""
        clock = asyncio.get_running_loop().time
        if not (self._requests or self._tokens or self._adaptive.rate or self._held_until > clock()):
            self._adaptive.book(clock())
            return
        async with self._head:
            start = self._adaptive.book(clock())
            if self._requests:
                start = max(start, self._requests.book(clock()))
            if self._tokens:
                start = max(start, self._tokens.book(clock(), tokens))
            await self._sleep_until(start)

    async def _sleep_until(self, moment: float) -> None:
        loop = asyncio.get_running_loop()
        if self._stopped:
            raise self._stopped.copy()
        while (until := max(moment, self._held_until)) > loop.time():
            waking = loop.create_future()
            timer = loop.call_at(until, _wake, waking)
            self._sleeping.add(waking)
            try:
                await waking
            finally:
                timer.cancel()
                self._sleeping.discard(waking)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
