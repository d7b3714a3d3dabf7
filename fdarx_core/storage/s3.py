"""Objects on S3 or a server that speaks its protocol, through boto3: its credentials chain, region and endpoint.

Why boto3 and not pyarrow's S3 file system: it renews expiring credentials in long runs, names what was refused, and
drops an upload that fails half way (pyarrow completes it when the stream is closed).
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, BinaryIO

import boto3
from botocore.config import Config

from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.s3_errors import TRANSIENT, explained, is_missing

_BUFFER = 64 * 1024
"""About one label's archive within a bulk release: more would fetch neighbours that other workers read."""

_ATTEMPTS = 4


def exists(address: str) -> bool:
    bucket, key = _split(address)
    return (bool(key) and _head(bucket, key) is not None) or is_dir(address)


def is_dir(address: str) -> bool:
    bucket, key = _split(address)
    with explained("list", address):
        found = _client().list_objects_v2(Bucket=bucket, Prefix=_prefix(key), MaxKeys=1)
    return not key or found["KeyCount"] > 0


def size(address: str) -> int:
    return int(_existing(address)["ContentLength"])


def walk(address: str, recursive: bool) -> Iterator[str]:
    bucket, key = _split(address)
    prefix = _prefix(key)
    for found in _keys(address, bucket, prefix, "" if recursive else "/"):
        hidden = any(part.startswith(".") for part in found[len(prefix) :].split("/"))
        if not hidden and not found.endswith("/"):
            yield f"s3://{bucket}/{found}"


def glob(pattern: str) -> list[str]:
    """A folder that matches gives the files under it: S3 has no folders to name."""
    bucket, key = _split(pattern)
    fixed = re.split(r"[*?\[]", key, maxsplit=1)[0]
    matches = re.compile(_glob_expression(key) + r"(/.*)?").fullmatch
    return [f"s3://{bucket}/{found}" for found in _keys(pattern, bucket, fixed, "") if matches(found)]


def open_input(address: str) -> BinaryIO:
    return io.BufferedReader(_ObjectReader(address), _BUFFER)


@contextmanager
def open_output(address: str) -> Iterator[BinaryIO]:
    bucket, key = _split(address)
    with tempfile.TemporaryFile() as stream:
        yield stream
        stream.seek(0)
        with explained("write", address):
            _client().upload_fileobj(stream, bucket, key)


def delete(address: str) -> None:
    bucket, key = _split(address)
    with explained("delete", address):
        _client().delete_object(Bucket=bucket, Key=key)


def check_writable(address: str) -> None:
    """Leaves a hidden empty object: a run needs no permission to delete."""
    bucket, key = _split(address)
    with explained("write into", address):
        _client().put_object(Bucket=bucket, Key=f"{_prefix(key)}.write-check", Body=b"")


class _ObjectReader(io.RawIOBase):
    """One version of one object as a seekable file: each read is a ranged request, an overwrite meanwhile an error."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._bucket, self._key = _split(address)
        head = _existing(address)
        self._size, self._etag = int(head["ContentLength"]), str(head["ETag"])
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
        """In one request; the base class would make one for every 8 KiB."""
        start, self._position = self._position, max(self._position, self._size)
        return self._fetch(start, self._size) if start < self._size else b""

    def _fetch(self, start: int, stop: int) -> bytes:
        """boto3 repeats requests that fail, but not bodies that break off."""
        wanted = {"Bucket": self._bucket, "Key": self._key, "Range": f"bytes={start}-{stop - 1}", "IfMatch": self._etag}
        with explained("read", self._address):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return bytes(_client().get_object(**wanted)["Body"].read())
                except TRANSIENT:
                    if attempt == _ATTEMPTS:
                        raise
                    time.sleep(0.1 * 2**attempt)
        raise AssertionError("unreachable")


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _head(bucket: str, key: str) -> Any:
    with explained("read", f"s3://{bucket}/{key}"):
        try:
            return _client().head_object(Bucket=bucket, Key=key)
        except Exception as error:
            if is_missing(error):
                return None
            raise


def _existing(address: str) -> Any:
    bucket, key = _split(address)
    head = _head(bucket, key) if key else None
    if head is None:
        raise StorageError(f"cannot read {address}: there is no such object; check the bucket and the key")
    return head


def _keys(address: str, bucket: str, prefix: str, delimiter: str) -> Iterator[str]:
    with explained("list", address):
        pages = _client().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=bucket, Prefix=prefix, Delimiter=delimiter):
            yield from (entry["Key"] for entry in page.get("Contents", ()))


def _glob_expression(pattern: str) -> str:
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    sets = (part.replace("[!", "[^") if re.fullmatch(r"\[[^\]]+\]", part) else None for part in parts)
    return "".join(found or wild.get(part) or re.escape(part) for part, found in zip(parts, sets, strict=True))


@cache
def _client() -> Any:
    """One client a process; a server other than Amazon's is addressed by path and spared Amazon's newer checksums."""
    common = {"retries": {"mode": "standard", "max_attempts": _ATTEMPTS}, "connect_timeout": 10, "read_timeout": 60}
    with explained("use S3 for", "this run"):
        client = boto3.session.Session().client("s3", config=Config(**common))
        if re.search(r"\.amazonaws\.com(\.cn)?$", client.meta.endpoint_url):
            return client
        checks = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
        config = Config(s3={"addressing_style": "path"}, **common, **checks)
        return boto3.session.Session().client("s3", config=config)


os.register_at_fork(after_in_child=_client.cache_clear)
