"""Middleware of the HTTP service: request ids, logging and error replies; admission, deadlines and cancellation."""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import Awaitable, Iterator
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.config import ServiceSettings
from serving.http.access import (
    CapacityExceeded,
    ClientRateLimiter,
    ConcurrencyLimiter,
    key_of_request,
    load_keys,
    name_of_key,
)
from serving.http.backend import RequestMetrics
from serving.http.logs import request_log, write_request_log
from serving.http.responses import ApiError, busy_error, sse_event

_VALID_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_CLIENT_CLOSED_REQUEST = 499
_INTERNAL_ERROR = "An internal error occurred. Report it with the request id {}, under which the log has details."
_API_PREFIX = "/v1/"
_NO_KEY = "Send a valid API key, as Authorization: Bearer KEY or X-API-Key: KEY."
_DEADLINE = "No answer within {:g} s. Use a strategy without a model, or a smaller k, or allow more time."


class ClientDisconnected(Exception):
    """The client closed the connection, so the reply is not needed any more."""


class RequestMiddleware:
    """The outermost middleware: request id, security headers, error replies, log line and metrics of each request.

    Questions and the messages of exceptions are logged only with `log_questions`. `paths` are those of the API: a
    request that is rejected before it reaches its route is counted under its path.
    """

    def __init__(self, app: ASGIApp, metrics: RequestMetrics, paths: frozenset[str], log_questions: bool) -> None:
        self._app, self._metrics, self._paths, self._log_questions = app, metrics, paths, log_questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, log = time.monotonic(), request_log(scope)
        log.request_id = _request_id(scope)
        sender = _ResponseSender(send, log.request_id)
        try:
            await self._app(scope, receive, sender)
        except ClientDisconnected:
            sender.status = _CLIENT_CLOSED_REQUEST
        except Exception as error:
            await self._send_error(error, scope, receive, sender)
        finally:
            self._finish(scope, sender.status or _CLIENT_CLOSED_REQUEST, time.monotonic() - started)

    async def _send_error(self, error: Exception, scope: Scope, receive: Receive, sender: _ResponseSender) -> None:
        log = request_log(scope)
        internal = ApiError(500, _INTERNAL_ERROR.format(log.request_id), code="failed")
        reply = error if isinstance(error, ApiError) else internal
        log.error = reply.code or str(reply.status)
        if reply is internal:
            log.detail = _traceback(error, self._log_questions)
        if not sender.status:
            await reply.response()(scope, receive, sender)
        elif sender.is_event_stream:
            body = sse_event("error", reply.body)
            await sender({"type": "http.response.body", "body": body, "more_body": False})

    def _finish(self, scope: Scope, status: int, seconds: float) -> None:
        unrouted: str = scope["path"] if scope["path"] in self._paths else "unmatched"
        route: str = getattr(scope.get("route"), "path", unrouted)
        log = request_log(scope)
        self._metrics.request(route, status, seconds)
        if not self._log_questions:
            log.question = ""
        write_request_log(log, scope["method"], route, status, seconds)


class _ResponseSender:
    """ASGI `send` that adds the headers of all replies, and remembers the reply's status and kind."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._headers = [*_HEADERS, (b"x-request-id", request_id.encode())]
        self.status = 0
        self.is_event_stream = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *self._headers]
            self.is_event_stream = any(value.startswith(b"text/event-stream") for _, value in headers)
            message = {**message, "headers": headers}
        await self._send(message)


def _request_id(scope: Scope) -> str:
    given = _header(scope, b"x-request-id")
    return given.decode() if _VALID_REQUEST_ID.fullmatch(given) else uuid4().hex


def _traceback(error: Exception, with_message: bool) -> str:
    """Return the last frames on one line. The message is optional, since it may quote a question."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[-4:])
    places = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__}{f': {error}' if with_message else ''} at {places}"


class AdmissionMiddleware:
    """Checks key, rate, size and concurrency before a request to the API runs, and cancels it when it is not needed.

    The API is every path that contains /v1/, under whichever prefix the application is mounted.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: RequestMetrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._keys = load_keys(settings.keys_file) if settings.keys_file else None
        rate = settings.requests_per_minute
        self._rate = ClientRateLimiter(rate, settings.burst) if rate else None
        self._limiter = ConcurrencyLimiter(settings.in_flight, settings.waiting, settings.wait_s, metrics.in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _API_PREFIX not in scope["path"]:
            await self._app(scope, receive, send)
            return
        self._check_key(scope)
        self._check_rate(scope)
        seconds = self._deadline(scope)
        end = time.monotonic() + seconds
        body = await self._read_body(scope, receive, seconds)
        work = self._run(scope, body, send)
        await _run_until_disconnect(work, receive, end - time.monotonic(), _DEADLINE.format(seconds))

    def _check_key(self, scope: Scope) -> None:
        if self._keys is None:
            return
        name = name_of_key(key_of_request(scope["headers"]), self._keys)
        if name is None:
            self._metrics.rejected("key")
            raise ApiError(401, _NO_KEY, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        request_log(scope).key = name

    def _check_rate(self, scope: Scope) -> None:
        """Apply the rate limit to POST requests; lookups are cheap and not limited."""
        if self._rate is None or scope["method"] != "POST":
            return
        wait = self._rate.acquire(request_log(scope).key or (scope.get("client") or ("unknown",))[0])
        if wait:
            self._metrics.rejected("rate")
            raise busy_error(f"More than {self._settings.requests_per_minute:g} requests a minute.", wait, status=429)

    def _deadline(self, scope: Scope) -> float:
        given = _header(scope, b"x-deadline-ms")
        if not given:
            return self._settings.deadline_s
        if not given.isdigit() or not int(given[:12]) > 0:
            raise ApiError(422, "X-Deadline-Ms is a whole number of milliseconds above 0.", param="X-Deadline-Ms")
        return min(int(given[:12]) / 1000, self._settings.deadline_s)

    async def _read_body(self, scope: Scope, receive: Receive, seconds: float) -> bytes:
        limit = self._settings.body_bytes
        declared = _header(scope, b"content-length")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise _too_large(limit)
        try:
            return await asyncio.wait_for(_read(receive, limit), seconds)
        except asyncio.TimeoutError:
            raise ApiError(408, f"The request's body did not arrive within {seconds:g} s.", code="slow_body") from None

    async def _run(self, scope: Scope, body: bytes, send: Send) -> None:
        try:
            await self._limiter.acquire()
        except CapacityExceeded:
            self._metrics.rejected("concurrency")
            raise busy_error("This server is processing as many requests as it can.") from None
        try:
            await self._app(scope, _replay(body), send)
        finally:
            self._limiter.release()


def _replay(body: bytes) -> Receive:
    """Return an ASGI `receive` for a body that has been read. It never reports a disconnect: the middleware does."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.get_running_loop().create_future()  # wait until the request is finished or cancelled
        return messages.pop()

    return receive


async def _read(receive: Receive, limit: int) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        piece: bytes = message.get("body", b"")
        body += piece
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return body


async def _run_until_disconnect(work: Awaitable[None], receive: Receive, seconds: float, too_late: str) -> None:
    """Run the work to its end, or cancel it. Raises ClientDisconnected, or ApiError 504 after `seconds`."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        elif gone.done():
            raise ClientDisconnected
        else:
            raise ApiError(504, too_late, code="deadline")
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"The body is longer than {limit} bytes.", code="too_large")


def _header(scope: Scope, name: bytes) -> bytes:
    values: Iterator[bytes] = (value for key, value in scope["headers"] if key == name)
    return next(values, b"")
