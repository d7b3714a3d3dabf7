"""One call of a model for what several requests want of it.

Why not `serve.batch`: it forms a batch within a fixed wait, also while the model works on another, so that requests
either wait for nothing or share nothing. Of 12 requests that came while one was scored, each got a call of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Together(Generic[Item, Result]):
    """Calls `work` in a thread, one call at a time: at once when it rests, else with all that has come meanwhile.

    `work` gives one result an item. A call takes items whose sizes add up to `most`, or one that alone is larger.
    Belongs to one event loop.
    """

    def __init__(
        self, work: Callable[[Sequence[Item]], Sequence[Result]], most: int, size: Callable[[Item], int] = lambda _: 1
    ) -> None:
        self._work, self._most, self._size = work, most, size
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._working: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """The item's result. Raises what `work` raised for the call that it was in."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._working is None:
            self._working = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        try:
            while batch := self._next():
                await self._call(batch)
        finally:
            self._working = None

    def _next(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        """What is to be worked on; those whose requests have left fall away."""
        batch, size = list[tuple[Item, asyncio.Future[Result]]](), 0
        while self._waiting:
            item, future = self._waiting[0]
            if future.done():
                self._waiting.popleft()
                continue
            size += self._size(item)
            if batch and size > self._most:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _call(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await asyncio.to_thread(self._work, [item for item, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
