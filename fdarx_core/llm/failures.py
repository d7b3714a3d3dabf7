"""Failed requests: what HTTP errors and lost connections mean, and which of them end all requests to a server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

import orjson

from fdarx_core.storage.retry import parse_retry_after

TRANSIENT = "transient_"
"""Prefix of the reason of each failure that another attempt may cure (429, 5xx, time-out, lost connection).

Responses with such a reason are never stored, so the next run sends their requests again. All others are final."""
EXPIRED_KEY = f"{TRANSIENT}expired_key"
KEY_COMMAND = f"{TRANSIENT}key_command"
UNREACHABLE = frozenset(
    f"{TRANSIENT}{reason}" for reason in ("connection", "dns", "tls", "proxy", "proxy_refused", "key_command")
)
"""Reasons for which no request can reach the server."""

_DETAIL_CHARACTERS = 400
_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum context|prompt is too long|too many (input )?tokens|input.{0,40}too long|"
    r"token count.{0,40}exceeds|exceeds? the max\w* (number of )?(input )?tokens|inputs?`? tokens.{0,60}must be <=|"
    r"(prompt|input|request) .{0,40}(exceeds|longer than).{0,40}(tokens|length)",
    re.IGNORECASE,
)
_UNKNOWN_PARAMETER = re.compile(
    r"un(supported|recogni[sz]ed|known|expected)|not (supported|permitted|allowed|recogni[sz]ed)|extra|"
    r"does(n't| not) support",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)
_STATUS_BY_NAME = {
    "invalid_request_error": 400,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "context_length_exceeded": 400,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 402,
    "invalid_api_key": 401,
}
SHAPE_ERRORS = (KeyError, IndexError, TypeError, AttributeError)
"""What reading a reply raises that does not belong to the API."""
_RETRYABLE_4XX = {408: "timeout", 409: "conflict", 425: "too_early"}


class AskingStopped(Exception):
    """No more requests are sent. All responses so far are stored, and running again continues from there."""

    def copy(self) -> AskingStopped:
        """Return an equal error for one more waiting task: an error raised twice would show both tracebacks."""
        return type(self)(*self.args)


class EndpointStopped(AskingStopped):
    """The endpoint can answer no request: its key, model or address is wrong, or it no longer responds."""


class ReplyPending(AskingStopped):
    """The request is in a batch file, whose output is still to be written. Other requests go on."""


async def all_done(runs: Iterable[Awaitable[Any]]) -> list[Any]:
    """Return the results of what runs at the same time, once all of it has ended. Raises an error of it then.

    So all that can be asked is asked, also beside a request that is pending. An error that is no AskingStopped goes
    first.
    """
    ends = await asyncio.gather(*runs, return_exceptions=True)
    if errors := [end for end in ends if isinstance(end, BaseException)]:
        raise min(errors, key=lambda error: isinstance(error, AskingStopped))
    return ends


class Failure(Exception):
    """One attempt that gave no reply.

    Args:
        reason: a fixed name to count by; with the prefix `transient_`, another attempt may succeed.
        detail: what the server or the connection reported, shortened to one line.
        status: the HTTP status; 0 without an HTTP reply.
        fatal: no other request to this server can succeed either.
        throttled: the server works and asks for fewer requests, after `retry_after` seconds where it says so.

    `refused` says that nothing listens at the address.
    """

    refused = False

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        status: int = 0,
        fatal: bool = False,
        throttled: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, " ".join(detail.split())[:_DETAIL_CHARACTERS]
        self.status, self.fatal = status, fatal
        self.throttled, self.retry_after = throttled, retry_after

    @property
    def transient(self) -> bool:
        return self.reason.startswith(TRANSIENT)


def status_failure(status: int, headers: Mapping[str, str], body: bytes, answered: bool) -> Failure:
    """Return the failure that an HTTP status other than 200 means.

    `answered`: this server has answered another request before, so its address and key are right.
    """
    detail, wait = f"HTTP {status}: {error_message(body)}", parse_retry_after(headers.get("Retry-After"))
    if status == 407:
        return proxy_failure(status, detail, answered)
    if status in (401, 402) or (status == 429 and _NO_CREDIT.search(detail)):
        return Failure("no_access", detail, status=status, fatal=True)
    if status in (429, 529):
        reason = "rate_limited" if status == 429 else "overloaded"
        return Failure(TRANSIENT + reason, detail, status=status, throttled=True, retry_after=wait)
    if status >= 500:
        return Failure(f"{TRANSIENT}server_error", detail, status=status, throttled=wait is not None, retry_after=wait)
    if status in (403, 404, 405) or status < 400:
        reason = "forbidden" if status == 403 else f"{TRANSIENT}not_found"
        return Failure(reason, detail, status=status, fatal=not answered)
    if status in _RETRYABLE_4XX:
        return Failure(TRANSIENT + _RETRYABLE_4XX[status], detail, status=status, retry_after=wait)
    too_long = status == 413 or _TOO_LONG.search(detail)
    return Failure("context_too_long" if too_long else "refused_request", detail, status=status)


def reported_failure(event: bytes, error: Any) -> Failure:
    """Return the failure for an error that a server reports in the body of a reply with status 200.

    It is classified by the error's own status or name, else as 500. It is fatal only where the account has no credit:
    the server has accepted key and address.
    """
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code")
    status = int(code) if isinstance(code, int) or (isinstance(code, str) and code.isdecimal()) else 0
    if not 400 <= status < 600:
        names = (str(fields.get(name)) for name in ("code", "type", "status"))
        unnamed = 400 if _TOO_LONG.search(error_message(event)) else 500
        status = next((_STATUS_BY_NAME[name] for name in names if name in _STATUS_BY_NAME), unnamed)
    failure = status_failure(status, {}, event, answered=True)
    failure.fatal = failure.reason == "no_access" and status != 401
    return failure


def refused_parameter(failure: Failure, sampling: Mapping[str, Any]) -> str:
    """Return the parameter of `sampling` that a server says it does not know or support; "" for none."""
    if not _UNKNOWN_PARAMETER.search(failure.detail):
        return ""
    names = (name for name in sampling if name != "model")
    return next((name for name in names if re.search(rf"\b{re.escape(name)}\b", failure.detail)), "")


def proxy_failure(status: int, detail: str, answered: bool) -> Failure:
    """Return the failure for a status with which a proxy refuses to forward a request."""
    if status == 407:
        return Failure("proxy_login", detail, status=status, fatal=True)
    if status >= 500 or status == 429:
        return Failure(f"{TRANSIENT}proxy", detail, status=status)
    return Failure(f"{TRANSIENT}proxy_refused", detail, status=status, fatal=not answered)


def connection_failure(error: BaseException, answered: bool) -> Failure:
    """Return the failure for an exception of aiohttp. A bad certificate or host name at first contact is fatal."""
    import aiohttp

    detail = f"{type(error).__name__}: {error}"
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", error)
    if isinstance(cause, ssl.SSLError):
        detail = getattr(cause, "verify_message", "") or (cause.reason or detail).replace("_", " ").lower()
    elif isinstance(cause, OSError) and cause.errno:  # the number of an unknown host is negative
        detail = (os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)).lower()
    if isinstance(error, asyncio.TimeoutError):
        return Failure(f"{TRANSIENT}timeout", str(error) or "no reply within timeout_s")
    if isinstance(error, aiohttp.ClientSSLError):
        return Failure(f"{TRANSIENT}tls", detail, fatal=not answered)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        unknown = error.os_error.errno == socket.EAI_NONAME
        return Failure(f"{TRANSIENT}dns", detail, fatal=unknown and not answered)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_failure(error.status, f"HTTP {error.status} from the proxy: {error.message}", answered)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return Failure(f"{TRANSIENT}proxy", detail)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Failure(f"{TRANSIENT}cut_body", detail)
    failure = Failure(f"{TRANSIENT}connection", detail)
    failure.refused = isinstance(cause, ConnectionRefusedError)
    return failure


def decode_json(body: bytes) -> Any:
    """Return the JSON value of a body. Raises Failure transient_bad_reply, as for a proxy's error page."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)  # accepts unpaired surrogates, which servers do send
    except (ValueError, RecursionError) as error:
        start = body[:80].decode("utf-8", "replace")
        raise Failure(f"{TRANSIENT}bad_reply", f"the reply is not JSON ({error}); it begins {start!r}") from None


def error_message(body: bytes) -> str:
    """Return the error message in a body, in whichever shape the server gives it; "" where it gives none."""
    try:
        value = decode_json(body)
    except Failure:
        return body[:_DETAIL_CHARACTERS].decode("utf-8", "replace").strip()
    if isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail") or value
    if isinstance(value, dict):
        parts = [value.get(field) for field in ("code", "type", "param", "message")]
        value = ": ".join(str(part) for part in parts if part) or value
    return str(value)
