"""Tables and rows in files: Parquet, JSON lines, JSON lists and CSV."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
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


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line: `place` is file:line, `offset` and `size` are in bytes. `fault` is "" unless it holds no object."""

    place: str
    offset: int
    size: int
    row: dict[str, Any]
    fault: str = ""


def read_json_lines(location: Location, digest: hashlib.blake2b | None = None) -> Iterator[JsonLine]:
    """The file's lines, blank ones left out; `digest` is fed every byte. `StorageError` where it can't be read."""
    offset = 0
    with location.open_input() as stream:
        for number, line in enumerate(stream, 1):
            if digest:
                digest.update(line)
            if line.strip(b"\r\n\t " + _BYTE_ORDER_MARK):
                row, fault = parse_json_row(line)
                yield JsonLine(f"{location.name}:{number}", offset, len(line), row, fault)
            offset += len(line)


def parse_json_line(line: bytes) -> Any:
    """Raises `orjson.JSONDecodeError` (a `ValueError`)."""
    return orjson.loads(line.removeprefix(_BYTE_ORDER_MARK))


def parse_json_row(line: bytes) -> tuple[dict[str, Any], str]:
    """The line's object, and a fault as in `JsonLine`."""
    try:
        row = parse_json_line(line)
    except orjson.JSONDecodeError as error:
        return {}, f"not_json: {error}"
    if isinstance(row, dict):
        return row, ""
    return {}, f"not_an_object: the line holds a {type(row).__name__}, not an object with keys"


SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")

FileRow = tuple[str, dict[str, Any], str]
"""Where it stands (file:line), the row, and "reason: detail" where it can't be read."""


def check_rows_file(location: Location, option: str) -> None:
    """Raises `StorageError` unless this is a file with one of `SUFFIXES`; `option` is what the user named it by."""
    if location.suffix.lower() not in SUFFIXES or location.is_dir() or not location.exists():
        what = "a folder" if location.is_dir() else "of another kind" if location.exists() else "not there"
        raise StorageError(f"{location} is {what}; {option} takes a file: {', '.join(SUFFIXES)}")


def read_rows(location: Location, wanted: str, *, blank: Collection[str] = ()) -> Iterator[FileRow]:
    """The file's rows, in order; one that is no object comes with its fault.

    `wanted` says in errors what a row needs. An empty cell of a CSV file says nothing and is left out, but in the
    columns `blank`, where it is an empty text. Raises `StorageError` where the file can't be read.
    """
    suffix = location.suffix.lower()
    if suffix == ".jsonl":
        return ((line.place, line.row, line.fault) for line in read_json_lines(location))
    if suffix == ".json":
        return _json_list(location, wanted)
    return _csv(location, blank) if suffix == ".csv" else _parquet(location)


def _json_list(location: Location, wanted: str) -> Iterator[FileRow]:
    try:
        rows = orjson.loads(location.read_bytes())
    except orjson.JSONDecodeError as error:
        raise StorageError(f"{location} is not JSON ({error}); a file with an object a line is named .jsonl") from error
    if not isinstance(rows, list):
        raise StorageError(f"{location} holds no list; give a list of objects with {wanted}")
    for number, row in enumerate(rows, 1):
        place, known = f"{location.name}:{number}", isinstance(row, dict)
        yield place, row if known else {}, "" if known else "not_an_object: the list holds something else here"


def _csv(location: Location, blank: Collection[str]) -> Iterator[FileRow]:
    try:
        text = location.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(f"{location} is not in UTF-8 ({error}); save it as UTF-8") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            kept = {key: value for key, value in row.items() if key in blank or value}
            yield f"{location.name}:{reader.line_num}", kept, ""
    except csv.Error as error:
        raise StorageError(f"{location}:{reader.line_num} is no CSV ({error}); quote texts with line breaks") from error


def _parquet(location: Location) -> Iterator[FileRow]:
    for number, row in enumerate(read_table(location).to_pylist(), 1):
        yield f"{location.name}:{number}", row, ""
