"""The writer that fills a response store while requests run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from fdarx_core.llm.failures import TRANSIENT
from fdarx_core.llm.response_store import ResponseStore
from fdarx_core.records import Response

_FULL_SEGMENT = 256
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.05, 10.0
_INTERVAL_SHARE = 0.005


class ResponseWriter:
    """Reads and writes a store in a thread of its own, so that requests never wait for a disk or for S3.

    A segment is written once 256 responses wait, or after a two-hundredth of the time since the first request, from
    0.05 to 10 s: a killed process loses few responses, and a long run does not write a flood of files.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "responses")
        self._waiting: dict[str, Response] = {}
        self._writing: dict[str, Response] = {}
        self._full = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._opened_at = 0.0

    async def open(self) -> None:
        """Read the store's index, once, and write what it lacks. Raises StorageError."""
        if not self._opened_at:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.compact)
            self._opened_at = self._opened_at or time.monotonic()

    async def held(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a response, written or still waiting, as it is when this returns."""
        added = {key for key in keys if self._added(key)}
        if self._store.has_only_written():  # checked last: until then, no key has moved from there into a key file
            return added
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._store.find, keys)
        return {key for key in keys if key in found or self._added(key)}

    def _added(self, key: str) -> bool:
        """Return whether the key has a response that has been added here, though it may be written by now."""
        return key in self._waiting or key in self._writing or self._store.has_written(key)

    async def read(self, keys: Sequence[str]) -> dict[str, Response]:
        """Return the responses of keys that it holds, except those in damaged segments."""
        unwritten = {key: row for key in keys if (row := self._waiting.get(key) or self._writing.get(key))}
        stored = [key for key in keys if key not in unwritten]
        if not stored:
            return unwritten
        return unwritten | await asyncio.get_running_loop().run_in_executor(self._thread, self._store.get, stored)

    def add(self, response: Response) -> None:
        """Queue a response for writing, unless it is transient. Raises StorageError where writing has failed."""
        if response.reason.startswith(TRANSIENT):
            return
        self._waiting[response.key] = response
        self._raise_failed_write()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_periodically())
        if len(self._waiting) >= _FULL_SEGMENT:
            self._full.set()

    async def flush(self) -> None:
        """Return when all responses added so far are written. Raises StorageError where writing has failed."""
        self._raise_failed_write()
        await self._write()

    def close(self) -> None:
        """Stop writing. Call `flush` first: waiting responses are not written."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False)

    def _raise_failed_write(self) -> None:
        if self._task and self._task.done():
            self._task.result()

    async def _write_periodically(self) -> None:
        while self._waiting:
            interval = (time.monotonic() - self._opened_at) * _INTERVAL_SHARE
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._full.wait(), min(max(interval, _MIN_INTERVAL_S), _MAX_INTERVAL_S))
            await self._write()

    async def _write(self) -> None:
        async with self._lock:
            self._full.clear()
            self._writing, self._waiting = self._waiting, {}
            if self._writing:
                rows = list(self._writing.values())
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.put, rows)
            self._writing = {}
