"""What was answered, kept by the request's key, so that nothing is asked or paid twice."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.records import Response, from_table
from fdarx_core.storage import Location, write_records

_LOG = logging.getLogger(__name__)
_KEPT_SEGMENTS = 8
_TAKEN_OVER = "reused/"
_READERS = 16
_NO_SEGMENT = (pa.ArrowException, OSError, KeyError, TypeError)
"""What parsing a damaged or foreign file raises. A place that can't be reached is a StorageError, and stops the run:
to go on as if nothing were there would ask, and pay for, all of it again."""


class ResponseStore:
    """Responses under `root` (RUN/responses), in segments `TASK/NAME.parquet`, on a disk or on S3.

    A segment is written whole and never changed; its name is a hash of the keys in it, so that a repeated batch writes
    the same file. Responses whose reason begins with `transient_` are not kept. Files that are no segments are left
    alone and listed in `ignored`, with why.

    It can be sent to workers, and takes its index with it: call `index` first, and they need not list the folder.
    Each process sees what stood there when the index was read, and what it has put itself.
    """

    def __init__(self, root: Location) -> None:
        self.root = root
        self.ignored: dict[str, str] = {}
        self._segments: dict[str, str] | None = None
        self._read_lately: OrderedDict[str, dict[str, Response]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_read_lately": OrderedDict()}

    def index(self) -> dict[str, str]:
        """From each key to the segment that holds it; read once. Raises StorageError where `root` can't be reached."""
        if self._segments is None:
            names = sorted(str(file).removeprefix(f"{self.root}/") for file in self.root.list(recursive=True))
            with ThreadPoolExecutor(_READERS) as readers:
                found = list(readers.map(self._keys, names))
            # of two segments with the same key, the first by name answers, in every process
            self._segments = {key: name for name, keys in zip(names[::-1], found[::-1], strict=True) for key in keys}
        return self._segments

    def get(self, keys: Iterable[str]) -> dict[str, Response]:
        """The responses that are there, by key. A segment that can't be read any more counts as not there."""
        index = self.index()
        wanted = sorted((index[key], key) for key in set(keys) if key in index)
        found: dict[str, Response] = {}
        for name, entries in groupby(wanted, key=lambda entry: entry[0]):
            responses = self._responses(name)
            found |= {key: responses[key] for _, key in entries if key in responses}
        return found

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """These columns of every segment that was asked for this store, one by one; those taken over are left out."""
        names = sorted(name for name in set(self.index().values()) if not name.startswith(_TAKEN_OVER))
        with ThreadPoolExecutor(_READERS) as readers:
            yield from readers.map(lambda name: _parsed((self.root / name).read_bytes(), columns), names)

    def take_over(self, other: ResponseStore) -> None:
        """Copies another store's segments, so that what it was answered is not asked again. Call before `index`."""
        for name in sorted(set(other.index().values())):
            place = self.root / f"{_TAKEN_OVER}{name.removeprefix(_TAKEN_OVER)}"
            if not place.exists():
                place.write_bytes((other.root / name).read_bytes())

    def put(self, responses: Iterable[Response]) -> None:
        """Keeps final responses, one new segment a task."""
        kept = sorted(
            (response for response in responses if not response.reason.startswith(TRANSIENT)),
            key=lambda response: (response.task, response.key),
        )
        for task, rows in groupby(kept, key=lambda response: response.task):
            self._write(task, list(rows))

    def _write(self, task: str, rows: Sequence[Response]) -> None:
        digest = blake2b("".join(row.key for row in rows).encode(), digest_size=12).hexdigest()
        name = f"{task}/{digest}.parquet"
        write_records(self.root / name, rows, Response)
        self.index().update((row.key, name) for row in rows)
        self._remember(name, {row.key: row for row in rows})

    def _keys(self, name: str) -> list[str]:
        if not name.endswith(".parquet"):
            self.ignored[name] = "not a Parquet file"
            return []
        data = (self.root / name).read_bytes()
        try:
            return list(_parsed(data, ["key"])["key"].to_pylist())
        except _NO_SEGMENT as error:
            self._ignore(name, error)
            return []

    def _responses(self, name: str) -> dict[str, Response]:
        if name not in self._read_lately:
            data = (self.root / name).read_bytes()
            try:
                self._remember(name, {row.key: row for row in from_table(_parsed(data), Response)})
            except _NO_SEGMENT as error:
                self._ignore(name, error)
                return {}
        self._read_lately.move_to_end(name)
        return self._read_lately[name]

    def _remember(self, name: str, responses: dict[str, Response]) -> None:
        self._read_lately[name] = responses
        if len(self._read_lately) > _KEPT_SEGMENTS:
            self._read_lately.popitem(last=False)

    def _ignore(self, name: str, error: Exception) -> None:
        self.ignored[name] = " ".join(str(error).split())
        _LOG.warning("%s is no readable segment of responses; what it held is asked again: %s", self.root / name, error)


def _parsed(data: bytes, columns: list[str] | None = None) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read(columns)
