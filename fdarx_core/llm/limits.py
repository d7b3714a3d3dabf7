"""Limits on the requests to one server: requests in flight, rates, and prompt prefixes that warm a cache."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import blake2b
from math import inf, isinf
from typing import Any, TypeVar

from fdarx_core.llm.failures import AskingStopped
from fdarx_core.llm.model_config import count_messages, estimate_tokens
from fdarx_core.records import Request
from fdarx_core.storage.retry import RateLimiter

MIN_PREFIX_TOKENS = 1024
"""Shortest prefix, in estimated tokens, that most vendors cache."""
PREFIX_CACHED_S = 240.0
"""Vendors keep a prefix for five minutes from its last use."""

_CATCH_UP_S = 0.05
"""How late, in seconds, a request may start and still use its reserved time."""
_ALL_REFUSED = 16
"""Refusals in a row after which all requests wait for as long as the server asks."""
_EPOCH_S, _EPOCH_REQUESTS = 1.0, 3
"""The least time in seconds, and the fewest requests, after which the rate is adapted."""
_FLOODED_S, _FLOOD_REFUSALS = 0.1, 32
"""The same time while most requests are refused, and the refusals from which this applies."""
_TOLERATED_SHARE, _PROBE = 0.15, 1.1
"""The share of refusals that does not lower the rate, and the factor by which a new rate exceeds the accepted one."""
_FIRST_GROWTH, _MAX_GROWTH = 1.1, 2.0
"""The factor of the first increase of the rate, and the largest factor."""
_STEEPEST_CUT, _MIN_RATE = 0.25, 0.2
"""The least share of the rate that one reduction leaves, and the lowest rate in requests a second."""

Result = TypeVar("Result")


class RequestLimiter:
    """Limits the requests in flight, the requests and tokens a minute, and adapts to what the server refuses.

    A slot is held from `acquire` to `release`, and never while a request waits for its next attempt. Requests that
    retry come before new ones. An object belongs to one event loop.
    """

    def __init__(self, max_in_flight: int, per_minute: float | None, tokens_per_minute: float | None) -> None:
        self.in_flight = 0
        self._free = max_in_flight
        self._retrying: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()
        self._sleeping: set[asyncio.Future[Any]] = set()
        self._requests = RateLimiter(per_minute / 60 if per_minute else inf, _CATCH_UP_S)
        self._tokens = RateLimiter(tokens_per_minute / 60 if tokens_per_minute else inf, _CATCH_UP_S)
        self._adaptive = AdaptiveRateLimiter()
        self._paused_until, self._refused_in_a_row = 0.0, 0
        self._stopped: AskingStopped | None = None
        self._queue_head_lock = asyncio.Lock()

    async def acquire(self, tokens: int = 0, retry: bool = False) -> float:
        """Wait for a slot and for the rates; return the loop's time when both were granted.

        Raises the error that `stop` was given.
        """
        await self._take_slot(self._retrying if retry else self._new)
        clock = asyncio.get_running_loop().time
        try:
            async with self._queue_head_lock:  # only the first reserves, so that changed rates apply to all
                starts = self._requests.reserve(clock()), self._tokens.reserve(clock(), tokens)
                await self._sleep_until(max(self._adaptive.reserve(clock()), *starts))
        except BaseException:
            self._hand_over()
            raise
        self.in_flight += 1
        return clock()

    def release(self) -> None:
        self.in_flight -= 1
        self._hand_over()

    async def pause(self, seconds: float) -> None:
        """Sleep without holding a slot. Raises the error of `stop`."""
        await self._sleep_until(asyncio.get_running_loop().time() + seconds)

    async def wait_for(self, outcome: asyncio.Future[Result]) -> Result:
        """Return the result of a future that nobody else waits for. Raises its error, or that of `stop`."""
        if self._stopped:
            raise self._stopped.copy()
        self._sleeping.add(outcome)
        try:
            return await outcome
        finally:
            self._sleeping.discard(outcome)

    def correct_tokens(self, estimated: int, counted: int) -> None:
        """Reserve the difference between an estimate and the server's count."""
        self._tokens.reserve(0.0, counted - estimated)

    def accepted(self) -> None:
        """Note that the server answered a request."""
        self._refused_in_a_row = 0

    def refused(self, acquired_at: float, retry_after: float | None) -> None:
        """Note that the server asked for fewer requests. If it refuses many in a row, all wait for `retry_after`."""
        now = asyncio.get_running_loop().time()
        self._adaptive.refused(now, acquired_at)
        self._refused_in_a_row += 1
        if retry_after and self._refused_in_a_row >= _ALL_REFUSED:
            self._paused_until = max(self._paused_until, now + retry_after)

    def stop(self, error: AskingStopped) -> None:
        """Raise this error in every task that waits for a slot, a rate or a retry, now and from now on."""
        self._stopped = self._stopped or error
        for waiting in (*self._retrying, *self._new, *self._sleeping):
            if not waiting.done():
                waiting.set_exception(self._stopped.copy())

    async def _take_slot(self, queue: deque[asyncio.Future[None]]) -> None:
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
                self._hand_over()  # cancelled just after the slot was handed over
            raise

    def _hand_over(self) -> None:
        for queue in (self._retrying, self._new):
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1

    async def _sleep_until(self, moment: float) -> None:
        loop = asyncio.get_running_loop()
        if self._stopped:
            raise self._stopped.copy()
        while (until := max(moment, self._paused_until)) > loop.time():
            wake = loop.create_future()
            timer = loop.call_at(until, resolve, wake, None)
            try:
                await self.wait_for(wake)
            finally:
                timer.cancel()


def resolve(outcome: asyncio.Future[Result], result: Result) -> None:
    """Set the result of a future, unless it has one or an error already."""
    if not outcome.done():
        outcome.set_result(result)


class AdaptiveRateLimiter:
    """Finds the rate that a server accepts, in requests a second; unlimited until the server refuses requests.

    The rate is adapted once a second, after at least three requests, and sooner while most are refused:

    - If more than 15 % were refused, the rate becomes that of the accepted requests plus a tenth. The extra tenth tests
      whether the server accepts more. The new rate is never below a quarter of the old one. If it was lowered before
      and about the same share is refused, the refusals do not depend on the rate, and the former rate is set again.
    - Otherwise the rate grows, faster each time. The limit is dropped once requests come more slowly than it allows.

    A few refusals do not lower the rate, because each costs only one retry, which holds no slot. A server that refuses
    some requests at any rate would otherwise be asked more and more slowly.
    """

    def __init__(self) -> None:
        self._limiter = RateLimiter(inf, _CATCH_UP_S)
        self._growth = _FIRST_GROWTH
        self._since, self._latest = 0.0, 0.0
        self._sent = self._refused = 0
        self._before_cut: tuple[float, float] | None = None

    @property
    def rate(self) -> float:
        """Requests a second, infinite where they are not limited."""
        return self._limiter.rate

    def reserve(self, now: float) -> float:
        """Return the time at which one request may start."""
        if now - self._latest > _EPOCH_S + 1 / self.rate:  # a pause says nothing about the server
            self._begin_epoch(now)
        self._adapt(now)
        start = self._limiter.reserve(now)
        self._latest = max(now, start)
        self._sent += 1
        return start

    def refused(self, now: float, sent_at: float) -> None:
        if sent_at >= self._since:  # otherwise it was sent under an earlier rate
            self._refused += 1
            self._adapt(now)

    def _begin_epoch(self, now: float) -> None:
        self._since, self._sent, self._refused = now, 0, 0

    def _adapt(self, now: float) -> None:
        seconds = now - self._since
        flooded = self._refused >= _FLOOD_REFUSALS and 2 * self._refused > self._sent
        if seconds < (_FLOODED_S if flooded else _EPOCH_S) or self._sent < _EPOCH_REQUESTS:
            return
        sent, share = self._sent / seconds, self._refused / self._sent
        if share > _TOLERATED_SHARE:
            self._growth = _FIRST_GROWTH
            if self._before_cut and share > _halfway_share(*self._before_cut, sent):
                self._limiter.rate = max(self._before_cut[0], sent) * _PROBE
                self._before_cut = None
            else:
                slowest = max(_MIN_RATE, _STEEPEST_CUT * (sent if isinf(self.rate) else self.rate))
                self._limiter.rate = max(slowest, sent * (1 - share) * _PROBE)
                self._before_cut = (sent, share)
        elif not isinf(self.rate):
            rate = self._growth * self.rate
            self._limiter.rate = rate if rate < 4 * sent else inf  # what is reserved stays reserved
            self._before_cut = None
            self._growth = min(_MAX_GROWTH, self._growth**2)
        self._begin_epoch(now)


def _halfway_share(sent_before: float, share_before: float, sent: float) -> float:
    """Return the mean of two shares: that refused before the rate was lowered, and that expected at the lower rate.

    A larger share than this shows that lowering the rate did not help. The result is 1 if nothing can be expected,
    because most requests were refused before or no fewer are sent now.
    """
    if share_before > 0.5 or sent >= 0.95 * sent_before:
        return 1.0
    expected = 1 - (1 - share_before) * sent_before / sent
    return (share_before + max(0.0, expected)) / 2


class PrefixWarmup:
    """Sends the first request of each long prompt prefix alone, so that the others find it in a vendor's cache.

    The prefix of a request is all its messages but the last. The requests of a prefix are sent one at a time until one
    of them is answered. Requests with short prefixes do not wait. A caller should hold no slot while it waits here. An
    object belongs to one event loop.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._cached_until: dict[bytes, float] = {}  # by digests of prefixes, the last used one last
        self._locks: dict[bytes, asyncio.Lock] = {}  # of prefixes that no request has been answered for

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[bool]:
        """Wait until the request may be sent, yield whether it waited. The block's end marks the prefix as cached."""
        if not self._enabled or count_messages(request.messages[:-1], estimate_tokens) < MIN_PREFIX_TOKENS:
            yield False
            return
        content = "".join(f"{message['role']}\0{message['content']}\0" for message in request.messages[:-1])
        digest = blake2b(content.encode("utf-8", "replace"), digest_size=16).digest()
        waited = False
        async with AsyncExitStack() as alone:
            if not self._is_cached(digest):
                lock = self._locks.setdefault(digest, asyncio.Lock())
                waited = lock.locked()
                await alone.enter_async_context(lock)
                if self._is_cached(digest):
                    await alone.aclose()
            yield waited
            now = asyncio.get_running_loop().time()
            self._locks.pop(digest, None)
            self._cached_until.pop(digest, None)
            self._cached_until[digest] = now + PREFIX_CACHED_S
            while self._cached_until[oldest := next(iter(self._cached_until))] < now:
                del self._cached_until[oldest]

    def _is_cached(self, digest: bytes) -> bool:
        return self._cached_until.get(digest, -1.0) >= asyncio.get_running_loop().time()
