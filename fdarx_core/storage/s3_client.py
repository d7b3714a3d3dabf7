"""The S3 client of this process, its errors, and retries."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Collection
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypeVar

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    ResponseStreamingError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from fdarx_core.storage.errors import REMEDIES, StorageError, Unreachable
from fdarx_core.storage.retry import SERVER_STATE, parse_retry_after

_COMMON: dict[str, Any] = {"connect_timeout": 10, "read_timeout": 60, "max_pool_connections": 32}


@cache
def client(attempts: int = 1) -> Any:
    """Return the client of this process. Other servers than Amazon's get addresses by path and no newer checksums.

    `with_retries` repeats requests; only those that are a part of something larger take several `attempts` before.
    """
    common: dict[str, Any] = {**_COMMON, "retries": {"mode": "standard", "total_max_attempts": attempts}}
    session = boto3.session.Session()  # one for both clients: it reads botocore's descriptions of services once
    made = session.client("s3", config=Config(**common))
    if re.search(r"\.amazonaws\.com(\.cn)?$", made.meta.endpoint_url):
        return made
    checks = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    config = Config(s3={"addressing_style": "path"}, **common, **checks)
    return session.client("s3", config=config)


os.register_at_fork(after_in_child=client.cache_clear)


_REPORTED = (BotoCoreError, ClientError, Boto3Error, ValueError)
_BROKEN = (HTTPClientError, IncompleteReadError, ConnectionError, ResponseStreamingError, ResponseParserError)
_WRONG_SETTINGS = (SSLError, ProxyConnectionError)
_PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}
_PASSING_CODES = {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted", "BadDigest"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_ONE_OBJECT_CODES = {"404", "NoSuchKey", "412", "PreconditionFailed", "403", "AccessDenied", "InvalidObjectState"}

_CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to credentials of this server"
_ENDPOINT = "check AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3) and the network"
_GO_ON = "once it answers again, the same command resumes the job"


def is_transient(error: Exception) -> bool:
    """Return whether the request may succeed later: after throttling, server errors and broken connections."""
    if isinstance(error, ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return status in _PASSING_STATUS or _code(error) in _PASSING_CODES
    return isinstance(error, _BROKEN) and not isinstance(error, _WRONG_SETTINGS)


def has_code(error: BaseException | None, *codes: str) -> bool:
    """Return whether the server answered with one of these codes."""
    return isinstance(error, ClientError) and _code(error) in codes


def storage_error(action: str, error: Exception, seconds: float = 0.0) -> StorageError:
    """Return the error to raise for a failed action, such as "read s3://…", after `seconds` of retries."""
    message = f"cannot {action}: {_explanation(error)}"
    if seconds >= 1:
        message = f"{message}; tried for {seconds:.0f} s, {_GO_ON}"
    return StorageError(message) if has_code(error, *_ONE_OBJECT_CODES) else Unreachable(message)


def _explanation(error: Exception) -> str:
    if isinstance(error, ClientError):
        code = _code(error)
        if code == "RequestTimeTooSkewed":
            try:
                date = parsedate_to_datetime(_headers(error)["date"])
                ahead = (datetime.now(timezone.utc) - date).total_seconds()
                skew = f"is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
            except (KeyError, ValueError, TypeError):
                skew = "is too far from the server's"
            return f"this machine's clock {skew}; set it right (NTP), then the same command resumes the job"
        said = f"{code}: {error.response['Error'].get('Message', '')}".strip(": ")
        known = REMEDIES["s3"].get(code, "").format(credentials=_CREDENTIALS)
        return known or f"the server said {' '.join(said.split())}; {_ENDPOINT}"
    said = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, ProfileNotFound)):
        return f"{said}; {_CREDENTIALS}"
    if isinstance(error, (ParamValidationError, NoRegionError)):
        return f"{said}; correct the address or the AWS settings"
    return f"{said}; {_ENDPOINT}"


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "?"))


def _headers(error: Exception) -> dict[str, Any]:
    response = error.response if isinstance(error, ClientError) else {}
    return dict(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}))


_SHORTEST_S, _LONGEST_S = 0.1, 4.0

T = TypeVar("T")


def with_retries(
    action: str, address: str, request: Callable[[], T], unless: tuple[Collection[str], T] | None = None
) -> T:
    """Return the result of a request, repeated after transient failures.

    Args:
        action: for the error message: "cannot ACTION ADDRESS: …".
        address: the same.
        request: the request.
        unless: codes of the server that are no failure, and the result that they stand for.

    Raises:
        StorageError: the request failed for good, or the retries are used up.
    """
    began, attempt, renewed = time.monotonic(), 0, False
    while True:
        try:
            result = request()
        except _REPORTED as error:
            if unless and has_code(error, *unless[0]):
                SERVER_STATE.answered()
                return unless[1]
            if has_code(error, *_EXPIRED) and not renewed:  # they may have been renewed since the client was made
                client.cache_clear()
                renewed = True
                continue
            if not is_transient(error):
                SERVER_STATE.reached = SERVER_STATE.reached or isinstance(error, ClientError)
                raise storage_error(f"{action} {address}", error) from error
            SERVER_STATE.failed(began)
            left = SERVER_STATE.left(began)
            if left <= 0:
                tried = time.monotonic() - began if SERVER_STATE.reached else 0.0
                raise storage_error(f"{action} {address}", error, tried) from error
            attempt += 1
            backoff = min(_LONGEST_S, _SHORTEST_S * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
            requested = parse_retry_after(_headers(error).get("retry-after"))
            time.sleep(min(left, max(backoff, requested or 0.0)))
        else:
            SERVER_STATE.answered()
            return result
