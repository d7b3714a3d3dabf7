"""Retries: how long a failing server is asked again, and the rate of requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

RETRY_TIMEOUT_S = 300.0
"""Seconds for which a failing request is repeated, and for which an unreachable server is asked at all."""
FIRST_RETRY_TIMEOUT_S = 3.0
"""The same before the first success: the address may be wrong."""

_THREAD = threading.local()


@dataclass(slots=True)
class ServerState:
    """The state of the server as this process knows it, over all threads.

    `reached` says that it has answered, `silent_since` is the time from which all requests failed, and `answered_at`
    the time of its last answer.
    """

    reached: bool = False
    silent_since: float | None = None
    answered_at: float = 0.0

    def answered(self) -> None:
        """Record an answer."""
        self.reached, self.silent_since, self.answered_at = True, None, time.monotonic()

    def failed(self, began: float) -> None:
        """Record the failure of a request that began at this time."""
        if self.silent_since is None:
            self.silent_since = max(began, self.answered_at)

    def left(self, began: float) -> float:
        """Return the seconds in which a request that began at this time may be repeated."""
        since = min(began, began if self.silent_since is None else self.silent_since)
        timeout = RETRY_TIMEOUT_S if self.reached else FIRST_RETRY_TIMEOUT_S
        return since + min(timeout, getattr(_THREAD, "limit", RETRY_TIMEOUT_S)) - time.monotonic()


SERVER_STATE = ServerState()


@contextmanager
def retry_limit(seconds: float) -> Iterator[None]:
    """Limit the retries of this thread in this context."""
    _THREAD.limit = seconds
    try:
        yield
    finally:
        del _THREAD.limit


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which has seconds or a date; None for any other value."""
    try:
        seconds = float(value or "")
    except ValueError:
        try:
            until = parsedate_to_datetime(value or "")
        except ValueError:
            return None
        until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
        seconds = (until - datetime.now(timezone.utc)).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


class RateLimiter:
    """Evenly spaced starts: at most `rate` a second. Starts that are late by `catch_up_s` or less are made up for."""

    def __init__(self, rate: float, catch_up_s: float = 0.0) -> None:
        self.rate, self._catch_up_s = rate, catch_up_s
        self._next = self._held_until = 0.0

    def reserve(self, now: float, amount: float = 1.0) -> float:
        """Return the time at which this amount may start; what is reserved next starts after it."""
        start = max(self._next, now - self._catch_up_s)
        self._next = start + amount / self.rate
        return start

    async def wait(self) -> None:
        """Return when the next request may start."""
        while True:
            now = time.monotonic()
            start = self.reserve(now)
            await asyncio.sleep(start - now)
            if start >= self._held_until:
                return

    def hold(self, seconds: float) -> None:
        """Let no request start for so many seconds."""
        self._held_until = max(self._held_until, time.monotonic() + seconds)
        self._next = max(self._next, self._held_until)
