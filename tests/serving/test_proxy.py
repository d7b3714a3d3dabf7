"""What clients get from the proxy where no replica of the ingress replies."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from serving.http.backend import Unavailable
from serving.http.responses import unavailable_error
from serving.proxy import middlewares


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    """As the proxy does for a request whose replica dies."""


def replied(app: Any, headers: dict[str, str] | None = None) -> tuple[list[Message], Scope]:
    """What was sent, and what the application was given."""
    sent: list[Message] = []
    given: Scope = {}
    [middleware] = middlewares()
    kind: Any = middleware.cls

    async def remember(scope: Scope, receive: Receive, send: Send) -> None:
        given.update(scope)
        await app(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": raw}
    asyncio.run(kind(remember)(scope, receive, send))
    return sent, given


@pytest.mark.parametrize("app", [silent, *(PlainTextResponse("later", status) for status in (408, 429, 503))])
def test_unanswered_requests_get_503_with_retry_after(app: Any) -> None:
    [start, body] = replied(app)[0]
    headers = dict(start["headers"])
    assert start["status"] == 503 and int(headers[b"retry-after"]) > 0
    same = unavailable_error(Unavailable("this server"))
    assert orjson.loads(body["body"]) == same.body and headers[b"retry-after"].decode() == same.headers["Retry-After"]


@pytest.mark.parametrize(
    "app", [JSONResponse({}, 503), JSONResponse({}, 429), PlainTextResponse("ok"), PlainTextResponse("no", 404)]
)
def test_replies_of_the_application_stay_as_they_are(app: Response) -> None:
    [start, body] = replied(app)[0]
    assert (start["status"], body["body"]) == (app.status_code, app.body)


def test_deadline_of_the_client_limits_the_wait_for_a_replica() -> None:
    timeouts = {b"x-request-timeout-seconds": b"1.5"}
    assert timeouts.items() <= dict(replied(silent, {"X-Deadline-Ms": "500"})[1]["headers"]).items()
    for wrong in ("soon", "-1", ""):
        assert len(replied(silent, {"X-Deadline-Ms": wrong})[1]["headers"]) == 1
