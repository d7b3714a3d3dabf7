"""Storing responses behind the asking, in segments at short intervals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.store import ResponseStore
from fdarx_core.records import Response

_FULL = 256
_SHORTEST_S, _LONGEST_S = 0.05, 10.0
_SHARE_OF_RUN = 0.005


class SegmentWriter:
    """Reads and writes a store from one thread of its own, so that asking never waits for a disk or for S3.

    A segment is written once 256 responses wait, or after a two-hundredth of the time that this has gone on for, from
    0.05 to 10 s: a process that is killed loses little of what was answered, and a long run writes no flood of files.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "responses")
        self._index: dict[str, str] = {}
        self._waiting: dict[str, Response] = {}
        self._writing: dict[str, Response] = {}
        self._full = asyncio.Event()
        self._turn = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._since = 0.0

    async def open(self) -> None:
        """Reads the store's index; free when it has been read. Raises StorageError."""
        if not self._since:
            self._index = await asyncio.get_running_loop().run_in_executor(self._thread, self._store.index)
            self._since = self._since or time.monotonic()

    def holds(self, key: str) -> bool:
        """Whether the key has a response, written yet or not."""
        return key in self._index or key in self._waiting or key in self._writing

    async def read(self, keys: Sequence[str]) -> dict[str, Response]:
        """The responses of keys that it holds, less those whose segment turns out to be damaged."""
        fresh = {key: row for key in keys if (row := self._waiting.get(key) or self._writing.get(key))}
        stored = [key for key in keys if key not in fresh]
        if not stored:
            return fresh
        return fresh | await asyncio.get_running_loop().run_in_executor(self._thread, self._store.get, stored)

    def add(self, response: Response) -> None:
        """Has it written soon, unless it is one to ask again. Raises StorageError where writing has failed."""
        if response.reason.startswith(TRANSIENT):
            return
        self._waiting[response.key] = response
        if self._writer and self._writer.done():
            self._writer.result()
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_on())
        if len(self._waiting) >= _FULL:
            self._full.set()

    async def flush(self) -> None:
        """Returns when all that was added so far is written. Raises StorageError where writing has failed."""
        if self._writer and self._writer.done():
            self._writer.result()
        await self._write()

    def close(self) -> None:
        """Call `flush` first: what waits is not written."""
        if self._writer is not None:
            self._writer.cancel()
        self._thread.shutdown(wait=False)

    async def _write_on(self) -> None:
        while self._waiting:
            interval = (time.monotonic() - self._since) * _SHARE_OF_RUN
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._full.wait(), min(max(interval, _SHORTEST_S), _LONGEST_S))
            await self._write()

    async def _write(self) -> None:
        async with self._turn:
            self._full.clear()
            self._writing, self._waiting = self._waiting, {}
            if self._writing:
                rows = list(self._writing.values())
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.put, rows)
            self._writing = {}
