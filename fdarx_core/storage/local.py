"""Files on a local disk. An output is written under a hidden name in its folder, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob as expand
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from fdarx_core.storage.errors import REMEDIES, StorageError

_DEVICE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Of a full or failing disk. Other errors while a file is open for writing come from the code that writes, and pass."""


def exists(address: str) -> bool:
    return os.path.exists(address)  # noqa: PTH110 (Path.exists raises on names too long before Python 3.12)


def is_file(address: str) -> bool:
    return os.path.isfile(address)  # noqa: PTH113


def is_dir(address: str) -> bool:
    return os.path.isdir(address)  # noqa: PTH112


def size(address: str) -> int:
    with _explained("read", address):
        return Path(address).stat().st_size


def walk(address: str, recursive: bool, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    if not is_dir(address):
        return
    with _explained("list", address):
        status = Path(address).stat()
        entries = sorted(os.scandir(address), key=lambda entry: entry.name)
    here = (status.st_dev, status.st_ino)
    if here in above:  # a symbolic link to a parent folder
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_file():
            yield f"{address.rstrip('/')}/{entry.name}"
        elif recursive and entry.is_dir():
            yield from walk(f"{address.rstrip('/')}/{entry.name}", recursive, above | {here})


def glob(pattern: str) -> list[str]:
    return expand(pattern, recursive=True)  # noqa: PTH207 (keeps the address as the user wrote it)


def open_input(address: str) -> BinaryIO:
    with _explained("read", address):
        return Path(address).open("rb")


@contextmanager
def open_output(address: str) -> Iterator[BinaryIO]:
    temporary = str(Path(address).parent / f".tmp-{uuid4().hex}")
    with stage(temporary) as stream:
        yield stream
    try:
        if not move(temporary, address, ""):
            raise StorageError(f"cannot write {address}: its folder was deleted while it was written; run it again")
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


@contextmanager
def stage(address: str) -> Iterator[BinaryIO]:
    """Open a new file, which is complete on the disk at the end of the context, or deleted if it raises."""
    file = Path(address)
    with _explained("write", address):
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = file.open("xb")
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        with suppress(OSError):
            file.unlink()
        if isinstance(error, OSError) and error.errno in _DEVICE_ERRORS:
            with _explained("write", address):
                raise
        raise


def move(source: str, address: str, tag: str) -> bool:
    """Move a staged file to its place, where it replaces another; return False where the staged file is gone."""
    target = Path(address)
    with _explained("write", address):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(source).replace(target)
        except FileNotFoundError:
            return False
    # Without syncing the folder, a rename may be lost in a power failure. Some file systems cannot do it.
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
    return True


def tag(address: str) -> str:
    return ""


def replace(address: str, data: bytes, tag: str) -> bool:
    with open_output(address) as stream:
        stream.write(data)
    return True


def delete(address: str) -> None:
    with _explained("delete", address):
        Path(address).unlink(missing_ok=True)


def delete_tree(address: str) -> None:
    if is_dir(address):
        with _explained("delete", address):
            shutil.rmtree(address)


def check_writable(address: str) -> None:
    probe = Path(address) / f".tmp-{uuid4().hex}"
    with _explained("write into", address):
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()


@contextmanager
def _explained(action: str, address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = REMEDIES["disk"].get(errno.errorcode.get(error.errno or 0, ""), "check the path and the disk")
        raise StorageError(f"cannot {action} {address}: {error.strerror or error}; {remedy}") from error
