"""The store of responses: segments of rows, found by the keys of their requests, and the ledger of what they cost."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import groupby, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.llm.failures import TRANSIENT
from fdarx_core.llm.model_config import ModelConfig, Prices
from fdarx_core.llm.response_index import (
    SUFFIX,
    SUMS,
    TOKENS,
    USAGE_COLUMNS,
    DamagedKeyFile,
    KeyFile,
    KeyTable,
    digest_keys,
    merge_usage,
    open_key_file,
    sum_usage,
    write_key_file,
)
from fdarx_core.records import Response, arrow_schema, from_table
from fdarx_core.storage import Location, write_records
from fdarx_core.storage.arrow_files import open_parquet

_LOG = logging.getLogger(__name__)
_CACHED_SEGMENTS = 8
_REUSED = "reused/"
_INDEX = ".index"
_READERS, _WRITERS = 16, 8
_UNREADABLE = (pa.ArrowException, OSError, KeyError, TypeError)
"""Errors of parsing a damaged file, or a file of another format.

A store that cannot be reached raises StorageError instead, which ends the run: to go on would send, and pay for, all
its requests again.
"""
_FEW_SEGMENTS, _FEW_KEYS = 16, 4096
"""Up to so many segments and keys are read anew by each process; more are worth a key file."""
_MOST_OWN = 2**19
"""Keys that a process has written and remembers one by one; at more it writes a key file."""
_SEGMENTS_AT_ONCE = 256


@dataclass(slots=True)
class _Index:
    """The key files, and the keys of the segments that none of them covers. `unused` are key files to delete."""

    files: list[KeyFile]
    tables: list[KeyTable]
    unused: list[Location] = field(default_factory=list)

    @property
    def sources(self) -> list[KeyTable]:
        return [*self.files, *self.tables]


class ResponseStore:
    """Responses by their requests' keys, under `root` (RUN/responses) in segments `TASK/NAME.parquet`.

    A segment is written whole and never changed. Its name is a hash of its keys, so a repeated batch writes the same
    file. Responses whose reason begins with `transient_` are not stored. Other files are left alone and listed in
    `ignored` with the reason.

    `compact` writes the keys of all segments into key files under `root/.index` (see `response_index`). Of a segment
    that no key file covers, the columns of keys and counts are read. A store without key files, or with damaged ones,
    has the same responses.

    A pickled store carries the names of the key files, and a few thousand keys at most: call `compact` first, and the
    workers need not list the folder. Each process sees the segments that existed when the index was read, and its own.
    """

    def __init__(self, root: Location) -> None:
        self.root = root
        self.ignored: dict[str, str] = {}
        self._index: _Index | None = None
        self._carried: tuple[list[Location], list[KeyTable]] | None = None
        self._own: dict[str, str] = {}
        self._cache: OrderedDict[str, dict[str, Response]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_cache": OrderedDict(), "_index": None}
        tables = self._index.tables if self._index else []
        if len(self._own) + sum(len(table.keys) for table in tables) > _FEW_KEYS:
            return state | {"_carried": None, "_own": {}}
        if self._index:
            state["_carried"] = ([file.location for file in self._index.files], tables)
        return state

    def index(self) -> dict[str, str]:
        """Return the segment of each key. The column of keys of every segment is read. Raises StorageError."""
        columns = self._columns(self.names(), ["key"])
        segments = {name: dict.fromkeys(table["key"].to_pylist(), name) for name, table in columns}
        return {key: name for keys in reversed(segments.values()) for key, name in keys.items()} | self._own

    def find(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """Return, by key, the segments that may hold it, for those of the keys that have any. Reads no responses."""
        listed = list(dict.fromkeys(keys))
        digests = digest_keys(listed)
        order = np.argsort(digests)
        ascending, positions = digests[order], order.tolist()
        found: dict[str, list[str]] = defaultdict(list)
        for source in self._loaded().sources:
            for at, name in source.find(ascending):
                found[listed[positions[at]]].append(name)
        # of two segments with the same key, the first by name counts, in every process
        own = {key: [self._own[key]] for key in listed if key in self._own}
        return {key: sorted(names) for key, names in found.items()} | own

    def get(self, keys: Iterable[str]) -> dict[str, Response]:
        """Return the stored responses by key. A segment that is no longer readable counts as missing."""
        responses: dict[str, Response] = {}
        left = self.find(keys)
        while left:
            wanted: dict[str, list[str]] = defaultdict(list)
            for key in sorted(left):
                wanted[left[key][0]].append(key)
            for name, segment in self._segments(sorted(wanted)):
                responses |= {key: segment[key] for key in wanted[name] if key in segment}
            left = {key: names[1:] for key, names in left.items() if names[1:] and key not in responses}
        return responses

    def names(self) -> list[str]:
        """Return the names of all readable segments, sorted."""
        indexed = (name for source in self._loaded().sources for name in source.segment_names)
        return sorted({*self._own.values(), *indexed})

    def usage(self) -> pa.Table:
        """Return the sums of `sum_usage` over all segments, without those that `take_over` copied."""
        index = self._read_index() if self._own else self._loaded()
        return merge_usage(source.usage for source in index.sources)

    def take_over(self, other: ResponseStore) -> None:
        """Copy another store's segments, so that its requests are not sent again. Call it before `compact`."""
        copied = {str(file).removeprefix(f"{self.root}/") for file in (self.root / _REUSED).list(recursive=True)}
        targets = {name: f"{_REUSED}{name.removeprefix(_REUSED)}" for name in other.names()}

        def copy(name: str) -> None:
            (self.root / targets[name]).write_bytes((other.root / name).read_bytes())

        with ThreadPoolExecutor(_READERS) as copiers:
            for _ in copiers.map(copy, [name for name, target in targets.items() if target not in copied]):
                pass

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
            places = [self.root / name for name in segments]
            rows_of_segments = [list(segment.values()) for segment in segments.values()]
            list(writers.map(write_records, places, rows_of_segments, repeat(Response)))
        for name, segment in segments.items():
            self._own |= dict.fromkeys(segment, name)
            self._remember(name, segment)
        if len(self._own) > _MOST_OWN:
            self.compact()

    def compact(self, *, prune: bool = False) -> None:
        """Write the keys of segments that no key file covers into one, unless they are few.

        Key files of up to twice its size are merged into it, so that their number grows with the logarithm of that of
        the keys. With `prune`, the files that an earlier call merged are deleted; a process that still uses one reads
        the index anew. Raises StorageError.
        """
        index = self._read_index()  # readers in other threads have the former index until the new one is whole
        for place in index.unused if prune else ():
            place.delete()
        count = sum(len(table.keys) for table in index.tables)
        if sum(len(table.segment_names) for table in index.tables) > _FEW_SEGMENTS or count > _FEW_KEYS:
            merged: list[KeyTable] = list(index.tables)
            files = sorted(index.files, key=lambda file: len(file.keys), reverse=True)
            while files and len(files[-1].keys) <= 2 * count:
                count += len(files[-1].keys)
                merged.append(files.pop())
            index = _Index([*files, write_key_file(self.root / _INDEX, merged)], [])
        self._index = index
        covered = {name for source in index.sources for name in source.segment_names}
        self._own = {key: name for key, name in self._own.items() if name not in covered}

    def _loaded(self) -> _Index:
        if self._index is None and self._carried is not None:
            places, tables = self._carried
            with suppress(DamagedKeyFile):
                self._index = _Index([open_key_file(place) for place in places], tables)
        if self._index is None:
            self._index = self._read_index()
        return self._index

    def _read_index(self) -> _Index:
        # Key files are listed before segments: all segments that they name are then in the second list.
        index, opened = _Index([], []), list[KeyFile]()
        for place in (self.root / _INDEX).list():
            if place.suffix == SUFFIX:
                try:
                    opened.append(open_key_file(place))
                except DamagedKeyFile as error:
                    _LOG.warning("%s is of no use, the keys of its segments are read from them: %s", place, error)
                    self.ignored[f"{_INDEX}/{place.name}"] = str(error)
                    index.unused.append(place)
        left = {str(file).removeprefix(f"{self.root}/") for file in self.root.list(recursive=True)}
        for file in sorted(opened, key=lambda file: (-len(file.keys), file.location)):
            if left.issuperset(file.segment_names):
                index.files.append(file)
                left -= set(file.segment_names)
            else:  # another file covers these segments, or some are gone
                index.unused.append(file.location)
        index.tables = [self._table(sorted(left))] if left else []
        return index

    def _table(self, names: Sequence[str]) -> KeyTable:
        """Return the keys and sums of some segments, from their columns."""
        segments: list[tuple[str, Any]] = []
        sums: list[pa.Table] = []
        for start in range(0, len(names), _SEGMENTS_AT_ONCE):
            batch = dict(self._columns(names[start : start + _SEGMENTS_AT_ONCE], ["key", *USAGE_COLUMNS]))
            segments += [(name, digest_keys(table["key"].to_pylist())) for name, table in batch.items()]
            counted = [table for name, table in batch.items() if not name.startswith(_REUSED)]
            if counted:
                sums = [merge_usage([*sums, sum_usage(pa.concat_tables(counted, promote_options="default"))])]
        return KeyTable.of(segments, merge_usage(sums))

    def _columns(self, names: Sequence[str], columns: list[str]) -> Iterator[tuple[str, pa.Table]]:
        """Yield these columns of each of the segments that is readable."""
        with ThreadPoolExecutor(_READERS) as readers:
            tables = readers.map(partial(self._read_columns, columns=columns), names)
            yield from ((name, table) for name, table in zip(names, tables, strict=True) if table is not None)

    def _read_columns(self, name: str, columns: list[str]) -> pa.Table | None:
        if not name.endswith(".parquet"):
            self.ignored[name] = "not a Parquet file"
            return None
        with (self.root / name).open_input() as stream:
            try:
                file = open_parquet(stream, self.root / name)
                for column in ("key", *USAGE_COLUMNS):
                    if file.schema_arrow.field(column).type != arrow_schema(Response).field(column).type:
                        raise TypeError(f"its column {column} is not of text or numbers as in a segment of responses")
                return file.read(columns)
            except _UNREADABLE as error:
                if isinstance(error, OSError) and error.errno:  # of the disk, not of the content
                    raise
                self._ignore(name, error)
                return None

    def _segments(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Response]]]:
        with ThreadPoolExecutor(_READERS) as readers:
            for start in range(0, len(names), _READERS):
                batch = names[start : start + _READERS]
                for name, segment in zip(batch, readers.map(self._segment, batch), strict=True):
                    self._remember(name, segment)
                    yield name, segment

    def _segment(self, name: str) -> dict[str, Response]:
        if name in self._cache:
            return self._cache[name]
        file = self.root / name
        data = file.read_bytes()
        try:
            return {row.key: row for row in from_table(open_parquet(data, file).read(), Response)}
        except _UNREADABLE as error:
            self._ignore(name, error)
            return {}

    def _remember(self, name: str, segment: dict[str, Response]) -> None:
        """Keep the segment in memory, unless it could not be read, as the last one to be forgotten."""
        if segment:
            self._cache[name] = segment
            self._cache.move_to_end(name)
            if len(self._cache) > _CACHED_SEGMENTS:
                self._cache.popitem(last=False)

    def _ignore(self, name: str, error: Exception) -> None:
        self.ignored[name] = " ".join(str(error).split())
        file = self.root / name
        _LOG.warning("%s is not a readable segment of responses; its requests are sent again: %s", file, error)


def ledger(store: ResponseStore, models: Mapping[str, ModelConfig]) -> list[dict[str, Any]]:
    """Return a row for each task and endpoint in the store, sorted by name, as `run.json` has it.

    `failed` counts responses without a reply, undecided ones aside, `retries` all attempts beyond the first. Tokens
    are the server's counts, `cost` is in US dollars (None without prices), latencies are in seconds and have three
    significant digits. `batched` counts the responses that came by a batch API.
    """
    usage = store.usage()
    pairs = (
        usage.group_by(["task", "endpoint"]).aggregate([]).sort_by([("task", "ascending"), ("endpoint", "ascending")])
    )
    return [_row(usage, pair["task"], pair["endpoint"], models.get(pair["endpoint"])) for pair in pairs.to_pylist()]


def _row(usage: pa.Table, task: str, endpoint: str, model: ModelConfig | None) -> dict[str, Any]:
    own = usage.filter((pc.field("task") == task) & (pc.field("endpoint") == endpoint))
    direct, batched = (
        {name: int(pc.sum(rows[name], min_count=0).as_py()) for name in SUMS}
        for rows in (own.filter(pc.field("batched") == by_batch) for by_batch in (False, True))
    )
    sums = {name: direct[name] + batched[name] for name in SUMS}
    prices = model.prices if model else None
    p50, p95, p99 = _latency_quantiles(own, (0.5, 0.95, 0.99))
    return {
        "task": task,
        "endpoint": endpoint,
        "requests": sums["requests"],
        "retries": sums["attempts"] - sums["requests"],
        "failed": sums["failed"],
        "batched": batched["requests"],
        "prompt_tokens": sums["prompt_tokens"],
        "cached_tokens": sums["cached_tokens"],
        "completion_tokens": sums["completion_tokens"],
        "cost": _cost(prices, direct, batched=False) + _cost(prices, batched, batched=True) if prices else None,
        "latency_p50": p50,
        "latency_p95": p95,
        "latency_p99": p99,
    }


def _cost(prices: Prices, sums: Mapping[str, int], *, batched: bool) -> float:
    response = Response("", "", 0, "", "", batched=batched)
    for name in TOKENS:
        setattr(response, name, sums[name])
    return prices.cost(response)


def _latency_quantiles(usage: pa.Table, shares: Sequence[float]) -> list[float]:
    """Return quantiles of the latencies by linear interpolation between neighbours, as `numpy.quantile` does."""
    ordered = usage.sort_by("latency_s")
    counts = ordered["requests"].to_numpy()
    ends = np.cumsum(counts)
    first_and_last = np.column_stack([ends - counts, ends - 1]).ravel()  # positions of each distinct latency
    values = np.repeat(ordered["latency_s"].to_numpy(), 2)
    return [round(float(value), 3) for value in np.interp(np.multiply(shares, ends[-1] - 1), first_and_last, values)]
