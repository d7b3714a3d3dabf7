"""What S3 and its client report, as one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
)

from fdarx_core.storage.errors import StorageError

TRANSIENT = (HTTPClientError, IncompleteReadError, ConnectionError)

_CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to credentials of this server"
_ENDPOINT = "check AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3) and the network"
_PERMISSION = "the credentials must be right, and allowed to list, read and write in this bucket"

_BY_CODE = {
    "NoSuchBucket": "the bucket does not exist; create it or correct its name",
    "NoSuchKey": "there is no such object; check the key",
    "404": "there is no such object; check the bucket and the key",
    "412": "the object was overwritten while it was read; start again once nobody writes to it",
    "PreconditionFailed": "the object was overwritten while it was read; start again once nobody writes to it",
    "InvalidAccessKeyId": f"the server does not know the access key; {_CREDENTIALS}",
    "SignatureDoesNotMatch": f"the server refused the secret key; {_CREDENTIALS}",
    "ExpiredToken": f"the credentials have expired; {_CREDENTIALS}",
    "InvalidToken": f"the server refused the session token; {_CREDENTIALS}",
    "AccessDenied": f"access was denied; {_PERMISSION}",
    "403": f"access was denied; {_PERMISSION}",
    "InvalidBucketName": "the bucket's name is not valid; correct it",
}


@contextmanager
def explained(doing: str, address: str) -> Iterator[None]:
    """Turns what the client raises in this block into a `StorageError` of one line."""
    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error, ValueError) as error:
        raise StorageError(f"cannot {doing} {address}: {_explanation(error)}") from error


def is_missing(error: Exception) -> bool:
    return isinstance(error, ClientError) and error.response["Error"]["Code"] in ("404", "NoSuchKey")


def _explanation(error: Exception) -> str:
    if isinstance(error, ClientError):
        answer = error.response["Error"]
        said = f"{answer.get('Code', '?')}: {answer.get('Message', '')}"
        return _BY_CODE.get(answer.get("Code", ""), f"the server said {said.strip(': ')}; {_ENDPOINT}")
    said = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, ProfileNotFound)):
        return f"{said}; {_CREDENTIALS}"
    if isinstance(error, (ParamValidationError, NoRegionError)):
        return f"{said}; correct the address or the AWS settings"
    return f"{said}; {_ENDPOINT}"
