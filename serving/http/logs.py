"""One line of JSON a request."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any, TextIO

import orjson

LOGGER = logging.getLogger("fdarx.requests")
_KEY = "fdarx.note"


@dataclass(slots=True)
class Note:
    """What a request's log line says beside route, status and time; routes fill it in.

    `key` is the key's name, never the key. `question` stays empty unless questions are to be logged.
    """

    request_id: str = ""
    key: str = ""
    corpus: str = ""
    strategy: str = ""
    retriever: str = ""
    postprocess: str = ""
    stream: bool | None = None
    passages: int | None = None
    citations: int | None = None
    refused: bool | None = None
    degraded: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str = ""
    detail: str = ""
    question: str = ""


_NAMES = tuple(field.name for field in fields(Note))


def note_of(scope: MutableMapping[str, Any]) -> Note:
    """The note of a request, by its ASGI scope."""
    note: Note = scope.setdefault(_KEY, Note())
    return note


def write(note: Note, method: str, route: str, status: int, seconds: float) -> None:
    """The line of a request that has ended. What is empty is left out."""
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {"at": at, "method": method, "route": route, "status": status}
    line["ms"] = round(seconds * 1000, 1)
    said = ((name, getattr(note, name)) for name in _NAMES)
    line |= {name: value for name, value in said if value is not None and value != ""}
    LOGGER.info(orjson.dumps(line).decode())


def log_to(stream: TextIO) -> None:
    """Sends the lines, and nothing else, to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
