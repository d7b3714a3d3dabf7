"""The store of responses: segments of rows, found by the keys of their requests."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from fdarx_core.llm.failures import TRANSIENT
from fdarx_core.llm.response_index import (
    SUFFIX,
    DamagedKeyFile,
    KeyFile,
    KeySource,
    KeyTable,
    digest_keys,
    open_key_file,
    write_key_file,
)
from fdarx_core.llm.response_usage import USAGE_COLUMNS, add_usage, usage_of
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
_NEEDED = ("key", "task", "endpoint", "reason", "latency_s")
_FEW_SEGMENTS, _FEW_KEYS = 16, 4096
"""Up to so many segments and keys are read anew by each process; more are worth a key file."""
_MOST_OWN = 2**19
"""Keys that a process has written and remembers one by one; at more it writes a key file."""
_SEGMENTS_PER_TABLE = 4096
_SEGMENTS_AT_ONCE = 256


@dataclass(slots=True)
class _Index:
    """The key files, and the keys of the segments that none of them covers. `unused` are key files to delete."""

    files: list[KeyFile]
    tables: list[KeyTable]
    unused: list[Location] = field(default_factory=list)

    @property
    def sources(self) -> list[KeySource]:
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
        if len(self._own) + sum(table.count for table in tables) > _FEW_KEYS:
            return state | {"_carried": None, "_own": {}}
        if self._index:
            state["_carried"] = ([file.place for file in self._index.files], tables)
        return state

    def index(self) -> Mapping[str, str]:
        """Return the segment of each key, as a view that looks keys up. Raises StorageError where `root` is not there.

        To iterate over the view or to count its keys, the column of keys of every segment is read.
        """
        self._loaded()
        return _StoredKeys(self)

    def find(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """Return, by key, the segments that may hold it, for those of the keys that have any. Reads no responses."""
        listed = list(dict.fromkeys(keys))
        while True:
            try:
                found = self._search(listed)
            except DamagedKeyFile as error:
                self._set_aside(error)
            else:
                # of two segments with the same key, the first by name counts, in every process
                own = {key: [name] for key in listed if (name := self._own.get(key))}
                return {key: sorted(names) for key, names in found.items()} | own

    def has_written(self, key: str) -> bool:
        """Return whether this process has written the key and remembers it by itself. Waits for nothing."""
        return key in self._own

    def has_only_written(self) -> bool:
        """Return whether all keys of the store are ones that `has_written` knows. Waits for nothing."""
        return self._index is not None and not any(source.count for source in self._index.sources)

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
        return sorted({*self._own.values(), *(name for one in self._loaded().sources for name in one.names)})

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield these columns of each segment, without the segments that `take_over` copied."""
        names = [name for name in self.names() if not name.startswith(_REUSED)]
        yield from (table for _, table in self._columns(names, columns))

    def usage(self) -> pa.Table:
        """Return the sums of `response_usage` over all segments, without those that `take_over` copied."""
        index = self._read_index() if self._own else self._loaded()
        return add_usage(source.usage for source in index.sources)

    def take_over(self, other: ResponseStore) -> None:
        """Copy another store's segments, so that its requests are not sent again. Call it before `compact`."""
        there = {str(file).removeprefix(f"{self.root}/") for file in (self.root / _REUSED).list(recursive=True)}
        targets = {name: f"{_REUSED}{name.removeprefix(_REUSED)}" for name in other.names()}

        def copy(name: str) -> None:
            (self.root / targets[name]).write_bytes((other.root / name).read_bytes())

        with ThreadPoolExecutor(_READERS) as copiers:
            for _ in copiers.map(copy, [name for name, target in targets.items() if target not in there]):
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
            list(writers.map(self._write, segments, segments.values()))
        for name, segment in segments.items():
            self._own |= dict.fromkeys(segment, name)
            self._remember(name, segment)
        if len(self._own) > _MOST_OWN:
            self.compact()

    def _write(self, name: str, segment: dict[str, Response]) -> None:
        write_records(self.root / name, list(segment.values()), Response)

    def compact(self, *, prune: bool = False) -> None:
        """Write the keys of segments that no key file covers into one, unless they are few.

        Key files of up to twice its size are merged into it, so that their number grows with the logarithm of that of
        the keys. With `prune`, the files that an earlier call merged are deleted; a process that still uses one reads
        the index anew. Raises StorageError.
        """
        while True:
            index = self._read_index()
            try:
                self._index = self._compacted(index, prune)
            except DamagedKeyFile as error:
                self._set_aside(error)
            else:
                covered = {name for source in self._index.sources for name in source.names}
                self._own = {key: name for key, name in self._own.items() if name not in covered}
                return

    def _compacted(self, index: _Index, prune: bool) -> _Index:
        if prune:
            for place in index.unused:
                place.delete()
        count = sum(table.count for table in index.tables)
        if sum(len(table.names) for table in index.tables) <= _FEW_SEGMENTS and count <= _FEW_KEYS:
            return index
        merged: list[KeySource] = list(index.tables)
        files = sorted(index.files, key=lambda file: file.count, reverse=True)
        while files and files[-1].count <= 2 * count:
            count += files[-1].count
            merged.append(files.pop())
        return _Index([*files, write_key_file(self.root / _INDEX, merged)], [])

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
        opened, unused = self._key_files()
        listed = {str(file).removeprefix(f"{self.root}/") for file in self.root.list(recursive=True)}
        index, left = _Index([], [], unused), set(listed)
        for file in sorted(opened, key=lambda file: (-file.count, file.place)):
            if left.issuperset(file.names):
                index.files.append(file)
                left -= set(file.names)
            else:  # another file covers these segments, or some are gone
                index.unused.append(file.place)
        names = sorted(left)
        starts = range(0, len(names), _SEGMENTS_PER_TABLE)
        index.tables = [self._table(names[start : start + _SEGMENTS_PER_TABLE]) for start in starts]
        return index

    def _key_files(self) -> tuple[list[KeyFile], list[Location]]:
        opened, damaged = [], []
        for place in (self.root / _INDEX).list():
            try:
                if place.suffix == SUFFIX:
                    opened.append(open_key_file(place))
            except DamagedKeyFile as error:
                self._set_aside(error)
                damaged.append(place)
        return [file for file in opened if f"{_INDEX}/{file.place.name}" not in self.ignored], damaged

    def _table(self, names: Sequence[str]) -> KeyTable:
        """Return the keys and sums of some segments, from their columns."""
        segments: list[tuple[str, Any]] = []
        sums: list[pa.Table] = []
        for start in range(0, len(names), _SEGMENTS_AT_ONCE):
            batch = dict(self._columns(names[start : start + _SEGMENTS_AT_ONCE], ["key", *USAGE_COLUMNS]))
            segments += [(name, digest_keys(table["key"].to_pylist())) for name, table in batch.items()]
            counted = [table for name, table in batch.items() if not name.startswith(_REUSED)]
            if counted:
                sums = [add_usage([*sums, usage_of(pa.concat_tables(counted, promote_options="default"))])]
        return KeyTable.of(segments, add_usage(sums))

    def _search(self, keys: Sequence[str]) -> dict[str, list[str]]:
        digests = digest_keys(keys)
        order = np.argsort(digests)
        ascending, positions = digests[order], order.tolist()
        found: dict[str, list[str]] = defaultdict(list)
        for source in self._loaded().sources:
            for at, name in source.find(ascending):
                found[keys[positions[at]]].append(name)
        return found

    def _set_aside(self, error: DamagedKeyFile) -> None:
        """Go on without a key file: its segments are read again."""
        _LOG.warning("%s is of no use, the keys of its segments are read from them: %s", error.place, error.reason)
        self.ignored[f"{_INDEX}/{error.place.name}"] = error.reason
        self._index = self._carried = None
        open_key_file.cache_clear()

    def _columns(self, names: Sequence[str], columns: list[str]) -> Iterator[tuple[str, pa.Table]]:
        """Yield these columns of each of the segments that is readable; a few segments are in memory at a time."""
        with ThreadPoolExecutor(_READERS) as readers:
            for start in range(0, len(names), _SEGMENTS_AT_ONCE):
                batch = names[start : start + _SEGMENTS_AT_ONCE]
                tables = readers.map(partial(self._read_columns, columns=columns), batch)
                yield from ((name, table) for name, table in zip(batch, tables, strict=True) if table is not None)

    def _read_columns(self, name: str, columns: list[str]) -> pa.Table | None:
        if not name.endswith(".parquet"):
            self.ignored[name] = "not a Parquet file"
            return None
        with (self.root / name).open_input() as stream:
            try:
                file = open_parquet(stream, self.root / name)
                for column in _NEEDED:
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
                missing = [name for name in batch if name not in self._cache]
                data = dict(
                    zip(missing, readers.map(lambda name: (self.root / name).read_bytes(), missing), strict=True)
                )
                for name in batch:
                    yield name, self._segment(name, data.get(name))

    def _segment(self, name: str, data: bytes | None) -> dict[str, Response]:
        """Return a segment from its bytes, None if it is in the cache."""
        if name not in self._cache:
            try:
                file = self.root / name
                table = open_parquet(data or file.read_bytes(), file).read()
                self._remember(name, {row.key: row for row in from_table(table, Response)})
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


class _StoredKeys(Mapping[str, str]):
    """The segment of each key of a store."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    def __getitem__(self, key: str) -> str:
        return self._store.find([key])[key][0]

    def __iter__(self) -> Iterator[str]:
        tables = self._store._columns(self._store.names(), ["key"])
        return iter({key: None for _, table in tables for key in table["key"].to_pylist()})

    def __len__(self) -> int:
        return sum(1 for _ in self)
