"""HTTP responses: JSON, errors in one format on every route, and server-sent events."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fdarx_core.wording import fault_text
from serving.http.backend import Overloaded, Unavailable
from serving.http.logs import describe_error, request_log

_CHAT_PREFIX = "/v1/chat/"
_INTERNAL_ERROR = "An internal error occurred. Report it with the request id {}, under which the log has details."
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
    504: "timeout_error",
    507: "server_error",
}
_WHY = {
    400: "The request is invalid.",
    401: "The API key is missing or unknown.",
    403: "The API key has not the right to do this, or a page of another server sends the request.",
    404: "Nothing matches.",
    409: "The index takes no documents from this service.",
    408: "The body of the request arrived too slowly.",
    413: "The body of the request is too long.",
    415: "The body has a wrong Content-Type.",
    421: "The request names a host that is not among the allowed ones.",
    422: "The request is invalid.",
    429: "Too many requests for this key; Retry-After gives the seconds to wait.",
    500: "Internal error.",
    503: "The service is overloaded, or a part of it is down; Retry-After gives the seconds to wait.",
    504: "The deadline has passed.",
    507: "The file of judgments is full.",
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
"""What the OpenAPI document says of replies that may be streams."""
_MAX_DETAILS = 5
_VALIDATION_MESSAGES = {
    "extra_forbidden": "there is no such field",
    "missing": "it is required",
    "json_invalid": "the body is not JSON",
    "model_attributes_type": "send a JSON object, with the header Content-Type: application/json",
}


class ErrorDetail(BaseModel):
    """What is wrong with the request, and what to do."""

    type: str
    message: str
    param: str | None = Field(description="The field that is wrong, if any.")
    code: str | None = Field(description="A fixed name of the error.")


class ErrorReply(BaseModel):
    """The error reply of every route, in OpenAI's format."""

    error: ErrorDetail


def error_responses(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the error replies of routes for the OpenAPI document: those that all routes under /v1 have, or the given
    ones."""
    statuses = more or (401, 403, 408, 413, 421, 422, 429, 500, 503, 504)
    return {status: {"model": ErrorReply, "description": _WHY[status]} for status in statuses}


def json_reply(content: object, status: int = 200) -> Response:
    """Serialize without validation, which replies of the service itself don't need."""
    return Response(orjson.dumps(content), status, media_type="application/json")


class ApiError(Exception):
    """A request that can't be served. `message` says what was wrong and what to do, `param` names the field."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The error in OpenAI's format."""
        kind = _ERROR_TYPES.get(self.status, "invalid_request_error")
        return {"error": {"type": kind, "message": self.message, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        return Response(orjson.dumps(self.body), self.status, self.headers, media_type="application/json")


def unknown_name_error(
    name: str, known: Sequence[str], *, param: str, status: int = 422, code: str = "unknown"
) -> ApiError:
    """Return the error for an unknown name, which lists the known ones."""
    names = ", ".join(known) or "none"
    return ApiError(status, f"There is no {param} {name[:60]!r}; there is: {names}.", param=param, code=code)


def busy_error(why: str, seconds: float = 1.0, status: int = 503) -> ApiError:
    """Return the error for a request that may succeed later, with a Retry-After header."""
    wait = max(1, math.ceil(seconds))
    return ApiError(status, f"{why} Try again in {wait} s.", code="busy", headers={"Retry-After": str(wait)})


def unavailable_error(error: Unavailable) -> ApiError:
    """Return the error for a part of the service that is down; its cause is only logged."""
    if isinstance(error, Overloaded):
        return busy_error(f"{error.part.capitalize()} is overloaded.")
    reply = busy_error(f"{error.part.capitalize()} can't be reached.", 5)
    reply.code = "unavailable"
    return reply


def validation_error(details: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return the error for a request that pydantic rejects, from the details of pydantic's errors."""
    faults = list[tuple[str, str]]()
    for detail in details:
        # "filter.drug" for ("body", "filter", "drug"); a position in invalid JSON is not a field
        field = ".".join(str(part) for part in detail["loc"][1:] if isinstance(part, str))[:100]
        message = fault_text(detail).replace("Input should be", "it should be")
        faults.append((field, _VALIDATION_MESSAGES.get(detail["type"], message)))
    message = "; ".join(f"{field}: {fault}" if field else fault for field, fault in faults[:_MAX_DETAILS])
    more = f" (and {len(faults) - _MAX_DETAILS} more)" if len(faults) > _MAX_DETAILS else ""
    return ApiError(422, f"{message}{more}.", param=faults[0][0] or None, code="invalid")


def error_reply(error: Exception, scope: Scope, *, log_questions: bool) -> ApiError:
    """Return the reply to a request that raised an exception, and fill in what the request's log says of it.

    The message of an unexpected exception is logged only with `log_questions`, since it may quote a question.
    """
    log = request_log(scope)
    if isinstance(error, ApiError):
        reply = error
    elif isinstance(error, Unavailable):
        reply, log.detail = unavailable_error(error), error.why
    else:
        log.detail = describe_error(error, log_questions)
        reply = ApiError(500, _INTERNAL_ERROR.format(log.request_id), code="failed")
    if reply.status == 422 and scope["path"].startswith(_CHAT_PREFIX):
        reply.status = 400  # the status that OpenAI's API uses
    log.error = reply.code or str(reply.status)
    return reply


async def raise_api_error(request: Request, error: Exception) -> Response:
    """Raise ApiError, which the middleware replies to, for the errors of FastAPI's own."""
    path = request.url.path[:100]
    if isinstance(error, RequestValidationError):
        raise validation_error(error.errors())
    assert isinstance(error, HTTPException)  # the router's own
    if error.status_code == 404:
        raise ApiError(404, f"There is nothing at {path}; see /docs for all routes.", code="no_route")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        raise ApiError(405, f"{path} accepts {allowed}.", code="method", headers=error.headers)
    raise ApiError(422, "The body is not JSON in UTF-8.", code="invalid")


def sse_event(name: str, content: Any) -> bytes:
    """Return a named server-sent event. Its data is JSON, which has no line breaks."""
    return b"event: " + name.encode() + b"\n" + sse_data(content)


def sse_data(content: Any) -> bytes:
    """Return a server-sent event without a name."""
    return b"data: " + orjson.dumps(content) + b"\n\n"


class EventStream(StreamingResponse):
    """A response of server-sent events, which are closed however it ends.

    The client's disconnect is left to the middleware, and so is an exception, which becomes the event `error`.
    """

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._events = events
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await self.stream_response(send)
