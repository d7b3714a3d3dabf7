"""Middleware of the HTTP service: request ids, logging and error replies; admission, deadlines and cancellation."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, contextmanager
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fdarx_core.telemetry import Span, span
from serving.http.access import ClientRateLimiter, ConcurrencyLimiter, key_of_request, load_rights, name_of_key
from serving.http.backend import Record
from serving.http.feedback import FEEDBACK_BYTES
from serving.http.feedback import PATH as FEEDBACK_PATH
from serving.http.logs import RequestLog, describe_error, request_log, write_request_log
from serving.http.mcp import PATH as MCP_PATH
from serving.http.responses import ApiError, busy_error, sse_event
from serving.http.uploads import PATH as UPLOAD_PATH
from serving.http.uploads import Uploaders
from serving.settings import ServiceSettings

_VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_NO_STORE = (b"cache-control", b"no-store")
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_CLIENT_CLOSED_REQUEST = 499
_SERVER_ERROR = 500
_INTERNAL_ERROR = "An internal error occurred. Report it with the request id {}, under which the log has details."
_API_PREFIX = "/v1/"
_BODIES_OF_CLIENT, _BODIES = 2**28, 2**30
"""Bytes that the bodies of the requests of one client, and of all clients, may take at a time, by their limits."""
_NO_KEY = "Send a valid API key, as Authorization: Bearer KEY or X-API-Key: KEY."
_BUSY = "This server is processing as many requests as it can, or as many of this client as it may."
_LOOKUP_RATE = 10
"""How many times as many look-ups as other requests a client may send a minute: a page sends one for each key typed."""
_DEADLINE = "No answer within {:g} s. Use a strategy without a model, or a smaller k, or allow more time."


class RequestMiddleware:
    """The outermost middleware: request id, security headers, error replies, log line and metrics of each request.

    Questions and the messages of exceptions are logged only with `log_questions`. `paths` are those of the API: a
    request that is rejected before it reaches its route is counted under its path.
    """

    def __init__(self, app: ASGIApp, record: Record, paths: frozenset[str], log_questions: bool) -> None:
        self._app, self._record, self._paths, self._log_questions = app, record, paths, log_questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        arrived, log = time.monotonic(), request_log(scope)
        given_id = Headers(scope=scope).get("x-request-id", "")
        log.request_id = given_id if _VALID_REQUEST_ID.fullmatch(given_id) else uuid4().hex
        headers = [*_HEADERS, (b"x-request-id", log.request_id.encode())]
        if _came_by_https(scope):
            headers.append(_HSTS)
        start: Message = {}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [*message.get("headers", ())]
                if _is_api(scope["path"]) and not any(name.lower() == _NO_STORE[0] for name, _ in own):
                    own.append(_NO_STORE)
                message = {**message, "headers": [*own, *headers]}
                start.update(message)
            await send(message)

        with _request_span(scope) as request_span:
            try:
                await self._app(scope, receive, send_with_headers)
            except ClientDisconnect:
                start["status"] = _CLIENT_CLOSED_REQUEST
            except Exception as error:
                reply = self._error_reply(error, log)
                if not start:
                    await reply.response()(scope, receive, send_with_headers)
                elif any(value.startswith(b"text/event-stream") for _, value in start["headers"]):
                    body = sse_event("error", reply.body)
                    await send({"type": "http.response.body", "body": body, "more_body": False})
            finally:
                status = start.get("status", _CLIENT_CLOSED_REQUEST)
                self._finish(scope, status, time.monotonic() - arrived, request_span)

    def _error_reply(self, error: Exception, log: RequestLog) -> ApiError:
        if isinstance(error, ApiError):
            log.error = error.code or str(error.status)
            return error
        log.error, log.detail = "failed", describe_error(error, self._log_questions)
        return ApiError(500, _INTERNAL_ERROR.format(log.request_id), code="failed")

    def _finish(self, scope: Scope, status: int, seconds: float, request_span: Span) -> None:
        unrouted: str = scope["path"] if scope["path"] in self._paths else "unmatched"
        route: str = getattr(scope.get("route"), "path", unrouted)
        log = request_log(scope)
        _describe(request_span, scope["method"], route, status, log)
        self._record("fdarx_requests", path=route, status=str(status))
        self._record("fdarx_request_seconds", seconds, path=route)
        if not self._log_questions:
            log.question = ""
        write_request_log(log, scope["method"], route, status, seconds)


def _request_span(scope: Scope) -> AbstractContextManager[Span]:
    """Return the span of a request, below the one that the client names in the header traceparent."""
    parent = Headers(scope=scope).get("traceparent", "")
    attributes = {"http.request.method": scope["method"], "url.path": scope["path"], "url.scheme": scope["scheme"]}
    return span(scope["method"], attributes, kind="server", parent=parent)


def _describe(request_span: Span, method: str, route: str, status: int, log: RequestLog) -> None:
    """Add what is known of a request at its end, by the semantic conventions for HTTP servers."""
    request_span.rename(f"{method} {route}")
    request_span.set({"http.route": route, "http.response.status_code": status, "fdarx.request_id": log.request_id})
    if status >= _SERVER_ERROR:
        request_span.fail(log.error or str(status))


def _came_by_https(scope: Scope) -> bool:
    """Return whether a proxy, or the client itself, says so: browsers ignore HSTS that does not come by https."""
    forwarded = Headers(scope=scope).get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (scope.get("scheme"), forwarded)


class AdmissionMiddleware:
    """Checks key, rate, right, size and concurrency before a request to the API runs; cancels it when it is not needed.

    The body is read after key, rate and right are checked. Look-ups, which ask no model, have places of their own.

    The API is every path that contains /v1/ or ends with /mcp, under whichever prefix the application is mounted.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, record: Record) -> None:
        self._app, self._settings, self._record = app, settings, record
        rights = load_rights(settings.keys_file) if settings.keys_file else None
        self._keys = None if rights is None else {name: digest for name, (digest, _) in rights.items()}
        self._uploaders = Uploaders(settings)
        rate, burst = settings.requests_per_minute, settings.burst
        self._rates = rate and {
            lookup: ClientRateLimiter(rate * factor, burst * factor)
            for lookup, factor in ((False, 1), (True, _LOOKUP_RATE))
        }
        self._places = {
            lookup: ConcurrencyLimiter(settings.in_flight, settings.waiting, settings.wait_s, self._count)
            for lookup in (False, True)
        }
        self._in_flight = 0
        self._bodies: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers, log, posts = Headers(scope=scope), request_log(scope), scope["method"] == "POST"
        if self._keys is not None:
            log.key = self._checked_key(headers, self._keys)
        client = log.key or (scope.get("client") or ("unknown",))[0]
        uploads, feedback = (posts and scope["path"].endswith(path) for path in (UPLOAD_PATH, FEEDBACK_PATH))
        lookup = not posts or feedback
        self._check_rate(client, lookup)
        if uploads:
            self._uploaders.check(log.key)
        seconds = self._deadline(headers, self._settings.upload_s if uploads else self._settings.deadline_s)
        end = time.monotonic() + seconds
        limit = self._settings.upload_bytes if uploads else self._settings.body_bytes
        held = min(limit, FEEDBACK_BYTES) if feedback else limit
        with self._held_body(client, held if posts else 0):
            body = await self._read_body(headers, receive, seconds, held)
            work = self._run(scope, body, send, self._places[lookup], client)
            await _run_until_disconnect(work, receive, end - time.monotonic(), _DEADLINE.format(seconds))

    @contextmanager
    def _held_body(self, client: str, size: int) -> Iterator[None]:
        """Reserve room for a body of a client. Raises ApiError 503 where its bodies, or all of them, take too much."""
        if self._bodies[client] + size > _BODIES_OF_CLIENT or self._bodies.total() + size > _BODIES:
            self._record("fdarx_rejected", why="bodies")
            raise busy_error(_BUSY)
        self._bodies[client] += size
        try:
            yield
        finally:
            self._bodies[client] -= size
            if not self._bodies[client]:
                del self._bodies[client]

    def _count(self, change: int) -> None:
        self._in_flight += change
        self._record("fdarx_in_flight", self._in_flight)

    def _checked_key(self, headers: Headers, keys: dict[str, str]) -> str:
        """Return the name of the request's key."""
        name = name_of_key(key_of_request(headers), keys)
        if name is None:
            self._record("fdarx_rejected", why="key")
            raise ApiError(401, _NO_KEY, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        return name

    def _check_rate(self, client: str, lookup: bool) -> None:
        if self._rates and (wait := self._rates[lookup].acquire(client)):
            self._record("fdarx_rejected", why="rate")
            rate = self._rates[lookup].per_minute
            raise busy_error(f"More than {rate:g} {'look-ups' if lookup else 'requests'} a minute.", wait, status=429)

    def _deadline(self, headers: Headers, longest: float) -> float:
        given = headers.get("x-deadline-ms")
        if not given:
            return longest
        if not given.isdecimal() or not int(given[:12]) > 0:
            raise ApiError(422, "X-Deadline-Ms is a whole number of milliseconds above 0.", param="X-Deadline-Ms")
        return min(int(given[:12]) / 1000, longest)

    async def _read_body(self, headers: Headers, receive: Receive, seconds: float, limit: int) -> bytes:
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise _too_large(limit)
        try:
            return await asyncio.wait_for(_read(receive, limit), seconds)
        except asyncio.TimeoutError:
            raise ApiError(408, f"The request's body did not arrive within {seconds:g} s.", code="slow_body") from None

    async def _run(self, scope: Scope, body: bytes, send: Send, places: ConcurrencyLimiter, client: str) -> None:
        if not await places.acquire(client):
            self._record("fdarx_rejected", why="concurrency")
            raise busy_error(_BUSY)
        try:
            await self._app(scope, _replay(body), send)
        finally:
            places.release(client)


def _is_api(path: str) -> bool:
    return _API_PREFIX in path or path.endswith(MCP_PATH)


def _replay(body: bytes) -> Receive:
    """Return an ASGI `receive` for a body that has been read. It never reports a disconnect: the middleware does."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.get_running_loop().create_future()  # wait until the request is finished or cancelled
        return messages.pop()

    return receive


async def _read(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return bytes(body)


async def _run_until_disconnect(work: Awaitable[None], receive: Receive, seconds: float, too_late: str) -> None:
    """Run the work to its end, or cancel it. Raises ClientDisconnect, or ApiError 504 after `seconds`."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        elif gone.done():
            raise ClientDisconnect
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
