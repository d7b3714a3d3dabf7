"""Files on a disk and on S3 through one class."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from fdarx_core.storage import local
from fdarx_core.storage.errors import RunConflict, StorageError
from fdarx_core.storage.retry import SERVER_STATE

if TYPE_CHECKING:
    from fdarx_core.storage.epoch import Epoch


class Store(Protocol):
    """The interface of the modules `local` and `s3`. Addresses are those of `Location`."""

    def exists(self, address: str) -> bool: ...
    def is_file(self, address: str) -> bool: ...
    def is_dir(self, address: str) -> bool: ...
    def size(self, address: str) -> int: ...
    def walk(self, address: str, recursive: bool) -> Iterator[str]: ...
    def glob(self, pattern: str) -> list[str]: ...
    def open_input(self, address: str) -> BinaryIO: ...
    def read_range(self, address: str, start: int, stop: int) -> bytes: ...
    def open_output(self, address: str) -> AbstractContextManager[BinaryIO]: ...
    def stage(self, address: str) -> AbstractContextManager[BinaryIO]: ...
    def move(self, source: str, address: str, tag: str) -> bool: ...
    def tag(self, address: str) -> str: ...
    def replace(self, address: str, data: bytes, tag: str) -> bool: ...
    def delete(self, address: str) -> None: ...
    def delete_tree(self, address: str) -> None: ...
    def check_writable(self, address: str) -> None: ...


@dataclass(frozen=True, slots=True, order=True, init=False)
class Location:
    """A local path or `s3://bucket/key`, immutable and picklable. `str()` returns the address without a final slash.

    A folder is an address with files under it. All methods raise StorageError for a place that cannot be reached.
    Writing and deleting at a location of a run that a job writes raise RunConflict once its `epoch` has ended.
    """

    address: str
    epoch: Epoch | None = field(default=None, compare=False, repr=False)

    def __init__(self, address: str | os.PathLike[str], epoch: Epoch | None = None) -> None:
        object.__setattr__(self, "address", _checked(os.fspath(address)))
        object.__setattr__(self, "epoch", epoch)

    def __str__(self) -> str:
        return self.address

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.address, self.epoch)

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.address.rstrip('/')}/{name}", self.epoch)

    @classmethod
    def glob(cls, pattern: str) -> list[Location]:
        """Return the matching files and folders. `*` and `?` match within a name, `**` across folders."""
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
        """The folder of this file or folder. The parent of a bucket and of `/` is itself."""
        head, slash, _ = self.address.rpartition("/")
        if self.is_remote and head == "s3:/":
            return self
        return Location(head or slash or ".", self.epoch)

    def exists(self) -> bool:
        return _store(self.address).exists(self.address)

    def is_file(self) -> bool:
        return _store(self.address).is_file(self.address)

    def is_dir(self) -> bool:
        return _store(self.address).is_dir(self.address)

    def is_empty(self) -> bool:
        """Return whether the folder has no files, at any depth."""
        return next(_store(self.address).walk(self.address, True), None) is None

    def size(self) -> int:
        """Return the size in bytes."""
        return _store(self.address).size(self.address)

    def list(self, *, recursive: bool = False) -> list[Location]:
        """Return the files of this folder, sorted by address, without hidden ones. A missing folder has none."""
        found = _store(self.address).walk(self.address, recursive)
        return sorted(Location(address, self.epoch) for address in found)

    def open_input(self) -> BinaryIO:
        """Open a seekable buffered stream. From S3, only the ranges that are read are fetched."""
        return _store(self.address).open_input(self.address)

    def open_output(self) -> AbstractContextManager[BinaryIO]:
        """Open a stream whose content appears as a whole at the end of the context, or not at all if it raises."""
        if self.epoch is not None:
            return self._open_staged(self.epoch)
        return _store(self.address).open_output(self.address)

    def read_range(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`, in one request; fewer where the file ends before."""
        return _store(self.address).read_range(self.address, start, stop)

    @contextmanager
    def _open_staged(self, epoch: Epoch) -> Iterator[BinaryIO]:
        store, staged = _store(self.address), epoch.stage().address
        with store.stage(staged) as stream:
            yield stream
        tag = store.tag(staged)
        try:
            epoch.check()
        except RunConflict:
            with suppress(StorageError):
                store.delete(staged)
            raise
        if not store.move(staged, self.address, tag):
            epoch.check()
            raise RunConflict(f"{self.address} was not written: another job that takes the run has deleted {staged}")

    def read_bytes(self) -> bytes:
        with self.open_input() as stream:
            return stream.read()

    def read_text(self) -> str:
        return self.read_bytes().decode("utf-8")

    def write_bytes(self, data: bytes) -> None:
        with self.open_output() as stream:
            stream.write(data)

    def tag(self) -> str:
        """Return a mark of the file's content for `replace`; "" where there is no file, and always on a disk."""
        return _store(self.address).tag(self.address)

    def replace(self, data: bytes, tag: str) -> bool:
        """Write the file if it is still that of the tag; return whether it was.

        On a disk, and on servers without conditional writes, the file is written in any case: use a lock as well. It
        is not for the files of a run, which have epochs.
        """
        return _store(self.address).replace(self.address, data, tag)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode("utf-8"))

    def delete(self) -> None:
        """Delete the file if there is one."""
        if self.epoch is not None:
            self.epoch.check()
        _store(self.address).delete(self.address)

    def delete_tree(self) -> None:
        """Delete the folder with all files in it, also hidden ones, if there is one. It is for folders of no epoch."""
        _store(self.address).delete_tree(self.address)

    def check_writable(self) -> None:
        """Write a test file into this folder, which is created if needed. Raises StorageError."""
        _store(self.address).check_writable(self.address)


def _unpickle(address: str, epoch: Epoch | None) -> Location:
    """Return the location. Its sender has reached the server, so this process retries as after a success."""
    if address.startswith("s3://"):
        SERVER_STATE.reached = True
    return Location(address, epoch)


def _store(address: str) -> Store:
    if not address.startswith("s3://"):
        return local
    from fdarx_core.storage import s3  # importing boto3 takes time, and most runs are local

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
        raise StorageError(f"{address!r} is not a path; give a local path or s3://bucket/key")
    return address.rstrip("/") or "/"
