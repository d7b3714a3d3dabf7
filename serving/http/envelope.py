"""What every exchange gets: a request id, safe headers, an answer to whatever goes wrong, a log line, a count."""

from __future__ import annotations

import re
import time
import traceback
from uuid import uuid4

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.http import logs
from serving.http.errors import Problem
from serving.http.meter import Meter

_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_CLIENT_GONE = 499
_FAILED = "Something went wrong here. Report it with the request id {}, under which the log has more."


class ClientGone(Exception):
    """The client closed the connection: nobody waits for an answer."""


class Envelope:
    """The outermost middleware. Questions and what exceptions say get into the log only with `log_questions`.

    `paths` are the API's: a request that was refused before it reached its route is counted under its path.
    """

    def __init__(self, app: ASGIApp, meter: Meter, paths: frozenset[str], log_questions: bool) -> None:
        self._app, self._meter, self._paths, self._log_questions = app, meter, paths, log_questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, note = time.monotonic(), logs.note_of(scope)
        note.request_id = _request_id(scope)
        sender = _Sender(send, note.request_id)
        try:
            await self._app(scope, receive, sender)
        except ClientGone:
            sender.status = _CLIENT_GONE
        except Exception as error:
            await self._fail(error, scope, receive, sender)
        finally:
            self._ended(scope, sender.status or _CLIENT_GONE, time.monotonic() - started)

    async def _fail(self, error: Exception, scope: Scope, receive: Receive, sender: _Sender) -> None:
        note = logs.note_of(scope)
        problem = error if isinstance(error, Problem) else Problem(500, _FAILED.format(note.request_id), code="failed")
        note.error = problem.code or str(problem.status)
        if problem is not error:
            note.detail = _trace(error, self._log_questions)
        if not sender.status:
            await problem.response()(scope, receive, sender)
        else:
            await sender.end(problem)

    def _ended(self, scope: Scope, status: int, seconds: float) -> None:
        unrouted: str = scope["path"] if scope["path"] in self._paths else "unmatched"
        route: str = getattr(scope.get("route"), "path", unrouted)
        note = logs.note_of(scope)
        self._meter.request(route, status, seconds)
        if not self._log_questions:
            note.question = ""
        logs.write(note, scope["method"], route, status, seconds)


class _Sender:
    """Sends with the headers of all replies, and knows how far the reply has come."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._headers = [*_HEADERS, (b"x-request-id", request_id.encode())]
        self.status = 0
        self._streams = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *self._headers]
            self._streams = any(value.startswith(b"text/event-stream") for _, value in headers)
            message = {**message, "headers": headers}
        await self._send(message)

    async def end(self, problem: Problem) -> None:
        """What went wrong in the middle of a stream of events is its last one."""
        if self._streams:
            event = b"event: error\ndata: " + orjson.dumps(problem.body) + b"\n\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": False})


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _SANE_ID.fullmatch(given) else uuid4().hex


def _trace(error: Exception, full: bool) -> str:
    """Where it happened. What the exception says may hold a question."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )
    said = f": {error}" if full else ""
    return f"{type(error).__name__}{said} at {places}"
