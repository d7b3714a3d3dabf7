"""Files of one JSON object a line, as others write them: a bad line is told of, never raised."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from fdarx_core.storage.location import Location

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
