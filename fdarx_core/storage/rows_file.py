"""Rows as people keep them: JSON lines, a JSON list, CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from typing import Any

import orjson

from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.json_lines import read_json_lines
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import read_table

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")

Row = tuple[str, dict[str, Any], str]
"""Where it stands (file:line), the row, and "reason: detail" where it can't be read."""


def check_rows_file(location: Location, option: str) -> None:
    """Raises `StorageError` unless this is a file with one of `SUFFIXES`; `option` is what the user named it by."""
    if location.suffix.lower() not in SUFFIXES or location.is_dir() or not location.exists():
        what = "a folder" if location.is_dir() else "of another kind" if location.exists() else "not there"
        raise StorageError(f"{location} is {what}; {option} takes a file: {', '.join(SUFFIXES)}")


def read_rows(location: Location, wanted: str, *, blank: Collection[str] = ()) -> Iterator[Row]:
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


def _json_list(location: Location, wanted: str) -> Iterator[Row]:
    try:
        rows = orjson.loads(location.read_bytes())
    except orjson.JSONDecodeError as error:
        raise StorageError(f"{location} is not JSON ({error}); a file with an object a line is named .jsonl") from error
    if not isinstance(rows, list):
        raise StorageError(f"{location} holds no list; give a list of objects with {wanted}")
    for number, row in enumerate(rows, 1):
        place, known = f"{location.name}:{number}", isinstance(row, dict)
        yield place, row if known else {}, "" if known else "not_an_object: the list holds something else here"


def _csv(location: Location, blank: Collection[str]) -> Iterator[Row]:
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


def _parquet(location: Location) -> Iterator[Row]:
    for number, row in enumerate(read_table(location).to_pylist(), 1):
        yield f"{location.name}:{number}", row, ""
