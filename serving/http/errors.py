"""What goes wrong, told in one shape on every route; it is also the one that OpenAI's clients read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from serving.http.logs import note_of
from serving.http.world import Overloaded, Unavailable

CHAT = "/v1/chat/"
_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_SHOWN = 5
_PLAINER = {
    "extra_forbidden": "there is no such field",
    "missing": "it is required",
    "json_invalid": "the body is no JSON",
    "model_attributes_type": "send a JSON object, with the header Content-Type: application/json",
}


class Problem(Exception):
    """A request that can't be served: `message` says what was wrong and what to do, `param` names the field."""

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
        kind = _TYPES.get(self.status, "invalid_request_error")
        return {"error": {"type": kind, "message": self.message, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        return Response(orjson.dumps(self.body), self.status, self.headers, media_type="application/json")


def unknown(what: str, given: str, known: Sequence[str], *, param: str, status: int = 422) -> Problem:
    """A name that there is not, with those that there are."""
    there_are = ", ".join(known) or "none"
    return Problem(status, f"There is no {what} {given[:60]!r}; there is: {there_are}.", param=param, code="unknown")


def busy(why: str, seconds: float = 1.0, status: int = 503) -> Problem:
    """Refused for now, with how long to wait."""
    wait = max(1, math.ceil(seconds))
    return Problem(status, f"{why} Try again in {wait} s.", code="busy", headers={"Retry-After": str(wait)})


def problem_of(error: Unavailable) -> Problem:
    """What a client is told of a part that is down; why goes to the logs alone."""
    if isinstance(error, Overloaded):
        return busy(f"{error.part.capitalize()} has too much to do.")
    problem = busy(f"{error.part.capitalize()} can't be reached.", 5)
    problem.code = "unavailable"
    return problem


def invalid(details: Sequence[Mapping[str, Any]]) -> Problem:
    """What validation found, in the terms of the request."""
    found = [(_field(detail["loc"]), _told(detail)) for detail in details]
    more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    said = "; ".join(f"{field}: {told}" if field else told for field, told in found[:_SHOWN])
    return Problem(422, f"{said}{more}.", param=found[0][0] or None, code="invalid")


def handle_errors(app: FastAPI) -> None:
    """All that routes and the router raise, in the one shape."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(Unavailable, _unavailable)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    if error.status == 422 and request.url.path.startswith(CHAT):
        error.status = 400  # as OpenAI's servers call it
    note_of(request.scope).error = error.code or str(error.status)
    return error.response()


async def _unavailable(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unavailable)
    note_of(request.scope).detail = error.why
    return await _problem(request, problem_of(error))


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await _problem(request, invalid(error.errors()))


async def _http(request: Request, error: Exception) -> Response:
    """The router's own: no such route, no such method, a body that could not be decoded."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:100]
    if error.status_code == 404:
        problem = Problem(404, f"There is nothing at {path}; /docs lists what there is.", code="no_route")
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        problem = Problem(405, f"{path} takes {allowed}.", code="method", headers=error.headers)
    else:
        problem = Problem(422, "The body is no JSON in UTF-8.", code="invalid")
    return await _problem(request, problem)


def _field(location: Sequence[Any]) -> str:
    """ "filter.drug" of ("body", "filter", "drug"); places in broken JSON have no field."""
    return ".".join(str(part) for part in location[1:] if isinstance(part, str))[:100]


def _told(detail: Mapping[str, Any]) -> str:
    plainer = _PLAINER.get(detail["type"])
    return plainer or str(detail["msg"]).removeprefix("Value error, ").replace("Input should be", "it should be")
