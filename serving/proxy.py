"""Middleware of Ray Serve's HTTP proxy: replies for an application whose replicas are gone.

The proxy itself sends no reply where a replica dies with a request, so that its server replies 500; and it lets
requests wait for a new replica without regard to their deadline. `SERVE_VARIABLES` name `middlewares` to the proxies.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MESSAGE = "This server can't be reached. Try again in 5 s."
_ERROR = {"type": "overloaded_error", "message": _MESSAGE, "param": None, "code": "unavailable"}
"""As `serving.http` has it, which a proxy does not import: it would take a second of its start."""
_GRACE_S = 1.0
"""Seconds after a request's deadline in which the application may reply itself."""

_OWN_ERRORS = (408, 429, 503)
"""Statuses of the replies that the proxy makes itself, as plain text, which the service never sends."""


def middlewares() -> list[Middleware]:
    """Return the middleware, as Serve wants it."""
    return [Middleware(ProxyMiddleware)]


class ProxyMiddleware:
    """Replies 503 with Retry-After where the application does not reply, and limits the wait to X-Deadline-Ms."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = replaced = False

        async def send_own(message: Message) -> None:
            nonlocal started, replaced
            if message["type"] == "http.response.start":
                kind = Headers(raw=list(message.get("headers", ()))).get("content-type", "")
                replaced = message["status"] in _OWN_ERRORS and kind.startswith("text/plain")
                started = not replaced
            if not replaced:
                await send(message)

        deadline = Headers(scope=scope).get("x-deadline-ms", "")
        if deadline.isdecimal():  # the deadline that the client gives is that of the proxy's own timeout
            timeout = f"{int(deadline[:12]) / 1000 + _GRACE_S:g}".encode()
            scope = {**scope, "headers": [*scope["headers"], (b"x-request-timeout-seconds", timeout)]}
        await self._app(scope, receive, send_own)
        if not started:
            await JSONResponse({"error": _ERROR}, 503, {"Retry-After": "5"})(scope, receive, send)
