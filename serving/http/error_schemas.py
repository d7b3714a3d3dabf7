"""Pydantic models of error replies, and what the OpenAPI document says of them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class ErrorDetail(BaseModel):
    """What is wrong with the request, and what to do."""

    type: str
    message: str
    param: str | None = Field(description="The field that is wrong, if any.")
    code: str | None = Field(description="A fixed name of the error.")


class ErrorReply(BaseModel):
    """The error reply of every route, in OpenAI's format."""

    error: ErrorDetail


_WHY = {
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


_OF_SOME = {404, 409, 415, 507}
"""Errors that only some routes have."""


def error_responses(*more: int, without: tuple[int, ...] = ()) -> dict[int | str, dict[str, Any]]:
    """Return the error replies of a route under /v1 for the OpenAPI document; those of `_OF_SOME` only if in `more`."""
    statuses = sorted(({*_WHY} - _OF_SOME | {*more}) - {*without})
    return {status: {"model": ErrorReply, "description": _WHY.get(status, _WHY[422])} for status in statuses}
