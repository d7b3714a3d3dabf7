"""Tables and rows in files: Parquet, JSON lines, JSON lists and CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fdarx_core.records import Reject, from_table, to_table
from fdarx_core.storage.arrow_files import open_parquet, undamaged
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.sources import MAX_DOCUMENT

R = TypeVar("R")

_BATCH = 4096
_READERS = 16


def write_table(location: Location, table: pa.Table) -> None:
    """Write a table as Parquet with zstd. The file appears whole or not at all."""
    with location.open_output() as stream:
        pq.write_table(table, stream, compression="zstd")


def read_table(location: Location, columns: list[str] | None = None) -> pa.Table:
    """Read all columns, or the given ones in their order. Raises StorageError for a damaged file, a missing column."""
    with location.open_input() as stream, undamaged(location):
        file = open_parquet(stream, location)
        missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
        if missing:
            raise StorageError(f"{location} has no column {', '.join(missing)}; was it written by another version?")
        table = file.read(columns)
        return table if columns is None else table.select(columns)


def read_tables(locations: Sequence[Location]) -> list[pa.Table]:
    """Return all columns of each of some small files, in their order; from S3, some are read at a time.

    Arrow's threads take longer to start than such a file to parse. Raises StorageError.
    """

    def read(location: Location) -> pa.Table:
        data = location.read_bytes()
        with undamaged(location):
            return open_parquet(data, location).read(use_threads=False)

    if not any(location.is_remote for location in locations):
        return [read(location) for location in locations]
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(read, locations))


def write_records(location: Location, rows: Iterable[Any], record: type) -> int:
    """Write records of one class as a Parquet file; return their number. Without rows, the file has all columns."""
    table = to_table(rows, record)
    write_table(location, table)
    return int(table.num_rows)


def read_records(location: Location, record: type[R]) -> Iterator[R]:
    """Yield the records of a file; a few thousand rows are in memory at a time. Raises StorageError."""
    with location.open_input() as stream, undamaged(location):
        for batch in open_parquet(stream, location).iter_batches(_BATCH):
            yield from from_table(pa.Table.from_batches([batch]), record)


def read_where(location: Location, column: str, wanted: Collection[str], record: type[R]) -> Iterator[R]:
    """Yield the records whose column has one of the wanted values, in the order of the file, which is read whole."""
    table = read_table(location)
    values = pa.array(sorted(wanted), pa.string())
    yield from from_table(table.filter(pc.is_in(table[column], value_set=values)), record)


_NOT_FINITE = re.compile(rb"\b(?:NaN|Infinity)\b")
_QUOTED = re.compile(r'"[^"]*"')
_PLACE_IN_LINE = re.compile(r": line \d+ column \d+ \(char \d+\)$")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file.

    `place` is file:line; `fault` says why there is no object, None where there is one. `offset` and `size` are those of
    a line of a JSON lines file, in bytes.
    """

    place: str
    row: dict[str, Any]
    fault: InputError | None = None
    offset: int = 0
    size: int = 0

    def checked_row(self) -> dict[str, Any]:
        """Return the object. Raises its fault."""
        if self.fault:
            raise self.fault
        return self.row


def read_json_lines(location: Location, digest: hashlib.blake2b | None = None) -> Iterator[FileRow]:
    """Yield the lines of a file that are not blank. `digest` is updated with all bytes. Raises StorageError."""
    offset = 0
    with location.open_input() as stream:
        for number, line in enumerate(stream, 1):
            if digest:
                digest.update(line)
            if line.strip(b"\r\n\t " + _BYTE_ORDER_MARK):
                row, fault = dict[str, Any](), None
                try:
                    row = parse_json_row(line)
                except InputError as error:
                    fault = error
                yield FileRow(f"{location.name}:{number}", row, fault, offset, len(line))
            offset += len(line)


def parse_json_row(line: bytes) -> dict[str, Any]:
    """Return the object of a line; NaN and Infinity, which Python's json writes, are None. Raises InputError."""
    try:
        row = _decoded(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError as error:
        if "UTF-8" in str(error):
            raise InputError("not_utf8", "the line is not in UTF-8; save the file as UTF-8") from error
        raise InputError("not_json", _PLACE_IN_LINE.sub("", str(error))) from error
    if not isinstance(row, dict):
        raise InputError("not_an_object", f"the line holds a {type(row).__name__}, not an object with keys")
    return row


def _decoded(data: bytes) -> Any:
    """Return a JSON value. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if not _NOT_FINITE.search(data):
            raise
    return json.loads(data, parse_constant=lambda _: None)


SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")


def check_rows_file(location: Location, option: str, others: str = "") -> None:
    """Raise StorageError unless this is a file with one of `SUFFIXES` that is not empty.

    `option` is the user's name for it, `others` names what the option takes as well.
    """
    kind = "a folder" if location.is_dir() else "" if location.exists() else "not there"
    kind = kind or ("" if location.suffix.lower() in SUFFIXES else "of another kind") or "empty" * (not location.size())
    if kind:
        raise StorageError(f"{location} is {kind}; {option} takes a file: {', '.join(SUFFIXES)}{others}")


def read_rows(
    location: Location, wanted: str, *, blank: Collection[str] = (), within: Sequence[str] = ()
) -> Iterator[FileRow]:
    """Yield the rows of a file with one of `SUFFIXES`, in its order. Raises StorageError for an unreadable file.

    Args:
        location: the file.
        wanted: the keys that a row needs, for error messages.
        blank: the columns of a CSV file whose empty cells are empty texts; in other columns they are missing values.
        within: keys under which the list of rows may be in the object of a JSON file, also one within another; an
            object of columns, as pandas writes it, needs none.
    """
    suffix = location.suffix.lower()
    if suffix == ".jsonl":
        yield from read_json_lines(location)
    elif suffix == ".csv":
        yield from _csv(location, blank)
    else:
        rows: Any = read_table(location).to_pylist() if suffix == ".parquet" else _json(location)
        while isinstance(rows, dict) and (key := next(filter(rows.__contains__, within), None)):
            rows = rows[key]
        if isinstance(rows, dict) and rows and all(isinstance(cells, dict) for cells in rows.values()):
            # DataFrame.to_json writes an object for each column, with the rows by their index
            rows = [{name: cells.get(at) for name, cells in rows.items()} for at in next(iter(rows.values()))]
        if not isinstance(rows, list):
            raise StorageError(f"{location} holds no list; give a list of objects with {wanted}")
        for number, row in enumerate(rows, 1):
            is_object = isinstance(row, dict)
            fault = None if is_object else InputError("not_an_object", "the list holds something else here")
            yield FileRow(f"{location.name}:{number}", row if is_object else {}, fault)


def _json(location: Location) -> Any:
    try:
        return _decoded(location.read_text().encode())
    except ValueError as error:
        raise StorageError(f"{location} is not JSON ({error}); a file with an object a line is named .jsonl") from error


def _csv(location: Location, blank: Collection[str]) -> Iterator[FileRow]:
    text = location.read_text()
    csv.field_size_limit(MAX_DOCUMENT)  # Python's own limit is 131,072 characters
    header = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
    delimiter = max(",;\t", key=header.count)  # whichever the header has most of
    lines = [*io.StringIO(text, newline=""), ""]  # a quote that the last line leaves open takes in the empty one
    reader, names, read = csv.reader(lines, delimiter=delimiter, strict=True), list[str](), 0
    try:
        for cells in reader:
            place, read = f"{location.name}:{read + 1}", reader.line_num
            if not names:  # one that recurs gets its position
                names = [f"{name} {at}" if name in cells[:at] else name for at, name in enumerate(cells)]
            elif cells:
                row = dict(zip_longest(names, cells[: len(names)]))
                detail = f"it has {len(cells)} cells, the header {len(names)}; quote texts with {delimiter!r}"
                fault = InputError("too_many_cells", detail) if any(cells[len(names) :]) else None
                yield FileRow(place, {key: row[key] if key in blank else row[key] or None for key in row}, fault)
    except csv.Error as error:
        where = f"{location}:{read + 1} has a quote that is not closed, or text after one ({error})"
        raise StorageError(f'{where}; close it, and write a quote within a quoted text as ""') from error


def parse_rows(
    rows: Iterable[FileRow], parse: Callable[[dict[str, Any]], R], *, stage: str, id_keys: Sequence[str] = ("id",)
) -> Iterator[R | Reject]:
    """Parse each row, or yield a Reject for a row with a fault and for one on which `parse` raises InputError.

    The id of a Reject is the row's own by `id_keys`, else its place.
    """
    for found in rows:
        try:
            yield parse(found.checked_row())
        except InputError as error:
            row_id = text_at(found.row, *id_keys) or found.place
            yield Reject(row_id, stage, error.reason, error.detail, source=found.place)


def no_usable_row(places: str, kind: str, needed: str, rejects: Sequence[Reject]) -> str:
    """Return the error message for files without a usable row: what they lack, the first fault, what a row needs."""
    first = [f"{one.source}: {one.reason}, {one.detail}" for one in rejects[:1]]
    lack = f"holds no {kind} (the first row: {first[0]})" if first else "has no rows"
    return f"{places} {lack}; a row needs {needed}"


def unusable_rows(number: int, rejects: Sequence[Reject], file: str) -> list[str]:
    """Return a line on rows that cannot be used, if there are any: the first, and the file that has all, if one has."""
    rows, where = f"{number:,} row{'s' * (number > 1)} cannot be used, first", f"; see {file}" * bool(file)
    return [f"{rows} {one.source}: {one.reason}, {one.detail}{where}" for one in rejects[:1]]


def text_at(row: dict[str, Any], *keys: str) -> str:
    """Return the first value under the keys that is a whole number or a text that is not blank, else ""."""
    values = (row.get(key) for key in keys)
    texts = (str(value).strip() for value in values if isinstance(value, str | int) and not isinstance(value, bool))
    return next(filter(None, texts), "")


def texts_at(row: dict[str, Any], *keys: str) -> list[str]:
    """Return the texts under the first of the keys that has any: one text, or those of a list."""
    for key in keys:
        value = row.get(key)
        listed = value if isinstance(value, list) else [value]
        if found := [text.strip() for text in listed if isinstance(text, str) and text.strip()]:
            return found
    return []
