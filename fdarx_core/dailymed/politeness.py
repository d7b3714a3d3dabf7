"""How often a server is asked."""

from __future__ import annotations

import asyncio
import time


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
