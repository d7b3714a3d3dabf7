"""What the segments of a response store hold: their keys, in sorted tables or files, and sums of their usage.

A key file is a Parquet file with entries in ascending order of the keys. An entry has 64 bits of a key, and the number
of its segment. Two keys may share these 64 bits; read the segment to be certain. The metadata of the file has the names
of the segments, and the sums of their responses (`sum_usage`). A process reads a file whole, and once: files never
change. They are not mapped into memory: where another node deletes a file of a shared folder, the next access to the
map would end the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fdarx_core.llm.task import UNDECIDED
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.arrow_files import open_parquet

Digests = NDArray[np.uint64]
SegmentNumbers = NDArray[np.uint32]

SUFFIX = ".parquet"
_SCHEMA = pa.schema([("key", pa.uint64()), ("segment", pa.uint32())])
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{16}")

TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens")
SUMS = ("requests", "attempts", "failed", *TOKENS)
USAGE_COLUMNS = ["task", "endpoint", "reason", "attempts", *TOKENS, "latency_s", "batched"]
"""The columns of Response that `sum_usage` reads."""
EMPTY_USAGE = pa.schema(
    [("task", pa.string()), ("endpoint", pa.string()), ("batched", pa.bool_()), ("latency_s", pa.float64())]
    + [(name, pa.int64()) for name in SUMS]
).empty_table()
"""The sums over no responses."""


def sum_usage(responses: pa.Table) -> pa.Table:
    """Return the sums of Response rows by task, endpoint, whether it was batched, and latency rounded to three digits.

    There is a row for each distinct (task, endpoint, batched, latency), however many responses there are.
    """
    latencies = responses["latency_s"].to_numpy()
    rounding_step = 10.0 ** (np.floor(np.log10(np.maximum(latencies, 1e-9))) - 2)
    failed = pc.invert(pc.is_in(responses["reason"], value_set=pa.array(["", UNDECIDED])))
    columns: dict[str, Any] = {
        **{name: responses[name] for name in ("task", "endpoint", "batched", "attempts", *TOKENS)},
        "latency_s": pa.array(np.rint(latencies / rounding_step) * rounding_step, pa.float64()),
        "requests": pa.repeat(pa.scalar(1, pa.int64()), responses.num_rows),
        "failed": pc.cast(failed, pa.int64()),
    }
    return merge_usage([pa.table(columns)])


def merge_usage(sums: Iterable[pa.Table]) -> pa.Table:
    """Add up tables of `sum_usage`."""
    table = pa.concat_tables([EMPTY_USAGE, *(usage.select(EMPTY_USAGE.column_names) for usage in sums)])
    groups = table.group_by(["task", "endpoint", "batched", "latency_s"], use_threads=False)  # in a fixed order
    added = groups.aggregate([(name, "sum") for name in SUMS])
    return added.rename_columns([name.removesuffix("_sum") for name in added.column_names]).cast(EMPTY_USAGE.schema)


class DamagedKeyFile(Exception):
    """A key file that is damaged, of another format, or gone. The argument says which of these."""


def digest_keys(keys: Sequence[str]) -> Digests:
    """Return 64 bits of each key: its last 16 characters if they are hexadecimal digits, else a hash of the key."""
    ends = [key[-16:] for key in keys]
    if all(map(_HEXADECIMAL.fullmatch, ends)):
        return np.frombuffer(bytes.fromhex("".join(ends)), ">u8").astype(np.uint64)
    return np.array([_digest_key(key) for key in keys], np.uint64)


def _digest_key(key: str) -> int:
    if _HEXADECIMAL.fullmatch(key[-16:]):
        return int(key[-16:], 16)
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Sorted keys of segments. `usage` sums their responses, without segments copied from another store."""

    segment_names: Sequence[str]
    keys: Digests
    numbers: SegmentNumbers
    usage: pa.Table

    @classmethod
    def of(cls, segments: Sequence[tuple[str, Digests]], usage: pa.Table) -> KeyTable:
        """Return the table of some segments, by name."""
        keys = np.concatenate([np.empty(0, np.uint64), *(digests for _, digests in segments)])
        numbers = np.repeat(np.arange(len(segments), dtype=np.uint32), [len(digests) for _, digests in segments])
        order = np.lexsort((numbers, keys))
        return cls([name for name, _ in segments], keys[order], numbers[order], usage)

    def find(self, wanted: Digests) -> Iterator[tuple[int, str]]:
        """Yield the position of each wanted key (ascending) that is in the table, with a segment that may hold it."""
        indexes, positions = np.searchsorted(self.keys, wanted, "left"), np.arange(len(wanted))
        while True:  # Each further pass finds the next segment of the same key.
            is_match = indexes < len(self.keys)
            is_match[is_match] = self.keys[indexes[is_match]] == wanted[positions[is_match]]
            indexes, positions = indexes[is_match], positions[is_match]
            if not len(indexes):
                return
            for position, number in zip(positions.tolist(), self.numbers[indexes].tolist(), strict=True):
                yield position, self.segment_names[number]
            indexes = indexes + 1


@dataclass(frozen=True, slots=True)
class KeyFile(KeyTable):
    """The keys of a file, all of which are in memory: 12 bytes each."""

    location: Location


@lru_cache(maxsize=64)
def open_key_file(location: Location) -> KeyFile:
    """Read a key file, once because a process may unpickle many stores. Raises DamagedKeyFile."""
    try:
        file = open_parquet(location.read_bytes(), location, page_checksum_verification=True)
        table, stored = file.read(), file.schema_arrow.metadata
        names, usage = (orjson.loads(stored[name]) for name in (b"segments", b"usage"))
        keys, numbers = (table[name].to_numpy() for name in _SCHEMA.names)
        return KeyFile(names, keys, numbers, pa.Table.from_pylist(usage, EMPTY_USAGE.schema), location)
    except StorageError:
        if location.exists():
            raise
        raise DamagedKeyFile("it is gone; another process has merged it") from None
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedKeyFile(" ".join(str(error).split())) from None


def write_key_file(folder: Location, sources: Sequence[KeyTable]) -> KeyFile:
    """Merge tables of different segments into one file, whose name is a hash of the names of the segments.

    The file appears whole or not at all.
    """
    names = sorted(name for source in sources for name in source.segment_names)
    digest = blake2b("\n".join(names).encode(), digest_size=12).hexdigest()
    location = folder / f"{digest}{SUFFIX}"
    usage = merge_usage(source.usage for source in sources)
    schema = _SCHEMA.with_metadata({"segments": orjson.dumps(names), "usage": orjson.dumps(usage.to_pylist())})
    numbers_of = {name: number for number, name in enumerate(names)}
    keys = np.concatenate([source.keys for source in sources])
    numbers = np.concatenate(
        [np.array([numbers_of[name] for name in source.segment_names], np.uint32)[source.numbers] for source in sources]
    )
    order = np.lexsort((numbers, keys))
    keys, numbers = keys[order], numbers[order]
    with location.open_output() as stream:
        entries = pa.table([keys, numbers], schema=schema)
        pq.write_table(entries, stream, compression="none", use_dictionary=False, write_page_checksum=True)
    open_key_file.cache_clear()  # it may have held files that were merged
    return KeyFile(names, keys, numbers, usage, location)
