"""Objects on S3 or a server that speaks its protocol, through boto3."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from boto3.s3.transfer import TransferConfig

from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.s3_client import client, has_code, with_retries

PART = 16 * 2**20
"""Bytes of a part of an upload. A smaller object is written in one request."""

_IN_PARTS = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=4)
_ATTEMPTS, _PART_ATTEMPTS = 3, 30
"""Attempts at an upload, and at each part of it; those of a part take up to about five minutes."""


def upload(stream: BinaryIO, bucket: str, key: str) -> None:
    """Write all of a stream. After StorageError there is no such object, or still the earlier one."""
    size = stream.seek(0, os.SEEK_END)

    def send() -> None:
        stream.seek(0)
        if size <= PART:
            client().put_object(Bucket=bucket, Key=key, Body=stream.read())
        else:
            client(_PART_ATTEMPTS).upload_fileobj(stream, bucket, key, Config=_IN_PARTS)

    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            with_retries("write", f"s3://{bucket}/{key}", send)
            return
        except StorageError as error:
            # The upload is also gone where it was completed, but the server's answer was lost.
            if not (attempts_left and has_code(error.__cause__, "NoSuchUpload")):
                raise


_BUFFER = 64 * 1024
"""About the size of one label's archive in a bulk release: more would fetch archives that other workers read."""
_FIRST_RANGE = 256 * 1024
"""Most labels and most parts of a run are not longer."""
_CHANGED = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey", "404")
"""Replies to a conditional write of an object that is not the expected one, or that others write now."""
_TOO_LARGE = ("InvalidRequest", "EntityTooLarge", "413")
"""Replies to the copy of an object above 5 GiB in one request."""


def exists(address: str) -> bool:
    return (bool(_split(address)[1]) and _head(address) is not None) or is_dir(address)


def is_file(address: str) -> bool:
    return _head(address) is not None


def is_dir(address: str) -> bool:
    bucket, key = _split(address)
    found = with_retries(
        "list", address, lambda: client().list_objects_v2(Bucket=bucket, Prefix=_prefix(key), MaxKeys=1)
    )
    return not key or found["KeyCount"] > 0


def size(address: str) -> int:
    head = _head(address) if _split(address)[1] else None
    if head is None:
        raise _no_object(address)
    return int(head["ContentLength"])


def walk(address: str, recursive: bool) -> Iterator[str]:
    bucket, key = _split(address)
    prefix = _prefix(key)
    for found in _keys(address, prefix, "" if recursive else "/"):
        hidden = any(part.startswith(".") for part in found[len(prefix) :].split("/"))
        if not hidden and not found.endswith("/"):
            yield f"s3://{bucket}/{found}"


def glob(pattern: str) -> list[str]:
    """Return the matching files, and for a matching folder the files in it: S3 has no folders."""
    bucket, key = _split(pattern)
    fixed = re.split(r"[*?\[]", key, maxsplit=1)[0]
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", key)
    sets = (part.replace("[!", "[^") if re.fullmatch(r"\[[^\]]+\]", part) else None for part in parts)
    expression = "".join(found or wild.get(part) or re.escape(part) for part, found in zip(parts, sets, strict=True))
    matches = re.compile(expression + "(/.*)?").fullmatch
    return [f"s3://{bucket}/{found}" for found in _keys(pattern, fixed, "") if matches(found)]


def open_input(address: str) -> BinaryIO:
    return io.BufferedReader(_ObjectReader(address), _BUFFER)


@contextmanager
def open_output(address: str) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as stream:
        yield stream
        upload(stream, *_split(address))


stage = open_output
"""Staged objects are written as all others."""


def move(source: str, address: str, tag: str) -> bool:
    """Copy an object of this tag to its place and delete it; return False where it is gone or has another tag."""
    bucket, key = _split(address)
    origin = dict(zip(("Bucket", "Key"), _split(source), strict=True))

    def copy() -> bool:
        try:
            client().copy_object(Bucket=bucket, Key=key, CopySource=origin, CopySourceIfMatch=tag)
        except Exception as error:
            if not has_code(error, *_TOO_LARGE):
                raise
            client().copy(origin, bucket, key, ExtraArgs={"CopySourceIfMatch": tag})  # in several requests
        return True

    moved = bool(tag) and with_retries("write", address, copy, unless=(_CHANGED, False))
    if moved:
        with suppress(StorageError):  # what stays is hidden, and deleted by the next job
            delete(source)
    return moved


def tag(address: str) -> str:
    found = _head(address)
    return "" if found is None else str(found["ETag"])


def replace(address: str, data: bytes, tag: str) -> bool:
    bucket, key = _split(address)
    condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}

    def put() -> bool:
        try:
            client().put_object(Bucket=bucket, Key=key, Body=data, **condition)
        except Exception as error:
            if not has_code(error, "NotImplemented", "501"):
                raise
            client().put_object(Bucket=bucket, Key=key, Body=data)
        return True

    return with_retries("write", address, put, unless=(_CHANGED, False))


def delete(address: str) -> None:
    bucket, key = _split(address)
    with_retries("delete", address, lambda: client().delete_object(Bucket=bucket, Key=key))


def delete_tree(address: str) -> None:
    bucket, key = _split(address)
    for found in list(_keys(address, _prefix(key), "")):
        delete(f"s3://{bucket}/{found}")


def check_writable(address: str) -> None:
    """Write a hidden empty object, which stays: a run needs no permission to delete."""
    bucket, key = _split(address)
    probe = f"{_prefix(key)}.write-check"
    with_retries("write into", address, lambda: client().put_object(Bucket=bucket, Key=probe, Body=b""))


class _ObjectReader(io.RawIOBase):
    """One version of an object as a seekable file. Each read is a request for a range.

    The first request, which finds the object, also fetches its first bytes. Reading an object that is overwritten
    meanwhile raises StorageError.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._bucket, self._key = _split(address)
        self._size, self._etag, self._first = _first_range(address)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"cannot seek to {start + offset} in {self._address}")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        stop = min(self._position + len(buffer), self._size)
        if stop <= self._position:
            return 0
        data = self._fetch(self._position, stop)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        """Read the rest in one request; the base class would send one for every 8 KiB."""
        start, self._position = self._position, max(self._position, self._size)
        return self._fetch(start, self._size) if start < self._size else b""

    def _fetch(self, start: int, stop: int) -> bytes:
        if start >= len(self._first):
            return self._request(start, stop)
        near = self._first[start:stop]
        return near + (self._request(len(self._first), stop) if stop > len(self._first) else b"")

    def _request(self, start: int, stop: int) -> bytes:
        wanted = {"Bucket": self._bucket, "Key": self._key, "Range": f"bytes={start}-{stop - 1}", "IfMatch": self._etag}
        return with_retries("read", self._address, lambda: bytes(client().get_object(**wanted)["Body"].read()))


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _head(address: str) -> Any:
    """Return the headers of an object, None where there is no such object."""
    bucket, key = _split(address)

    def ask() -> Any:
        try:
            return client().head_object(Bucket=bucket, Key=key)
        except Exception as error:
            if has_code(error, "400", "403"):  # only a GET tells why: the reply to a refused HEAD has a status alone
                client().get_object(Bucket=bucket, Key=key, Range="bytes=0-0")
            raise

    return with_retries("read", address, ask, unless=(("404", "NoSuchKey"), None))


def _first_range(address: str) -> tuple[int, str, bytes]:
    """Return the size, the ETag and the first bytes of an object."""
    bucket, key = _split(address)

    def ask() -> tuple[int, str, bytes]:
        got = client().get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{_FIRST_RANGE - 1}")
        beginning = bytes(got["Body"].read())
        return int(got.get("ContentRange", f"/{len(beginning)}").rpartition("/")[2]), str(got["ETag"]), beginning

    if not key:
        raise _no_object(address)
    # No range can be read of an empty object.
    return with_retries("read", address, ask, unless=(("416", "InvalidRange"), (0, "", b"")))


def _no_object(address: str) -> StorageError:
    return StorageError(f"cannot read {address}: there is no such object; check the bucket and the key")


def _keys(address: str, prefix: str, delimiter: str) -> Iterator[str]:
    wanted = {"Bucket": _split(address)[0], "Prefix": prefix, "Delimiter": delimiter}
    while True:
        page = with_retries("list", address, lambda: client().list_objects_v2(**wanted))
        yield from (entry["Key"] for entry in page.get("Contents", ()))
        if not page.get("IsTruncated"):
            return
        wanted["ContinuationToken"] = page["NextContinuationToken"]
