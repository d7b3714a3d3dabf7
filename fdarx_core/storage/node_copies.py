"""Copies of remote files on the disk of this machine, which its processes share."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fdarx_core.storage.location import Location

_LOCK_FILE = "lock"
_PIECE = 1 << 23
"""Bytes of a file that are copied at a time."""


class NodeCopies:
    """Local paths of the files under a folder: files on a disk are used in place, those on S3 are copied.

    A file is copied when it is first used, once for all processes of the machine, into the folder of temporary files
    (`TMPDIR`). The copies are deleted by the last process that ends using them. Those of processes that were killed
    are deleted by the next process that copies files; locks of the system, which end with a process, say which are in
    use.
    """

    def __init__(self, place: Location) -> None:
        self._folder: Path | None = None
        if place.is_remote:
            prefix = f"fdarx-copies-{os.getuid()}-"
            temporary = Path(tempfile.gettempdir())
            for folder in temporary.glob(f"{prefix}*"):
                _delete_unused(folder)
            self._folder = temporary / f"{prefix}{_digest(place.address)}"
            self._close = weakref.finalize(self, _leave, _join(self._folder), self._folder)

    def path(self, file: Location) -> Path:
        """Return the local path of a file, which is copied first where needed. Raises StorageError."""
        if self._folder is None:
            return Path(file.address)
        copy = self._folder / _digest(f"{file.address}\n{file.tag()}")
        with _locked(copy.with_suffix(".lock")):
            if not copy.exists():
                _copy(file, copy)
        return copy

    def close(self) -> None:
        """End the use of the copies. Files that are mapped stay readable."""
        if self._folder is not None:
            self._close()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _copy(file: Location, copy: Path) -> None:
    with file.open_input() as source, Location(copy).open_output() as target:
        shutil.copyfileobj(source, target, _PIECE)


def _join(folder: Path) -> BinaryIO:
    """Share the lock of a folder, which is made where it is missing; another process may delete it meanwhile."""
    import fcntl  # absent on some systems, where jobs still run on local disks

    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            stream = (folder / _LOCK_FILE).open("a+b")
            fcntl.flock(stream, fcntl.LOCK_SH)
            if _is_current(folder, stream):
                return stream
            stream.close()


def _is_current(folder: Path, stream: BinaryIO) -> bool:
    try:
        return os.path.samestat((folder / _LOCK_FILE).stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


def _leave(stream: BinaryIO, folder: Path) -> None:
    stream.close()
    _delete_unused(folder)


def _delete_unused(folder: Path) -> None:
    """Delete a folder unless a process uses it."""
    import fcntl

    with suppress(OSError), (folder / _LOCK_FILE).open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(folder, stream):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    import fcntl

    with file.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
