"""Arrow tables and records as Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fdarx_core.records import from_table, to_table
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location

R = TypeVar("R")

_BATCH = 4096


def write_table(location: Location, table: pa.Table) -> None:
    """Parquet with zstd; appears whole or not at all."""
    with location.open_output() as stream:
        pq.write_table(table, stream, compression="zstd")


def read_table(location: Location, columns: list[str] | None = None) -> pa.Table:
    """All columns, or those named, in the order named. `StorageError` where the file is damaged or lacks a column."""
    with location.open_input() as stream, _undamaged(location):
        file = pq.ParquetFile(stream)
        missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
        if missing:
            raise StorageError(f"{location} has no column {', '.join(missing)}; was it written by another version?")
        table = file.read(columns)
        return table if columns is None else table.select(columns)


def write_records(location: Location, rows: Iterable[Any], record: type) -> int:
    """Records of one class as one Parquet file; gives their number. No rows make a file with the right columns."""
    table = to_table(rows, record)
    write_table(location, table)
    return int(table.num_rows)


def read_records(location: Location, record: type[R]) -> Iterator[R]:
    """The inverse of `write_records`, as a stream: a few thousand rows are held at a time."""
    with location.open_input() as stream, _undamaged(location):
        for batch in pq.ParquetFile(stream).iter_batches(_BATCH):
            yield from from_table(pa.Table.from_batches([batch]), record)


def read_where(location: Location, column: str, wanted: Collection[str], record: type[R]) -> Iterator[R]:
    """The rows of a file whose column holds one of the values, in the file's order; the file is read whole."""
    table = read_table(location)
    values = pa.array(sorted(wanted), pa.string())
    yield from from_table(table.filter(pc.is_in(table[column], value_set=values)), record)


@contextmanager
def _undamaged(location: Location) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise StorageError(f"{location} is damaged ({said}); delete it and run the job again") from error
