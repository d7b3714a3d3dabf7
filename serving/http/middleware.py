"""Middleware of the HTTP service: request ids, logging and error replies; hosts, admission, deadlines, cancellation."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Collection, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fdarx_core.specs.serve import ANY_HOST, ServiceSettings
from fdarx_core.telemetry import Span, fail, span
from serving.http.access import ApiKeys, ClientRateLimiter, ConcurrencyLimiter, key_of_request
from serving.http.backend import Record
from serving.http.feedback import FEEDBACK_BYTES
from serving.http.feedback import PATH as FEEDBACK_PATH
from serving.http.logs import request_log, write_request_log
from serving.http.mcp import PATH as MCP_PATH
from serving.http.responses import ApiError, busy_error, error_reply, sse_event
from serving.http.uploads import PATH as UPLOAD_PATH

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
_API_PREFIX = "/v1/"
_BODIES_OF_CLIENT, _BODIES = 2**28, 2**30
"""Bytes that the bodies of the requests of one client, and of all clients, may take at a time, by their limits."""
_NO_KEY = "Send a valid API key, as Authorization: Bearer KEY or X-API-Key: KEY."
_WRONG_HOST = (
    "This service does not answer to the host name {!r}. Use localhost or its IP address, or ask its operator to add "
    "the name to allowed_hosts (`fdarx serve --allowed-hosts NAME`)."
)
_WRONG_ORIGIN = (
    "Pages of {!r} may not use this service. Open the page of the service itself, or ask its operator to add the host "
    "name to allowed_hosts (`fdarx serve --allowed-hosts NAME`)."
)
_DEFAULT_PORTS = (None, 80, 443)
_NO_UPLOAD_RIGHT = (
    "This API key may not add documents. The operator gives a key the right by `:upload` at the end of its line in the"
    " file of keys, or makes one by `fdarx serve --new-key NAME --upload`, and starts the service again."
)
_NO_UPLOADS = "This service takes no documents. The operator lets clients add them by `fdarx serve --upload`."
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
        arrived, log, request_headers = time.monotonic(), request_log(scope), Headers(scope=scope)
        given_id = request_headers.get("x-request-id", "")
        log.request_id = given_id if _VALID_REQUEST_ID.fullmatch(given_id) else uuid4().hex
        headers = [*_HEADERS, (b"x-request-id", log.request_id.encode())]
        # a proxy, or the client itself, says so: browsers ignore HSTS that does not come by https
        forwarded = request_headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        if "https" in (scope.get("scheme"), forwarded):
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

        attributes = {"http.request.method": scope["method"], "url.path": scope["path"], "url.scheme": scope["scheme"]}
        parent = request_headers.get("traceparent", "")
        with span(scope["method"], attributes, kind="server", parent=parent) as request_span:
            try:
                await self._app(scope, receive, send_with_headers)
            except ClientDisconnect:
                start["status"] = _CLIENT_CLOSED_REQUEST
            except Exception as error:
                reply = error_reply(error, scope, log_questions=self._log_questions)
                if not start:
                    await reply.response()(scope, receive, send_with_headers)
                elif any(value.startswith(b"text/event-stream") for _, value in start["headers"]):
                    body = sse_event("error", reply.body)
                    await send({"type": "http.response.body", "body": body, "more_body": False})
            finally:
                status = start.get("status", _CLIENT_CLOSED_REQUEST)
                self._finish(scope, status, time.monotonic() - arrived, request_span)

    def _finish(self, scope: Scope, status: int, seconds: float, request_span: Span) -> None:
        unrouted: str = scope["path"] if scope["path"] in self._paths else "unmatched"
        route: str = getattr(scope.get("route"), "path", unrouted)
        log = request_log(scope)
        # by the semantic conventions for HTTP servers
        request_span.update_name(f"{scope['method']} {route}")
        attributes = {"http.route": route, "http.response.status_code": status, "fdarx.request_id": log.request_id}
        request_span.set_attributes(attributes)
        if status >= _SERVER_ERROR:
            fail(request_span, log.error or str(status))
        self._record("fdarx_requests", path=route, status=str(status))
        self._record("fdarx_request_seconds", seconds, path=route)
        if not self._log_questions:
            log.question = ""
        write_request_log(log, scope["method"], route, status, seconds)


class HostMiddleware:
    """Refuses requests whose Host is not a name of this server, and those of other servers' pages.

    A page of any server can make a browser connect to this one, by a name that it resolves to this server's address
    (DNS rebinding); Host then has that name. IP addresses and localhost can't be names of this kind.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, record: Record) -> None:
        self._app, self._record = app, record
        self._names = frozenset(name.lower().rstrip(".") for name in settings.allowed_hosts)
        self._any = ANY_HOST in self._names or (settings.keys_file is not None and not self._names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(Headers(scope=scope))
        await self._app(scope, receive, send)

    def _check(self, headers: Headers) -> None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = _split(f"//{hosts[0]}") if len(hosts) == 1 else None
        if not self._any and (host is None or not _is_local(host[0], self._names)):
            self._record("fdarx_rejected", why="host")
            raise ApiError(421, _WRONG_HOST.format(" ".join(hosts)[:100]), code="wrong_host")
        for url in origins:
            origin = _split(url)
            if origin is None or not (origin == host or origin[0] in self._names):
                self._record("fdarx_rejected", why="origin")
                raise ApiError(403, _WRONG_ORIGIN.format(url[:100]), code="wrong_origin")


def _split(url: str) -> tuple[str, int | None] | None:
    """Return the host and port of a URL, None for the port where it is a default one; None where there is no host."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname and "@" not in parts.netloc:
            return parts.hostname.rstrip("."), None if parts.port in _DEFAULT_PORTS else parts.port
    return None


def _is_local(host: str, names: Collection[str]) -> bool:
    if host == "localhost" or host in names:
        return True
    with suppress(ValueError):
        address = ip_address(host)
        return not (isinstance(address, IPv6Address) and address.scope_id)
    return False


class AdmissionMiddleware:
    """Checks key, rate, right, size and concurrency before a request to the API runs; cancels it when it is not needed.

    The body is read after key, rate and right are checked. Look-ups, which ask no model, have places of their own.

    The API is every path that contains /v1/ or ends with /mcp, under whichever prefix the application is mounted.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, record: Record) -> None:
        self._app, self._settings, self._record = app, settings, record
        self._keys = ApiKeys.of(settings)
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
        if self._keys.hashes is not None:
            name = self._keys.name_of(key_of_request(headers))
            if name is None:
                self._record("fdarx_rejected", why="key")
                raise ApiError(401, _NO_KEY, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
            log.key = name
        client = log.key or (scope.get("client") or ("unknown",))[0]
        uploads, feedback = (posts and scope["path"].endswith(path) for path in (UPLOAD_PATH, FEEDBACK_PATH))
        lookup = not posts or feedback
        if self._rates and (wait := self._rates[lookup].acquire(client)):
            self._record("fdarx_rejected", why="rate")
            rate = self._rates[lookup].per_minute
            raise busy_error(f"More than {rate:g} {'look-ups' if lookup else 'requests'} a minute.", wait, status=429)
        if uploads and log.key not in self._keys.uploaders:
            raise ApiError(403, _NO_UPLOADS if self._keys.hashes is None else _NO_UPLOAD_RIGHT, code="no_right")
        seconds = self._deadline(headers, self._settings.upload_s if uploads else self._settings.deadline_s)
        end = time.monotonic() + seconds
        limit = self._settings.upload_bytes if uploads else self._settings.body_bytes
        held = min(limit, FEEDBACK_BYTES) if feedback else limit
        with self._held_body(client, held if posts else 0):
            body = await self._read_body(Request(scope, receive), seconds, held)
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

    def _deadline(self, headers: Headers, longest: float) -> float:
        deadline = headers.get("x-deadline-ms")
        if not deadline:
            return longest
        if not deadline.isdecimal() or not int(deadline[:12]) > 0:
            raise ApiError(422, "X-Deadline-Ms is a whole number of milliseconds above 0.", param="X-Deadline-Ms")
        return min(int(deadline[:12]) / 1000, longest)

    async def _read_body(self, request: Request, seconds: float, limit: int) -> bytes:
        too_large = ApiError(413, f"The body is longer than {limit} bytes.", code="too_large")
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                async for piece in request.stream():
                    body += piece
                    if len(body) > limit:
                        raise too_large
        except TimeoutError:
            raise ApiError(408, f"The request's body did not arrive within {seconds:g} s.", code="slow_body") from None
        return bytes(body)

    async def _run(self, scope: Scope, body: bytes, send: Send, places: ConcurrencyLimiter, client: str) -> None:
        if not await places.acquire(client):
            self._record("fdarx_rejected", why="concurrency")
            raise busy_error(_BUSY)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not messages:  # no disconnect is reported: the middleware watches for it, and cancels the request
                await asyncio.get_running_loop().create_future()
            return messages.pop()

        try:
            await self._app(scope, receive, send)
        finally:
            places.release(client)


def _is_api(path: str) -> bool:
    return _API_PREFIX in path or path.endswith(MCP_PATH)


async def _run_until_disconnect(work: Awaitable[None], receive: Receive, seconds: float, too_late: str) -> None:
    """Run the work to its end, or cancel it. Raises ClientDisconnect, or ApiError 504 after `seconds`."""

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
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
