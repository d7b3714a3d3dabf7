"""How often a server is asked."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


class Turns:
    """Evenly spaced starts, at most `rate` a second over all connections; none while the server asks for peace."""

    def __init__(self, rate: float) -> None:
        self._gap = 1 / rate
        self._next = self._held = 0.0

    async def turn(self) -> None:
        """Returns when the next request may start."""
        while True:
            now = time.monotonic()
            start = max(self._next, now)
            self._next = start + self._gap
            await asyncio.sleep(start - now)
            if start >= self._held:
                return

    def hold(self, seconds: float) -> None:
        self._held = max(self._held, time.monotonic() + seconds)
        self._next = max(self._next, self._held)


def retry_after(value: str | None) -> float | None:
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
