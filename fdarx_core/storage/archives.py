"""Reading members of archives that others made: bounded in size and ratio, never unpacked to disk."""

from __future__ import annotations

import io
import os
import re
import struct
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, BinaryIO

from fdarx_core.storage.errors import StorageError, Unreachable
from fdarx_core.storage.location import Location

MAX_DOCUMENT = 64 * 2**20
"""Bytes of one document or inner archive. The largest real labels have about 10 MB."""

MAX_RATIO = 200
RATIO_FROM = 8 * 2**20
"""A ratio above MAX_RATIO counts only beyond this many bytes: small files of blanks are harmless."""

MAX_INNER_MEMBERS = 10_000

_CHUNK = 2**20
_ENTRY_MARK = b"PK\x01\x02"
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, ValueError, RuntimeError)
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class BadSource(Exception):
    """A document or archive that can't be read: `reason` is a fixed name to count by, `detail` says what was found."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def read_file(location: str) -> bytes:
    """All bytes of a file that is no archive. Raises Unreachable, as all here do, where the fault is not the file's."""
    try:
        with Location(location).open_input() as stream:
            return _bounded(stream)
    except Unreachable:
        raise
    except (OSError, StorageError) as error:
        raise BadSource("unreadable", str(error)) from error


def open_outer(location: str) -> zipfile.ZipFile:
    """An archive on a disk or S3. It stays open for the members to come: a bulk release has 50,000 of them."""
    try:
        return _opened(location, _stamp(location))
    except Unreachable:
        raise
    except (OSError, StorageError) as error:
        raise BadSource("unreadable", str(error)) from error


def open_inner(data: bytes) -> zipfile.ZipFile:
    """An archive that is a member of another."""
    count = data.count(_ENTRY_MARK)
    if count > MAX_INNER_MEMBERS:
        raise BadSource("too_many_members", f"about {count:,} members; at most {MAX_INNER_MEMBERS:,} are read")
    return _archive(io.BytesIO(data))


def wanted_members(archive: zipfile.ZipFile, wanted: Callable[[str], bool]) -> Iterator[tuple[str, BadSource | None]]:
    """Names of the wanted members in order, each with what forbids reading it; "" stands for one that is not wanted.

    Folders are passed over.
    """
    members = [member for member in archive.infolist() if not member.is_dir()]
    copies = Counter(member.filename for member in members)
    for member in members:
        if not wanted(member.filename):
            yield "", None
        elif _is_unsafe(member.orig_filename):
            yield member.filename, BadSource("unsafe_member_path", "the name leads out of the archive")
        elif archive.NameToInfo[member.filename] is not member:
            detail = f"{copies[member.filename]} members have this name; the last of them is read"
            yield member.filename, BadSource("duplicate_member", detail)
        else:
            yield member.filename, None


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """All bytes of one member. Its header's sizes are not trusted: reading ends where a bound is passed."""
    try:
        member = archive.getinfo(name)
    except KeyError as error:
        raise BadSource("damaged_archive", "the member is not there any more") from error
    _refuse_unreadable(member)
    try:
        with archive.open(member) as stream:
            return _bounded(stream, member.compress_size)
    except _BROKEN as error:
        raise BadSource("damaged_member", _said(error)) from error
    except Unreachable:
        raise
    except (OSError, StorageError) as error:
        _opened.cache_clear()  # the file may have been replaced: what comes next opens it anew
        raise BadSource("unreadable", str(error)) from error


def _refuse_unreadable(member: zipfile.ZipInfo) -> None:
    if member.flag_bits & 0x41:
        raise BadSource("encrypted_member", "the member is encrypted; unpack the archive with its password first")
    if member.compress_type not in _READABLE:  # bzip2 and lzma can't be read in bounded steps
        raise BadSource("damaged_member", f"compression method {member.compress_type} is not read; only deflate is")


def _bounded(stream: IO[bytes] | BinaryIO, compressed: int | None = None) -> bytes:
    """`compressed` is a header's word; zipfile takes it as the most to read, so that it can hide a bomb from the ratio
    only up to MAX_DOCUMENT."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if compressed is not None and size > max(RATIO_FROM, compressed * MAX_RATIO):
            raise BadSource("compression_bomb", f"{compressed:,} bytes unpack to {size:,} and more")
        if size > MAX_DOCUMENT:
            raise BadSource("oversized_member", f"more than {MAX_DOCUMENT // 2**20} MiB unpacked")
    if not size:
        raise BadSource("empty_file", "it has no bytes")
    return b"".join(chunks)


def _archive(stream: BinaryIO) -> zipfile.ZipFile:
    """Closes the stream with the archive, which zipfile leaves to its caller."""
    try:
        archive = _directory(stream)
    except BaseException:
        stream.close()
        raise
    weakref.finalize(archive, stream.close)
    return archive


def _directory(stream: BinaryIO) -> zipfile.ZipFile:
    start = stream.read(4)
    if not start:
        raise BadSource("empty_file", "it has no bytes")
    try:
        return zipfile.ZipFile(stream)
    except _BROKEN as error:
        reason = "damaged_archive" if start.startswith(b"PK") else "not_a_zip"
        raise BadSource(reason, _said(error)) from error


@lru_cache(maxsize=8)
def _opened(location: str, stamp: tuple[int, ...]) -> zipfile.ZipFile:
    """Threads share an archive (zipfile locks its reads); two that open it at once do so twice, and one is dropped."""
    return _archive(Location(location).open_input())


os.register_at_fork(after_in_child=_opened.cache_clear)


def _stamp(location: str) -> tuple[int, ...]:
    """Changes when a local file is replaced. On S3 the open archive itself notices."""
    if Location(location).is_remote:
        return ()
    status = Path(location).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_unsafe(name: str) -> bool:
    parts = re.split(r"[/\\]", name)
    return not parts[0] or ".." in parts or bool(re.match(r"[A-Za-z]:", name)) or "\0" in name


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
