"""How often Entrez is asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fdarx_core.llm.limits import Limits

_SECOND = 1.0


class Window:
    """No more than `rate` requests reach the server in any second, however long the way there takes each of them.

    Of `rate` places each is free again a second after its request was answered: it had arrived by then. An even pace of
    sending can't promise that, since a request that is held up on its way comes close to the next ones. `limits` has
    `rate` slots; a place is taken by whoever holds one.
    """

    def __init__(self, rate: int, limits: Limits) -> None:
        self._places, self._limits = deque([0.0] * rate), limits
        self._held = 0.0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """In the block one request may be sent and its reply awaited. Raises what `limits` was stopped with."""
        clock = asyncio.get_running_loop().time
        free_at = self._places.popleft()
        try:
            while (wait := max(free_at, self._held) - clock()) > 0:
                await self._limits.pause(wait)
            yield
        finally:
            self._places.append(clock() + _SECOND)

    def hold(self, seconds: float) -> None:
        """Nothing is sent for so long."""
        self._held = max(self._held, asyncio.get_running_loop().time() + seconds)
