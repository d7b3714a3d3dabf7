"""Writing one object: it appears whole or not at all, however often a request has to be repeated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.s3_client import client
from fdarx_core.storage.s3_errors import REPORTED, upload_is_gone
from fdarx_core.storage.s3_patience import patiently

PART = 16 * 2**20
"""Bytes of a part; an object of no more goes in one request."""

_MOST_PARTS = 10_000
_STARTS = 3
_AT_ONCE = 4


def upload(stream: BinaryIO, bucket: str, key: str) -> None:
    """Writes all of the stream. Raises StorageError, after which there is no such object, or the one before."""
    address = f"s3://{bucket}/{key}"
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if size <= PART:
        data = stream.read()
        patiently("write", address, lambda: client().put_object(Bucket=bucket, Key=key, Body=data))
        return
    in_parts = partial(stream.read, max(PART, -(-size // _MOST_PARTS)))
    for left in reversed(range(_STARTS)):
        stream.seek(0)
        try:
            _Multipart(bucket, key, address).write(iter(in_parts, b""))
            break
        except StorageError as error:
            # also where the upload was completed, and the answer that said so was lost
            if not (left and upload_is_gone(error.__cause__)):
                raise


class _Multipart:
    """An upload in parts, each repeated by itself. One that fails is aborted, so that the server drops its parts."""

    def __init__(self, bucket: str, key: str, address: str) -> None:
        self._address = address
        begun = self._patiently(lambda: client().create_multipart_upload(Bucket=bucket, Key=key))
        self._upload = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}

    def write(self, parts: Iterator[bytes]) -> None:
        try:
            sent = {"Parts": self._sent(parts)}
            self._patiently(lambda: client().complete_multipart_upload(**self._upload, MultipartUpload=sent))
        except BaseException:
            with suppress(*REPORTED):  # once: what stays behind is never seen
                client().abort_multipart_upload(**self._upload)
            raise

    def _sent(self, parts: Iterator[bytes]) -> list[dict[str, Any]]:
        """A few at a time are read and on their way."""
        sent: list[dict[str, Any]] = []
        numbered = enumerate(parts, 1)
        with ThreadPoolExecutor(_AT_ONCE) as senders:
            while batch := list(islice(numbered, _AT_ONCE)):
                sent += senders.map(self._send, batch)
        return sent

    def _send(self, part: tuple[int, bytes]) -> dict[str, Any]:
        number, data = part
        answer = self._patiently(lambda: client().upload_part(**self._upload, PartNumber=number, Body=data))
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def _patiently(self, request: Callable[[], Any]) -> Any:
        return patiently("write", self._address, request)
