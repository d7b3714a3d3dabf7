"""Input files: files, folders, globs, zips and zips in zips, on a disk or on S3."""

from __future__ import annotations

import io
import os
import re
import struct
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from fdarx_core.records import Reject
from fdarx_core.storage.errors import InputError, StorageError, Unreachable
from fdarx_core.storage.location import Location

MAX_DOCUMENT = 64 * 2**20
"""The most bytes of a document or inner archive. The largest real labels have about 10 MB."""

MAX_RATIO = 200
RATIO_FROM = 8 * 2**20
"""Bytes from which `MAX_RATIO`, the most unpacked bytes a packed byte, applies: small files of blanks are harmless."""

MAX_INNER_MEMBERS = 10_000

_CHUNK = 2**20
_ENTRY_MARK = b"PK\x01\x02"
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, ValueError, RuntimeError)
_REMEDY = "; the zip seems cut off or damaged: copy or download it again"
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def as_input_error() -> Iterator[None]:
    """Raise InputError where the file cannot be read in this context. The failure of a whole server is Unreachable."""
    try:
        yield
    except Unreachable:
        raise
    except (OSError, StorageError) as error:
        raise InputError("unreadable", str(error)) from error


def read_file(location: str) -> bytes:
    """Read a file that is no archive. Raises InputError, and Unreachable where the whole server fails."""
    with as_input_error(), Location(location).open_input() as stream:
        return _bounded(stream)


def open_outer(location: str) -> zipfile.ZipFile:
    """Open an archive on a disk or S3. It stays open for other members, 50,000 in a release. Raises InputError."""
    with as_input_error():
        stamp: tuple[int, ...] = ()  # reading a file on S3 that was replaced fails
        if not Location(location).is_remote:
            status = Path(location).stat()
            stamp = status.st_ino, status.st_size, status.st_mtime_ns
        return _opened(location, stamp)


def open_inner(data: bytes) -> zipfile.ZipFile:
    """Open an archive that is a member of another. Raises InputError."""
    count = data.count(_ENTRY_MARK)
    if count > MAX_INNER_MEMBERS:
        raise InputError("too_many_members", f"about {count:,} members; at most {MAX_INNER_MEMBERS:,} are read")
    return _archive(io.BytesIO(data))


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member. Its header may state wrong sizes: reading stops at `MAX_DOCUMENT`. Raises InputError."""
    try:
        member = archive.getinfo(name)
    except KeyError as error:
        raise InputError("damaged_archive", "the member is not there any more") from error
    if member.flag_bits & 0x41:
        raise InputError("encrypted_member", "the member is encrypted; unpack the archive with its password first")
    if member.compress_type not in _READABLE:  # bzip2 and lzma can't be read in bounded steps
        raise InputError("damaged_member", f"compression method {member.compress_type} is not read; unpack the archive")
    if member.header_offset < 0:
        raise InputError("damaged_member", f"the beginning of the archive is missing{_REMEDY}")
    try:
        with as_input_error(), archive.open(member) as stream:
            return _bounded(stream, member.compress_size)
    except _BROKEN as error:
        raise InputError("damaged_member", f"{_message(error)}{_REMEDY}") from error
    except InputError as error:
        if error.reason == "unreadable":
            _opened.cache_clear()  # the file may have been replaced, so it is opened anew
        raise


def _bounded(stream: IO[bytes] | BinaryIO, compressed: int | None = None) -> bytes:
    """Read a stream up to the bounds.

    `compressed` is the size by the header. A wrong size hides a zip bomb from the ratio, but not from `MAX_DOCUMENT`.
    """
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if compressed is not None and size > max(RATIO_FROM, compressed * MAX_RATIO):
            raise InputError("compression_bomb", f"{compressed:,} bytes unpack to {size:,} and more")
        if size > MAX_DOCUMENT:
            raise InputError("oversized_member", f"more than {MAX_DOCUMENT // 2**20} MiB unpacked")
    if not size:
        raise InputError("empty_file", "it has no bytes")
    return b"".join(chunks)


def _archive(stream: BinaryIO) -> zipfile.ZipFile:
    """Open an archive whose stream is closed with it; zipfile does not close streams of its caller."""
    try:
        start = stream.read(4)
        if not start:
            raise InputError("empty_file", "it has no bytes")
        archive = zipfile.ZipFile(stream)
    except _BROKEN as error:
        stream.close()
        reason = "damaged_archive" if start.startswith(b"PK") else "not_a_zip"
        raise InputError(reason, f"{_message(error)}{_REMEDY}") from error
    except BaseException:
        stream.close()
        raise
    weakref.finalize(archive, stream.close)
    return archive


@lru_cache(maxsize=8)
def _opened(location: str, stamp: tuple[int, ...]) -> zipfile.ZipFile:
    """Return a cached archive; `stamp` differs once the file is replaced. Threads share it: zipfile locks its reads."""
    return _archive(Location(location).open_input())


os.register_at_fork(after_in_child=_opened.cache_clear)


def _message(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The files to take from folders, globs and archives: those with the endings, in any case, and zips.

    Without `endings`, all files are taken. Hidden files never are. `plural` is for messages: "XML files".
    """

    plural: str
    endings: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        taken = not self.endings or name.lower().endswith((*self.endings, ".zip"))
        return taken and not re.split(r"[/\\]", name)[-1].startswith(".")


@dataclass(frozen=True, slots=True)
class Source:
    """The address of a document, or of an inner archive of documents.

    `location` is a path or `s3://` address; `members` is the path through archives: ("prescription/a.zip", "a.xml").
    """

    location: str
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The address as one text: `dm.zip!prescription/a.zip!a.xml`."""
        return "!".join((self.location, *self.members))


@dataclass(slots=True)
class Inputs:
    """The sources sorted by name, the unreadable ones, and the number of files of other kinds, which are ignored."""

    sources: list[Source] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    ignored: int = 0


def find_sources(paths: Sequence[str], wanted: FileFilter) -> Inputs:
    """Find the sources in files, folders, globs and zips, each once, sorted by name.

    Only the directories of outermost zips are read: an inner zip is one source, which `read_source` opens.

    Args:
        paths: a file is always taken; from folders, globs and archives, only wanted files are.
        wanted: the wanted files.

    Raises:
        StorageError: a path does not exist, or a glob matches nothing.
        StorageError: a place cannot be reached.
    """
    found = Inputs()
    # Each file is taken once, under the first of its names in order, and as named if any argument names it itself.
    distinct: dict[str, tuple[Location, bool]] = {}
    for file, is_named in sorted((file for path in paths for file in _files(path, wanted)), reverse=True):
        place = str(file) if file.is_remote else str(Path(file.address).resolve())
        distinct[place] = file, is_named or distinct.get(place, (file, False))[1]
    for file, is_named in distinct.values():
        if is_named or wanted.takes(file.name):
            _take(file, wanted, found)
        else:
            found.ignored += 1
    found.sources.sort(key=lambda source: source.name)
    found.rejects.sort(key=lambda reject: reject.id)
    return found


def read_source(source: Source, wanted: FileFilter) -> Iterator[tuple[Source, bytes] | Reject]:
    """Yield the documents of a source, each with its own address: one, or all of an inner zip.

    For unreadable content, yield a Reject. Raises Unreachable where the whole server fails.
    """
    try:
        if not (source.members and _is_zip(source.members[-1])):
            yield source, read_document(source)
            return
        archive = open_inner(read_document(source))
        for member in _members(source, archive, wanted):
            if isinstance(member, Reject):
                yield member
            elif member is not None:
                name = member.members[-1]
                try:
                    if _is_zip(name):
                        detail = "a zip in a zip in a zip is not read; unpack the outermost one first"
                        raise InputError("archive_too_deep", detail)
                    yield member, read_member(archive, name)
                except InputError as bad:
                    yield as_reject(member, bad)
    except InputError as bad:
        yield as_reject(source, bad)


def read_document(source: Source) -> bytes:
    """Read a document at an address that `read_source` yielded. Raises InputError."""
    if not source.members:
        return read_file(source.location)
    archive = open_outer(source.location)
    for inner in source.members[:-1]:
        archive = open_inner(read_member(archive, inner))
    return read_member(archive, source.members[-1])


def _files(path: str, wanted: FileFilter) -> Iterator[tuple[Location, bool]]:
    """Yield the files of an argument, each with whether the argument names it itself."""
    here = Location(path)
    if here.is_dir():
        yield from ((file, False) for file in here.list(recursive=True))
    elif here.exists():
        yield here, True
    elif not re.search(r"[*?\[]", path):
        raise StorageError(f"{path} does not exist; give {wanted.plural}, zips, folders or globs that do")
    elif not (matches := Location.glob(path)):
        raise StorageError(f"{path} matches nothing; correct the pattern, or check the folder it looks in")
    else:
        for match in matches:
            yield from ((file, False) for file in (match.list(recursive=True) if match.is_dir() else [match]))


def _take(file: Location, wanted: FileFilter, found: Inputs) -> None:
    source = Source(str(file))
    try:
        source.location.encode()
        if not _is_zip(file.name):
            found.sources.append(source)
            return
        for member in _members(source, open_outer(source.location), wanted):
            if member is None:
                found.ignored += 1
            elif isinstance(member, Reject):
                found.rejects.append(member)
            else:
                found.sources.append(member)
    except UnicodeEncodeError:
        bad = InputError("unreadable", "the file's name is not valid UTF-8; rename it")
        found.rejects.append(as_reject(source, bad))
    except InputError as bad:
        found.rejects.append(as_reject(source, bad))


def _members(source: Source, archive: zipfile.ZipFile, wanted: FileFilter) -> Iterator[Source | Reject | None]:
    """Yield the wanted members in order, or a Reject for one that must not be read.

    For each other member, yield None. Folders are ignored. Raises InputError where no member is wanted.
    """
    members = [member for member in archive.infolist() if not member.is_dir()]
    copies = Counter(member.filename for member in members)
    taken = 0
    for member in members:
        bad = None
        if not wanted.takes(member.filename):
            yield None
            continue
        name = member.orig_filename
        parts = re.split(r"[/\\]", name)
        if not parts[0] or ".." in parts or re.match(r"[A-Za-z]:", name) or "\0" in name:
            bad = InputError("unsafe_member_path", "the name leads out of the archive")
        elif archive.NameToInfo[member.filename] is not member:
            detail = f"{copies[member.filename]} members have this name; the last of them is read"
            bad = InputError("duplicate_member", detail)
        taken += 1
        found = Source(source.location, (*source.members, member.filename))
        yield as_reject(found, bad) if bad else found
    if not taken:
        kinds = sorted({PurePosixPath(member.filename).suffix or "others" for member in members})
        held = f"has no {wanted.plural} and no zips, only {', '.join(kinds[:5])}" if members else "is empty"
        raise InputError("no_document", f"the archive {held}")


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def as_reject(source: Source, bad: InputError, *, at: str = "") -> Reject:
    """Return the Reject of an unreadable source. `at` is the position in the document."""
    name = f"{source.name}{at}".encode("utf-8", "backslashreplace").decode()
    return Reject(id=name, stage="read", reason=bad.reason, detail=bad.detail, source=name)
