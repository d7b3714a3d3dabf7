"""What S3 and its client report: what of it may pass, and as one line that says what to do."""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from boto3.exceptions import Boto3Error
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

from fdarx_core.storage.errors import StorageError, Unreachable

REPORTED = (BotoCoreError, ClientError, Boto3Error, ValueError)
_BROKEN = (HTTPClientError, IncompleteReadError, ConnectionError, ResponseStreamingError, ResponseParserError)
_WRONG_SETTINGS = (SSLError, ProxyConnectionError)
_PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}
_PASSING_CODES = {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted", "BadDigest"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_OF_ONE_OBJECT = {"404", "NoSuchKey", "412", "PreconditionFailed", "403", "AccessDenied", "InvalidObjectState"}

_CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to credentials of this server"
_ENDPOINT = "check AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3) and the network"
_PERMISSION = "the credentials must be right, and allowed to list, read and write in this bucket"
_REPLACED = "the object was overwritten while it was read; start again once nobody writes to it"
_GO_ON = "once it answers again, the same command goes on"

_BY_CODE = {
    "NoSuchBucket": "the bucket does not exist; create it or correct its name",
    "NoSuchKey": "there is no such object; check the bucket and the key",
    "404": "there is no such object; check the bucket and the key",
    "412": _REPLACED,
    "PreconditionFailed": _REPLACED,
    "InvalidAccessKeyId": f"the server does not know the access key; {_CREDENTIALS}",
    "SignatureDoesNotMatch": f"the server refused the secret key; {_CREDENTIALS}",
    **dict.fromkeys(_EXPIRED, f"the credentials have expired; {_CREDENTIALS}, then the same command goes on"),
    "InvalidToken": f"the server refused the session token; {_CREDENTIALS}",
    "AccessDenied": f"access was denied; {_PERMISSION}",
    "403": f"access was denied; {_PERMISSION}",
    "InvalidBucketName": "the bucket's name is not valid; correct it",
    "SlowDown": "the server asks for fewer requests at once (SlowDown); use fewer CPUs, or ask its keeper for more",
    "InvalidObjectState": "the object is archived; restore it first",
    "KeyTooLongError": "the key is longer than the server takes; choose a shorter name",
}


def passes(error: Exception) -> bool:
    """Whether the same request may succeed a little later: throttling, a server's own faults, broken connections."""
    if isinstance(error, ClientError):
        return _status(error) in _PASSING_STATUS or _code(error) in _PASSING_CODES
    return isinstance(error, _BROKEN) and not isinstance(error, _WRONG_SETTINGS)


def expired(error: Exception) -> bool:
    """Whether newer credentials, if there are any, would do."""
    return isinstance(error, ClientError) and _code(error) in _EXPIRED


def asked_to_wait(error: Exception) -> float:
    """Seconds that the server asks to be left alone for; 0 where it does not say."""
    try:
        return float(_headers(error).get("retry-after", 0))
    except ValueError:
        return 0.0


def is_missing(error: Exception) -> bool:
    return isinstance(error, ClientError) and _code(error) in ("404", "NoSuchKey")


def is_empty(error: Exception) -> bool:
    """An object without a byte has no range of them."""
    return isinstance(error, ClientError) and _code(error) in ("416", "InvalidRange")


def upload_is_gone(error: BaseException | None) -> bool:
    return isinstance(error, ClientError) and _code(error) == "NoSuchUpload"


def unexplained(error: Exception) -> bool:
    """A HEAD that is refused says nothing but its status; the same as a GET says why."""
    return isinstance(error, ClientError) and _code(error) in ("400", "403")


def explained(what: str, error: Exception, seconds: float = 0.0) -> StorageError:
    """What to raise where WHAT can't be done: "read s3://…". `seconds`: for how long it was tried in vain."""
    told = f"cannot {what}: {_explanation(error)}"
    if seconds >= 1:
        told = f"{told}; tried for {seconds:.0f} s, {_GO_ON}"
    of_one = isinstance(error, ClientError) and _code(error) in _OF_ONE_OBJECT
    return StorageError(told) if of_one else Unreachable(told)


def _explanation(error: Exception) -> str:
    if isinstance(error, ClientError):
        code = _code(error)
        if code == "RequestTimeTooSkewed":
            return f"this machine's clock {_skew(error)}; set it right (NTP), then the same command goes on"
        said = f"{code}: {error.response['Error'].get('Message', '')}".strip(": ")
        return _BY_CODE.get(code, f"the server said {' '.join(said.split())}; {_ENDPOINT}")
    said = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, ProfileNotFound)):
        return f"{said}; {_CREDENTIALS}"
    if isinstance(error, (ParamValidationError, NoRegionError)):
        return f"{said}; correct the address or the AWS settings"
    return f"{said}; {_ENDPOINT}"


def _skew(error: ClientError) -> str:
    try:
        ahead = (datetime.now(timezone.utc) - parsedate_to_datetime(_headers(error)["date"])).total_seconds()
    except (KeyError, ValueError, TypeError):
        return "is too far from the server's"
    return f"is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the server's"


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "?"))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _headers(error: Exception) -> dict[str, Any]:
    response = error.response if isinstance(error, ClientError) else {}
    return dict(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}))
