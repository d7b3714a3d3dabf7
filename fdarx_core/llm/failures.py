"""Failed requests: what HTTP errors and lost connections mean, and which of them end all requests to a server."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from fdarx_core.storage.retry import parse_retry_after

if TYPE_CHECKING:
    from fdarx_core.llm.access import Proxy
    from fdarx_core.llm.model_config import ModelConfig

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
    r"context[ _](length|window|size)|prompt is too long|too many (input )?tokens|input.{0,40}too long", re.IGNORECASE
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"response_format|json_schema|json_object|json mode|structured|guided|grammar|output_config|tool_choice|schema",
    re.IGNORECASE,
)
_STATUS_BY_TYPE = {"invalid_request_error": 400, "rate_limit_error": 429, "overloaded_error": 529}
_RETRYABLE_4XX = {408: "timeout", 409: "conflict", 425: "too_early"}


class AskingStopped(Exception):
    """No more requests are sent. All responses so far are stored, and running again continues from there."""

    def copy(self) -> AskingStopped:
        """Return an equal error for one more waiting task: an error raised twice would show both tracebacks."""
        return type(self)(*self.args)


class EndpointStopped(AskingStopped):
    """The endpoint can answer no request: its key, model or address is wrong, or it no longer responds."""


class Failure(Exception):
    """One attempt that gave no reply.

    Args:
        reason: a fixed name to count by; with the prefix `transient_`, another attempt may succeed.
        detail: what the server or the connection reported, shortened to one line.
        status: the HTTP status; 0 without an HTTP reply.
        fatal: no other request to this server can succeed either.
        throttled: the server works and asks for fewer requests, after `retry_after` seconds where it says so.
    """

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

    It is classified by the error's own status, or 500. It is never fatal: the server accepted key and address.
    """
    fields = error if isinstance(error, dict) else {}
    status = fields.get("code")
    if not (isinstance(status, int) and 400 <= status < 600):
        status = _STATUS_BY_TYPE.get(str(fields.get("type")), 500)
    failure = status_failure(status, {}, event, answered=True)
    failure.fatal = False
    return failure


def proxy_failure(status: int, detail: str, answered: bool) -> Failure:
    """Return the failure for a status with which a proxy refuses to forward a request."""
    if status == 407:
        return Failure("proxy_login", detail, status=status, fatal=True)
    if status >= 500 or status == 429:
        return Failure(f"{TRANSIENT}proxy", detail, status=status)
    return Failure(f"{TRANSIENT}proxy_refused", detail, status=status, fatal=not answered)


def remedy(failure: Failure, config: ModelConfig, proxy: Proxy | None) -> str:
    """Return what the user can do about a server that is no longer asked."""
    path = f"{proxy.field} and " if proxy else ""
    if failure.reason == KEY_COMMAND:
        return "run the command of key_command by hand and correct it"
    if failure.status == 407:
        login = proxy.field if proxy and not config.proxy else "proxy_login_env"
        return f"check the user and password of the proxy in {login}"
    if "proxy" in failure.reason:
        return f"check {path}that the proxy is up and forwards to base_url"
    if failure.status in (401, 402, 403, 429):
        return f"check the key that {config.key_field} names, and what it may use"
    if failure.status == 400:
        return "check model, sampling and structured in the models file"
    if failure.status:
        return "check model and base_url in the models file"
    if failure.reason == f"{TRANSIENT}tls":
        return "check base_url in the models file, or name the server's certificate authority in ca_file"
    return f"check {path}base_url in the models file and that the server is up; run the same command again to resume"


def rejects_structured_output(failure: Failure) -> bool:
    """Return whether the server says that it does not support the requested form of structured output."""
    return failure.reason == "refused_request" and bool(_UNSUPPORTED.search(failure.detail))


def connection_failure(error: BaseException, answered: bool) -> Failure:
    """Return the failure for an exception of aiohttp. A bad certificate or host name at first contact is fatal."""
    import aiohttp

    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, asyncio.TimeoutError):
        return Failure(f"{TRANSIENT}timeout", detail)
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
    return Failure(f"{TRANSIENT}connection", detail)


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
