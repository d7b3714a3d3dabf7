"""The store of responses, the writer that fills it while requests run, and the ledger of what they cost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fdarx_core.llm.failures import TRANSIENT
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.task import UNDECIDED
from fdarx_core.records import Response, from_table
from fdarx_core.storage import Location, write_records

_LOG = logging.getLogger(__name__)
_CACHED_SEGMENTS = 8
_REUSED = "reused/"
_READERS, _WRITERS = 16, 8
_UNREADABLE = (pa.ArrowException, OSError, KeyError, TypeError)
"""Errors of parsing a damaged file, or a file of another format.

A store that cannot be reached raises StorageError instead, which ends the run: to go on would send, and pay for, all
its requests again.
"""
_FULL_SEGMENT = 256
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.05, 10.0
_INTERVAL_SHARE = 0.005
_USAGE = ["prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens"]
_LEDGER_COLUMNS = ["task", "endpoint", "reason", "attempts", *_USAGE, "latency_s"]


class ResponseStore:
    """Responses by their requests' keys, under `root` (RUN/responses) in segments `TASK/NAME.parquet`.

    A segment is written whole and never changed. Its name is a hash of its keys, so a repeated batch writes the same
    file. Responses whose reason begins with `transient_` are not stored. Other files are left alone and listed in
    `ignored` with the reason.

    A store can be pickled, with its index: call `index` first, and the workers need not list the folder. Each process
    sees the segments that existed when the index was read, and its own.
    """

    def __init__(self, root: Location) -> None:
        self.root = root
        self.ignored: dict[str, str] = {}
        self._segments: dict[str, str] | None = None
        self._cache: OrderedDict[str, dict[str, Response]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cache": OrderedDict()}

    def index(self) -> dict[str, str]:
        """Return the segment of each key, read once. Raises StorageError where `root` cannot be reached."""
        if self._segments is None:
            names = sorted(str(file).removeprefix(f"{self.root}/") for file in self.root.list(recursive=True))
            with ThreadPoolExecutor(_READERS) as readers:
                keys_by_name = list(readers.map(self._keys, names))
            # of two segments with the same key, the first by name counts, in every process
            segments = zip(names[::-1], keys_by_name[::-1], strict=True)
            self._segments = {key: name for name, keys in segments for key in keys}
        return self._segments

    def get(self, keys: Iterable[str]) -> dict[str, Response]:
        """Return the stored responses by key. A segment that is no longer readable counts as missing."""
        index = self.index()
        wanted = sorted((index[key], key) for key in set(keys) if key in index)
        responses: dict[str, Response] = {}
        for name, entries in groupby(wanted, key=lambda entry: entry[0]):
            segment = self._segment(name)
            responses |= {key: segment[key] for _, key in entries if key in segment}
        return responses

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield these columns of each segment, without the segments that `take_over` copied."""
        names = sorted(name for name in set(self.index().values()) if not name.startswith(_REUSED))
        with ThreadPoolExecutor(_READERS) as readers:
            yield from readers.map(lambda name: _parquet((self.root / name).read_bytes(), columns), names)

    def take_over(self, other: ResponseStore) -> None:
        """Copy another store's segments, so that its requests are not sent again. Call it before `index`."""
        for name in sorted(set(other.index().values())):
            target = self.root / f"{_REUSED}{name.removeprefix(_REUSED)}"
            if not target.exists():
                target.write_bytes((other.root / name).read_bytes())

    def put(self, responses: Iterable[Response]) -> None:
        """Store the final responses, in one new segment a task; the segments are written at the same time."""
        final = sorted(
            (response for response in responses if not response.reason.startswith(TRANSIENT)),
            key=lambda response: (response.task, response.key),
        )
        segments = {}
        for task, rows in groupby(final, key=lambda response: response.task):
            segment = {row.key: row for row in rows}
            digest = blake2b("".join(segment).encode(), digest_size=12).hexdigest()
            segments[f"{task}/{digest}.parquet"] = segment
        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(self._write, segments, segments.values()))
        for name, segment in segments.items():
            self.index().update(dict.fromkeys(segment, name))
            self._remember(name, segment)

    def _write(self, name: str, segment: dict[str, Response]) -> None:
        write_records(self.root / name, list(segment.values()), Response)

    def _keys(self, name: str) -> list[str]:
        if not name.endswith(".parquet"):
            self.ignored[name] = "not a Parquet file"
            return []
        data = (self.root / name).read_bytes()
        try:
            return list(_parquet(data, ["key"])["key"].to_pylist())
        except _UNREADABLE as error:
            self._ignore(name, error)
            return []

    def _segment(self, name: str) -> dict[str, Response]:
        if name not in self._cache:
            data = (self.root / name).read_bytes()
            try:
                self._remember(name, {row.key: row for row in from_table(_parquet(data), Response)})
            except _UNREADABLE as error:
                self._ignore(name, error)
                return {}
        self._cache.move_to_end(name)
        return self._cache[name]

    def _remember(self, name: str, segment: dict[str, Response]) -> None:
        self._cache[name] = segment
        if len(self._cache) > _CACHED_SEGMENTS:
            self._cache.popitem(last=False)

    def _ignore(self, name: str, error: Exception) -> None:
        self.ignored[name] = " ".join(str(error).split())
        file = self.root / name
        _LOG.warning("%s is not a readable segment of responses; its requests are sent again: %s", file, error)


class ResponseWriter:
    """Reads and writes a store in a thread of its own, so that requests never wait for a disk or for S3.

    A segment is written once 256 responses wait, or after a two-hundredth of the time since the first request, from
    0.05 to 10 s: a killed process loses few responses, and a long run does not write a flood of files.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "responses")
        self._index: dict[str, str] = {}
        self._waiting: dict[str, Response] = {}
        self._writing: dict[str, Response] = {}
        self._full = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._opened_at = 0.0

    async def open(self) -> None:
        """Read the store's index, once. Raises StorageError."""
        if not self._opened_at:
            self._index = await asyncio.get_running_loop().run_in_executor(self._thread, self._store.index)
            self._opened_at = self._opened_at or time.monotonic()

    def holds(self, key: str) -> bool:
        """Return whether the key has a response, written or still waiting."""
        return key in self._index or key in self._waiting or key in self._writing

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


def ledger(store: ResponseStore, models: Mapping[str, ModelConfig]) -> list[dict[str, Any]]:
    """Return a row for each task and endpoint in the store, sorted by name, as `run.json` has it.

    `failed` counts responses without a reply, undecided ones aside, `retries` all attempts beyond the first. Tokens
    are the server's counts, `cost` is in US dollars (None without prices), latencies are in seconds.
    """
    tables = list(store.tables(_LEDGER_COLUMNS))
    if not tables:
        return []
    rows = pa.concat_tables(tables)
    pairs = rows.group_by(["task", "endpoint"]).aggregate([]).to_pylist()
    return [_row(rows, task, endpoint, models) for task, endpoint in sorted((p["task"], p["endpoint"]) for p in pairs)]


def _row(rows: pa.Table, task: str, endpoint: str, models: Mapping[str, ModelConfig]) -> dict[str, Any]:
    own = rows.filter((pc.field("task") == task) & (pc.field("endpoint") == endpoint))
    total = Response("", task, 0, endpoint, "")
    for name in _USAGE:
        setattr(total, name, int(pc.sum(own[name], min_count=0).as_py()))
    p50, p95, p99 = (round(value, 3) for value in pc.quantile(own["latency_s"], [0.5, 0.95, 0.99]).to_pylist())
    model = models.get(endpoint)
    return {
        "task": task,
        "endpoint": endpoint,
        "requests": own.num_rows,
        "retries": int(pc.sum(own["attempts"]).as_py()) - own.num_rows,
        "failed": sum(reason not in ("", UNDECIDED) for reason in own["reason"].to_pylist()),
        "prompt_tokens": total.prompt_tokens,
        "cached_tokens": total.cached_tokens,
        "completion_tokens": total.completion_tokens,
        "cost": model.prices.cost(total) if model and model.prices else None,
        "latency_p50": p50,
        "latency_p95": p95,
        "latency_p99": p99,
    }


def _parquet(data: bytes, columns: list[str] | None = None) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read(columns)
