"""One way to name and reach a file, on a disk or on S3."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from fdarx_core.storage import local
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.retry import SERVER_STATE


class Store(Protocol):
    """What a place that holds files can do. `local` and `s3` are the two; addresses are as `Location` keeps them."""

    def exists(self, address: str) -> bool: ...
    def is_dir(self, address: str) -> bool: ...
    def size(self, address: str) -> int: ...
    def walk(self, address: str, recursive: bool) -> Iterator[str]: ...
    def glob(self, pattern: str) -> list[str]: ...
    def open_input(self, address: str) -> BinaryIO: ...
    def open_output(self, address: str) -> AbstractContextManager[BinaryIO]: ...
    def delete(self, address: str) -> None: ...
    def check_writable(self, address: str) -> None: ...


@dataclass(frozen=True, slots=True, order=True, init=False)
class Location:
    """A local path or `s3://bucket/key`, immutable and picklable; `str()` gives the address back, less a final slash.

    A folder is whatever has files under it. Every method raises `StorageError` where the place can't be reached.
    """

    address: str

    def __init__(self, address: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "address", _checked(os.fspath(address)))

    def __str__(self) -> str:
        return self.address

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.address,)

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.address.rstrip('/')}/{name}")

    @classmethod
    def glob(cls, pattern: str) -> list[Location]:
        """Files and folders whose address matches: `*` and `?` within a name, `**` across folders."""
        return sorted(cls(address) for address in _store(pattern).glob(pattern))

    @property
    def is_remote(self) -> bool:
        return self.address.startswith("s3://")

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.name)[1]  # noqa: PTH122 (an address need not be a path)

    @property
    def parent(self) -> Location:
        """The folder that holds this; a bucket and `/` are their own parents."""
        head, slash, _ = self.address.rpartition("/")
        if self.is_remote and head == "s3:/":
            return self
        return Location(head or slash or ".")

    def exists(self) -> bool:
        return _store(self.address).exists(self.address)

    def is_dir(self) -> bool:
        return _store(self.address).is_dir(self.address)

    def is_empty(self) -> bool:
        """True where no file stands under this folder, at any depth."""
        return next(_store(self.address).walk(self.address, True), None) is None

    def size(self) -> int:
        """Bytes."""
        return _store(self.address).size(self.address)

    def list(self, *, recursive: bool = False) -> list[Location]:
        """The files of this folder, sorted by address; names that start with "." and missing folders give none."""
        return sorted(Location(address) for address in _store(self.address).walk(self.address, recursive))

    def open_input(self) -> BinaryIO:
        """A seekable buffered stream; on S3 only the ranges that are read are fetched."""
        return _store(self.address).open_input(self.address)

    def open_output(self) -> AbstractContextManager[BinaryIO]:
        """A stream whose content appears whole when the block ends well, and not at all when it raises."""
        return _store(self.address).open_output(self.address)

    def read_bytes(self) -> bytes:
        with self.open_input() as stream:
            return stream.read()

    def read_text(self) -> str:
        return self.read_bytes().decode("utf-8")

    def write_bytes(self, data: bytes) -> None:
        with self.open_output() as stream:
            stream.write(data)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode("utf-8"))

    def delete(self) -> None:
        """Removes this file; no error where there is none."""
        _store(self.address).delete(self.address)

    def check_writable(self) -> None:
        """Tries to write under this folder, making it where it does not exist; `StorageError` where that fails."""
        _store(self.address).check_writable(self.address)


def _received(address: str) -> Location:
    """Whoever sent it has reached the place, so that this process need not think the address wrong."""
    if address.startswith("s3://"):
        SERVER_STATE.reached = True
    return Location(address)


def _store(address: str) -> Store:
    if not address.startswith("s3://"):
        return local
    from fdarx_core.storage import s3  # boto3 takes a while to import, and most runs are local

    return s3


def _checked(address: str) -> str:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", address)
    if scheme and scheme[1] != "s3":
        raise StorageError(f"{address}: {scheme[1]}:// is not supported; give a local path or s3://bucket/key")
    if scheme and not address[len("s3://") :].split("/")[0]:
        raise StorageError(f"{address}: no bucket is named; write s3://bucket/key")
    if scheme and re.search(r"/\.{1,2}(/|$)", address):
        raise StorageError(f"{address}: no part of an S3 address may be . or ..; write it out")
    if not address or "\0" in address:
        raise StorageError(f"{address!r} is no path; give a local path or s3://bucket/key")
    return address.rstrip("/") or "/"
