"""How long a failing server is asked again."""

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
"""For so long a request is repeated, and a server that nothing is had of is asked at all."""

FIRST_RETRY_TIMEOUT_S = 3.0
"""The same, before anything was had of it."""

_THREAD = threading.local()


@dataclass(slots=True)
class ServerState:
    """What this process has had of its server, over all threads: whether anything, and since when nothing any more."""

    reached: bool = False
    silent_since: float | None = None
    heard_at: float = 0.0

    def heard(self) -> None:
        self.reached, self.silent_since, self.heard_at = True, None, time.monotonic()

    def failed(self, began: float) -> None:
        """What was begun then has failed: since then, or since something else was had, there was nothing."""
        if self.silent_since is None:
            self.silent_since = max(began, self.heard_at)

    def left(self, began: float) -> float:
        """Seconds in which what was begun then may be tried again."""
        since = min(began, began if self.silent_since is None else self.silent_since)
        bound = min(
            RETRY_TIMEOUT_S if self.reached else FIRST_RETRY_TIMEOUT_S, getattr(_THREAD, "bound", RETRY_TIMEOUT_S)
        )
        return since + bound - time.monotonic()


SERVER_STATE = ServerState()


@contextmanager
def retry_limit(seconds: float) -> Iterator[None]:
    """In this block, in this thread, patience ends after so many seconds."""
    _THREAD.bound = seconds
    try:
        yield
    finally:
        del _THREAD.bound


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait by a Retry-After header, which holds seconds or a date; None where it holds neither."""
    try:
        seconds = float(value or "")
    except ValueError:
        seconds = _seconds_until(value or "")
    return max(0.0, seconds) if seconds < float("inf") else None


def _seconds_until(date: str) -> float:
    try:
        until = parsedate_to_datetime(date)
    except ValueError:
        return float("inf")
    until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
    return (until - datetime.now(timezone.utc)).total_seconds()


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
