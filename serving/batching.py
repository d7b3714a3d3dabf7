"""Dynamic batching: one call of a model for the items of several requests.

`serve.batch` is not used because it fills a batch during a fixed wait, also while the model is busy with the previous
one: requests then either wait for nothing or share nothing. Of 12 requests that arrived during one call, it gave each
a call of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class DynamicBatcher(Generic[Item, Result]):
    """Calls `function` in a thread, one call at a time: at once when it is idle, else with all items that have arrived.

    `function` returns one result per item. The sizes of a call's items add up to at most `max_size`, unless a single
    item is larger. An instance belongs to one event loop.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Item]], Sequence[Result]],
        max_size: int,
        size: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._function, self._max_size, self._size = function, max_size, size
        self._queue: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """Return the item's result. Raises what `function` raised for the batch with the item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        try:
            while batch := self._next_batch():
                try:
                    results = await asyncio.to_thread(self._function, [item for item, _ in batch])
                except Exception as error:
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                    continue
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():
                        future.set_result(result)
        finally:
            self._worker = None

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        """Take the items of the next call from the queue; cancelled ones are dropped."""
        batch, size = list[tuple[Item, asyncio.Future[Result]]](), 0
        while self._queue:
            item, future = self._queue[0]
            if not future.done():
                size += self._size(item)
                if batch and size > self._max_size:
                    break
                batch.append((item, future))
            self._queue.popleft()
        return batch
