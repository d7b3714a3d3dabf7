"""What a server's errors mean: which are the request's own, which may pass, and which end all asking."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Failure, complaint
from fdarx_core.storage.retry_after import retry_after

_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|prompt is too long|too many (input )?tokens|input.{0,40}too long", re.IGNORECASE
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"response_format|json_schema|json_object|json mode|structured|guided|grammar|output_config|tool_choice|schema",
    re.IGNORECASE,
)
_REPORTED = {"invalid_request_error": 400, "rate_limit_error": 429, "overloaded_error": 529}
_HARMLESS_4XX = {408: "timeout", 409: "conflict", 425: "too_early"}


def status_failure(status: int, headers: Mapping[str, str], body: bytes, answered: bool) -> Failure:
    """What a reply other than 200 means. `answered`: this endpoint has answered before, so its address is right."""
    detail, wait = f"HTTP {status}: {complaint(body)}", retry_after(headers.get("Retry-After"))
    if status in (401, 402) or (status == 429 and _NO_CREDIT.search(detail)):
        return Failure("no_access", detail, status=status, fatal=True)
    if status in (429, 529):
        reason = "rate_limited" if status == 429 else "overloaded"
        return Failure(TRANSIENT + reason, detail, status=status, told_to_wait=True, retry_after=wait)
    if status >= 500:
        told = wait is not None
        return Failure(f"{TRANSIENT}server_error", detail, status=status, told_to_wait=told, retry_after=wait)
    if status in (403, 404, 405) or status < 400:
        reason = "forbidden" if status == 403 else f"{TRANSIENT}not_found"
        return Failure(reason, detail, status=status, fatal=not answered)
    if status in _HARMLESS_4XX:
        return Failure(TRANSIENT + _HARMLESS_4XX[status], detail, status=status, retry_after=wait)
    too_long = status == 413 or _TOO_LONG.search(detail)
    return Failure("context_too_long" if too_long else "refused_request", detail, status=status)


def reported_failure(event: bytes, error: Any) -> Failure:
    """What an error means that a server reports within a reply of status 200: as if it had answered with the error's
    own status, else with 500. It is never fatal: key and address were good enough for status 200."""
    said = error if isinstance(error, dict) else {}
    status = said.get("code")
    if not (isinstance(status, int) and 400 <= status < 600):
        status = _REPORTED.get(str(said.get("type")), 500)
    failure = status_failure(status, {}, event, answered=True)
    failure.fatal = False
    return failure


def refuses_structure(failure: Failure) -> bool:
    """True where a server says that it can't hold replies to a schema, or not in the way it was asked to."""
    return failure.reason == "refused_request" and bool(_UNSUPPORTED.search(failure.detail))


def connection_failure(error: BaseException, answered: bool) -> Failure:
    """What an exchange that broke off means. A certificate or a name that is wrong at first contact stays wrong."""
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, asyncio.TimeoutError):
        return Failure(f"{TRANSIENT}timeout", detail)
    if isinstance(error, aiohttp.ClientSSLError):
        return Failure(f"{TRANSIENT}tls", detail, fatal=not answered)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        unknown = error.os_error.errno == socket.EAI_NONAME
        return Failure(f"{TRANSIENT}dns", detail, fatal=unknown and not answered)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Failure(f"{TRANSIENT}cut_body", detail)
    return Failure(f"{TRANSIENT}connection", detail)
