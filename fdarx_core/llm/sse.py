"""Server-sent events, out of bytes that come in any portions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, "" where it has none, and its lines of data."""

    name: str
    data: bytes


class Events:
    """Reads one stream. Comments, other fields, and events without data are left out, as the standard says.

    Source: the WHATWG HTML standard, "Server-sent events". Data are bytes until they are whole, so that a character may
    come in two portions.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._after_return = False
        self._name = ""
        self._data: list[bytes] = []

    def of(self, portion: bytes) -> Iterator[Event]:
        """The events that end in this portion."""
        if not portion:
            return
        if self._after_return:  # the other half of a line end
            portion = portion.removeprefix(b"\n")
        self._after_return = portion.endswith(b"\r")
        begun, *lines = _LINE_END.split(portion)
        self._line.append(begun)
        for line in lines:
            yield from self._take(b"".join(self._line))
            self._line = [line]

    def rest(self) -> Iterator[Event]:
        """At the stream's end: an event that lacks only the blank line after it, as some servers leave it."""
        yield from self._take(b"".join(self._line))
        yield from self._take(b"")

    def _take(self, line: bytes) -> Iterator[Event]:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")
        elif not line:
            if self._data:
                yield Event(self._name, b"\n".join(self._data))
            self._name, self._data = "", []
