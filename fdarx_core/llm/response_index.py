"""Which segments of a response store hold which keys: sorted tables of keys, in memory or in binary files.

A key file has shards of up to 4,096 entries in ascending order of the keys, then a footer. An entry takes 12 bytes: 64
bits of the key, and the number of its segment. Two keys may share their 64 bits, so that an entry says where to look;
what a segment holds is decided by reading it. The footer has the first key and the checksum of each shard, the names
of the segments, and what their responses cost (`response_usage`). A search reads the footer once and then the shards
that it needs, as ranges; a process keeps what it has read. Files never change. They are not mapped into memory: where
another node deletes a file of a shared folder, the next access to the map would end the process.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import BinaryIO, Protocol
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fdarx_core.llm.response_usage import add_usage
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.arrow_files import open_parquet

Digests = NDArray[np.uint64]
Numbers = NDArray[np.uint32]
Entries = tuple[Digests, Numbers]
"""Sorted keys, and the number of the segment of each."""

SUFFIX = ".keys"
_SHARD = 4096
_SLICE = 2**18
"""Entries that are merged at once."""
_SHARDS_AT_ONCE = 256
_KEYS_PER_RANGE = 8
_ENTRY = 12
_READERS = 16
_TRAILER = struct.Struct("<QQQI8s")
_MAGIC = b"FDARXIX1"
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{16}")


class DamagedKeyFile(Exception):
    """A key file that is damaged, of another format, or gone. The argument says which of these."""

    def __init__(self, place: Location, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


class KeySource(Protocol):
    """Sorted keys of some segments. `usage` are the sums of their responses, apart from copied segments."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def count(self) -> int: ...
    @property
    def usage(self) -> pa.Table: ...
    def find(self, wanted: Digests) -> Iterator[tuple[int, str]]:
        """Yield the position of each of the wanted keys (ascending) that is there, with a segment that may hold it."""
        ...

    def between(self, low: int, high: int) -> Entries:
        """Return the entries from `low` to `high`, both included."""
        ...


def digest_keys(keys: Sequence[str]) -> Digests:
    """Return 64 bits of each key: its last 16 hexadecimal digits, or a hash of a key that does not end in such."""
    joined = "".join(key[-16:] for key in keys)
    try:
        digits = bytes.fromhex(joined)
    except ValueError:
        digits = b""
    if len(digits) == 8 * len(keys) and len(joined) == 16 * len(keys):
        return np.frombuffer(digits, ">u8").astype(np.uint64)
    return np.array([_digest(key) for key in keys], np.uint64)


def _digest(key: str) -> int:
    if _HEXADECIMAL.fullmatch(key[-16:]):
        return int(key[-16:], 16)
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Sorted keys in memory."""

    names: Sequence[str]
    keys: Digests
    numbers: Numbers
    usage: pa.Table

    @classmethod
    def of(cls, segments: Sequence[tuple[str, Digests]], usage: pa.Table) -> KeyTable:
        """Return the table of some segments, by name."""
        keys = np.concatenate([np.empty(0, np.uint64), *(one for _, one in segments)])
        numbers = np.repeat(np.arange(len(segments), dtype=np.uint32), [len(one) for _, one in segments])
        order = np.lexsort((numbers, keys))
        return cls([name for name, _ in segments], keys[order], numbers[order], usage)

    @property
    def count(self) -> int:
        return len(self.keys)

    def find(self, wanted: Digests) -> Iterator[tuple[int, str]]:
        for at, number in _matches((self.keys, self.numbers), wanted):
            yield at, self.names[number]

    def between(self, low: int, high: int) -> Entries:
        return _cut((self.keys, self.numbers), low, high)


class KeyFile:
    """A file of keys. Raises DamagedKeyFile, here or when a shard is read, and StorageError."""

    def __init__(self, place: Location) -> None:
        self.place = place
        shards, names, self._usage = self._footer()
        self._first = shards["first"].to_numpy()
        self._checksums = shards["checksum"].to_pylist()
        self._offsets = np.concatenate([[0], np.cumsum(shards["entries"].to_numpy())]).astype(np.int64) * _ENTRY
        self.names: list[str] = names["name"].to_pylist()
        self._shards: dict[int, Entries] = {}
        self._all: _RangedKeys | None = None

    @property
    def count(self) -> int:
        return int(self._offsets[-1]) // _ENTRY

    @property
    def usage(self) -> pa.Table:
        return open_parquet(self._usage, self.place).read()

    def find(self, wanted: Digests) -> Iterator[tuple[int, str]]:
        if self._all is None and 4 * len(self._shards) > len(self._first):
            # To read the rest in long ranges takes less time than to read many more shards one by one.
            self._all, self._shards = _RangedKeys.of(self._read_all()), {}
        found = self._in_shards(wanted) if self._all is None else self._all.matches(wanted)
        for at, number in found:
            yield at, self.names[number]

    def _in_shards(self, wanted: Digests) -> Iterator[tuple[int, int]]:
        # Equal keys may lie on both sides of the border between two shards.
        lows = np.maximum(np.searchsorted(self._first, wanted, "left") - 1, 0)
        highs = np.searchsorted(self._first, wanted, "right") - 1
        touched = np.union1d(lows[highs >= 0], highs[highs >= 0])
        self._load(touched)
        for shard in touched.tolist():
            start, stop = np.searchsorted(highs, shard, "left"), np.searchsorted(lows, shard, "right")
            for at, number in _matches(self._shards[shard], wanted[start:stop]):
                yield int(start) + at, number

    def between(self, low: int, high: int) -> Entries:
        first = max(0, int(np.searchsorted(self._first, np.uint64(low), "left")) - 1)
        last = int(np.searchsorted(self._first, np.uint64(high), "right"))
        data = self._read(first, last)
        start = int(self._offsets[first])
        shards = [self._entries(shard, data, start) for shard in range(first, last)]
        return _joined([_cut(shard, low, high) for shard in shards])

    def _read_all(self) -> Entries:
        keys, numbers = np.empty(self.count, np.uint64), np.empty(self.count, np.uint32)
        at = 0
        for first in range(0, len(self._first), _SHARDS_AT_ONCE):
            last = min(first + _SHARDS_AT_ONCE, len(self._first))
            data = self._read(first, last)
            for shard in range(first, last):
                some, their_numbers = self._entries(shard, data, int(self._offsets[first]))
                keys[at : at + len(some)], numbers[at : at + len(some)] = some, their_numbers
                at += len(some)
        return keys, numbers

    def _load(self, shards: NDArray[np.int64]) -> None:
        missing = [shard for shard in shards.tolist() if shard not in self._shards]
        if not missing:
            return
        starts = [at for at, shard in enumerate(missing) if at == 0 or missing[at - 1] != shard - 1]
        runs = [missing[start:stop] for start, stop in pairwise([*starts, len(missing)])]
        with ThreadPoolExecutor(_READERS) as readers:
            mapping = readers.map if self.place.is_remote else map
            for run, data in zip(runs, mapping(lambda run: self._read(run[0], run[-1] + 1), runs), strict=True):
                for shard in run:
                    self._shards[shard] = self._entries(shard, data, int(self._offsets[run[0]]))

    def _read(self, first: int, last: int) -> bytes:
        """Return the bytes of some shards, `last` not included."""
        start, stop = int(self._offsets[first]), int(self._offsets[last])
        return self._range(start, stop) if start < stop else b""

    def _entries(self, shard: int, data: bytes, start: int) -> Entries:
        """Return a shard out of the bytes of a file from `start`."""
        low, high = int(self._offsets[shard]) - start, int(self._offsets[shard + 1]) - start
        content = memoryview(data)[low:high]
        if crc32(content) != self._checksums[shard]:
            raise DamagedKeyFile(self.place, f"shard {shard} has another checksum than its footer says")
        count = (high - low) // _ENTRY
        return np.frombuffer(content, "<u8", count), np.frombuffer(content, "<u4", count, 8 * count)

    def _footer(self) -> tuple[pa.Table, pa.Table, bytes]:
        try:
            size = self.place.size()
        except StorageError:
            self._raise_if_gone()
            raise
        end = size - _TRAILER.size
        trailer = self._range(end, size) if end >= 0 else b""
        if trailer[-len(_MAGIC) :] != _MAGIC or len(trailer) != _TRAILER.size:
            raise DamagedKeyFile(self.place, "it does not end as a key file does")
        *lengths, checksum, _ = _TRAILER.unpack(trailer)
        start = end - sum(lengths)
        footer = self._range(start, end) if start >= 0 else b""
        if len(footer) != sum(lengths) or crc32(footer) != checksum:
            raise DamagedKeyFile(self.place, "its footer has another checksum than it says")
        ends = np.cumsum(lengths)
        shards, names = (
            open_parquet(part, self.place).read() for part in (footer[: ends[0]], footer[ends[0] : ends[1]])
        )
        return shards, names, footer[ends[1] :]

    def _range(self, start: int, stop: int) -> bytes:
        try:
            return self.place.read_range(start, stop)
        except StorageError:
            self._raise_if_gone()
            raise

    def _raise_if_gone(self) -> None:
        if not self.place.exists():
            raise DamagedKeyFile(self.place, "it is gone; another process has merged it")


@dataclass(frozen=True, slots=True)
class _RangedKeys:
    """All entries of a file, and the position of the first key in each of many ranges of equal width.

    Keys are hashes, so that every range has a few of them, whatever their number. A search begins there: that of a
    binary search in all keys waits for memory at almost every step, and takes ten times as long for 20 million keys.
    """

    entries: Entries
    starts: Numbers
    shift: np.uint64
    steps: int

    @classmethod
    def of(cls, entries: Entries) -> _RangedKeys:
        """Return the entries with the ranges that are made of the first bits of the keys."""
        keys = entries[0]
        bits = max(1, (len(keys) // _KEYS_PER_RANGE).bit_length())
        shift = np.uint64(64 - bits)
        counts = np.zeros(2**bits, np.int64)
        for start in range(0, len(keys), _SLICE):
            numbers, found = np.unique(keys[start : start + _SLICE] >> shift, return_counts=True)
            counts[numbers.astype(np.int64)] += found
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        return cls(entries, starts, shift, int(counts.max()).bit_length())

    def matches(self, wanted: Digests) -> Iterator[tuple[int, int]]:
        """Yield what `_matches` does."""
        return _matches(self.entries, wanted, self._places(wanted))

    def _places(self, wanted: Digests) -> NDArray[np.int64]:
        """Return what `np.searchsorted` does."""
        keys, ranges = self.entries[0], (wanted >> self.shift).astype(np.int64)
        low, high = self.starts[ranges].astype(np.int64), self.starts[ranges + 1].astype(np.int64)
        for _ in range(self.steps):
            middle = (low + high) >> 1
            below = low < high
            below[below] = keys[middle[below]] < wanted[below]
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        return low


@lru_cache(maxsize=64)
def open_key_file(place: Location) -> KeyFile:
    """Return a key file, opened once a process: many stores in turn may be unpickled in it. Raises as `KeyFile`."""
    return KeyFile(place)


def write_key_file(folder: Location, sources: Sequence[KeySource]) -> KeyFile:
    """Merge sources of different segments into one file, whose name is a hash of the names of the segments.

    The file appears whole or not at all. At most some hundred thousand entries are in memory at once.
    """
    names = sorted(name for source in sources for name in source.names)
    place = folder / f"{blake2b(chr(10).join(names).encode(), digest_size=12).hexdigest()}{SUFFIX}"
    number_of = {name: number for number, name in enumerate(names)}
    renumbered = [np.array([number_of[name] for name in source.names], np.uint32) for source in sources]
    with place.open_output() as stream:
        shards = [_write_shard(stream, shard) for shard in _merged_shards(sources, renumbered)]
        first, entries, checksums = zip(*shards, strict=True) if shards else ((), (), ())
        _write_footer(
            stream,
            pa.table({"first": pa.array(first, pa.uint64()), "entries": entries, "checksum": pa.array(checksums)}),
            pa.table({"name": pa.array(names, pa.string())}),
            add_usage(source.usage for source in sources),
        )
    open_key_file.cache_clear()  # it may have held a damaged file of this name
    return open_key_file(place)


def _merged_shards(sources: Sequence[KeySource], renumbered: Sequence[Numbers]) -> Iterator[Entries]:
    """Yield the entries of all sources in order, in shards; keys are hashes, so that ranges of keys are even."""
    total = sum(source.count for source in sources)
    slices = total // _SLICE + 1
    for low, stop in pairwise(number * 2**64 // slices for number in range(slices + 1)):
        found = [source.between(low, stop - 1) for source in sources]
        keys, numbers = _joined([(keys, new[old]) for (keys, old), new in zip(found, renumbered, strict=True)])
        order = np.lexsort((numbers, keys))
        for start in range(0, len(order), _SHARD):
            shard = order[start : start + _SHARD]
            yield keys[shard], numbers[shard]


def _write_shard(stream: BinaryIO, shard: Entries) -> tuple[int, int, int]:
    keys, numbers = shard
    content = keys.astype("<u8").tobytes() + numbers.astype("<u4").tobytes()
    stream.write(content)
    return int(keys[0]), len(keys), crc32(content)


def _write_footer(stream: BinaryIO, *tables: pa.Table) -> None:
    parts = []
    for table in tables:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        parts.append(sink.getvalue().to_pybytes())
    footer = b"".join(parts)
    stream.write(footer + _TRAILER.pack(*map(len, parts), crc32(footer), _MAGIC))


def _matches(entries: Entries, wanted: Digests, places: NDArray[np.int64] | None = None) -> Iterator[tuple[int, int]]:
    """Yield the position of each wanted key that is there with the number of a segment, once for each segment.

    `places` are the positions of the first keys that are not below the wanted ones, where they are known.
    """
    keys, numbers = entries
    places = np.searchsorted(keys, wanted, "left") if places is None else places
    positions = np.arange(len(wanted))
    while True:  # once, and again for keys that several segments have
        here = places < len(keys)
        here[here] = keys[places[here]] == wanted[positions[here]]
        places, positions = places[here], positions[here]
        if not len(places):
            return
        yield from zip(positions.tolist(), numbers[places].tolist(), strict=True)
        places = places + 1


def _cut(entries: Entries, low: int, high: int) -> Entries:
    keys, numbers = entries
    start, stop = np.searchsorted(keys, np.uint64(low), "left"), np.searchsorted(keys, np.uint64(high), "right")
    return keys[start:stop], numbers[start:stop]


def _joined(parts: Sequence[Entries]) -> Entries:
    keys = np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in parts)])
    return keys, np.concatenate([np.empty(0, np.uint32), *(numbers for _, numbers in parts)])
