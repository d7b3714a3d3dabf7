"""The request log: one line of JSON per request."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

import orjson

LOGGER = logging.getLogger("fdarx.requests")
_SCOPE_KEY = "fdarx.log"


@dataclass(slots=True)
class RequestLog:
    """Fields of a log line beside route, status and time; the routes fill them in.

    `key` is the name of the API key, never the key; `tool` is that of an MCP request. `question` is logged only with
    `log_questions`.
    """

    request_id: str = ""
    key: str = ""
    tool: str = ""
    corpus: str = ""
    strategy: str = ""
    retriever: str = ""
    postprocess: str = ""
    stream: bool | None = None
    passages: int | None = None
    citations: int | None = None
    refused: bool | None = None
    supported: int | None = None
    unsupported: int | None = None
    undecided: int | None = None
    uncited: int | None = None
    dropped: int | None = None
    degraded: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str = ""
    detail: str = ""
    question: str = ""


def request_log(scope: MutableMapping[str, Any]) -> RequestLog:
    """Return the log fields of a request, by its ASGI scope."""
    log: RequestLog = scope.setdefault(_SCOPE_KEY, RequestLog())
    return log


def write_request_log(log: RequestLog, method: str, route: str, status: int, seconds: float) -> None:
    """Write the line of a finished request, without empty fields."""
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    line = {"at": at, "method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    line |= {name: value for name, value in asdict(log).items() if value is not None and value != ""}
    LOGGER.info(orjson.dumps(line).decode())


def describe_error(error: Exception, with_message: bool) -> str:
    """Return the last frames on one line. The message is optional, since it may quote a question."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[-4:])
    places = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__}{f': {error}' if with_message else ''} at {places}"


def open_request_log(file: Path) -> TextIO:
    """Open a file for the request log, which only its owner may read if it is new: it has the names of keys."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8")


def configure_request_log(stream: TextIO) -> None:
    """Send the request log, and nothing else, to a stream."""
    LOGGER.handlers[:] = [logging.StreamHandler(stream)]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
