"""Files on a disk and on S3 through one class, and the epochs by which outputs of a run are committed.

By epochs, a job that was suspended cannot change a run that another job has taken over. An epoch is the time in which
one job writes a run. A job that takes a run ends all earlier epochs first: for each it writes a file under `.epochs/`,
which is never changed. Every output of a job, also of its workers on other machines, is committed in three steps:

1. The whole output is written under `.staged/`.
2. The process checks that no file under `.epochs/` ends its epoch.
3. The staged file is moved to its place: renamed on a disk; on S3 copied by the server, in one request.

The next job ends the epoch (a), then deletes all files under `.staged/` (b), and only then reads and writes (c). A
process that is suspended may go on at any moment: before step 2, it finds that its epoch has ended. Between steps 2
and 3, its check was before (a), thus its staged file was there before (a) and was deleted in (b), and step 3 fails as
there is nothing to move. If step 3 was before (b), the output was there when the next job began to read the run.
So after (c) no output of an earlier epoch appears, however long the process, its network or its requests stood still.

This needs files that can be read and listed once they are written, and no conditional writes, no order of two writers,
and no clock: clocks decide only when a silent job is taken for dead (see `run_lock`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol
from uuid import uuid4

from fdarx_core.extras import remedy
from fdarx_core.storage import local
from fdarx_core.storage.errors import RunConflict, StorageError
from fdarx_core.storage.retry import SERVER_STATE


class Store(Protocol):
    """The interface of the modules `local` and `s3`. Addresses are those of `Location`."""

    def exists(self, address: str) -> bool: ...
    def is_file(self, address: str) -> bool: ...
    def is_dir(self, address: str) -> bool: ...
    def size(self, address: str) -> int: ...
    def walk(self, address: str, recursive: bool) -> Iterator[str]: ...
    def glob(self, pattern: str) -> list[str]: ...
    def open_input(self, address: str) -> BinaryIO: ...
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
        """Return the text of the file, without a byte order mark. Raises StorageError also where it is not UTF-8."""
        try:
            return self.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise StorageError(f"{self} is not in UTF-8 (line {line:,}); save it as UTF-8") from error

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
    try:
        from fdarx_core.storage import s3  # importing boto3 takes time, and most runs are local
    except ModuleNotFoundError as error:
        raise StorageError(f"{address}: {remedy(error) or error}") from error
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


_ENDED = ".epochs"
_STAGED = ".staged"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The right of one job to commit outputs to the run in the folder `root`, until another job takes the run.

    All locations derived from `RunDirectory.root` carry it, also to other processes. `token` is unique for each start
    of a job.
    """

    root: str
    token: str

    def check(self) -> None:
        """Raise RunConflict if the epoch has ended."""
        if self.has_ended():
            reason = json.loads(self._end.read_bytes())["reason"]
            raise RunConflict(f"{self.root}: {reason}; this job has stopped")

    def has_ended(self) -> bool:
        """Return whether another job has taken the run, or this one has released it."""
        return self._end.is_file()

    def end(self, reason: str) -> None:
        """End the epoch for all processes. `reason` is for the error message of those that commit later."""
        self._end.write_text(json.dumps({"reason": reason}) + "\n")

    def stage(self) -> Location:
        """Return a new place to which an output is written before it is committed."""
        return Location(f"{self.root}/{_STAGED}/{uuid4().hex}")

    @property
    def _end(self) -> Location:
        return Location(f"{self.root}/{_ENDED}/{self.token}.json")


def clear_staged(root: Location) -> None:
    """Delete what earlier epochs have staged, so that it cannot be committed any more; end these epochs before."""
    for file in (root / _STAGED).list():
        remove(file)


def remove(file: Location) -> None:
    """Delete a file, or replace its content where this process may not delete."""
    try:
        file.delete()
    except StorageError:
        file.write_bytes(b"{}\n")
