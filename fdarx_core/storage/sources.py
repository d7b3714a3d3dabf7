"""The files that a user gives: files, folders, globs, archives and archives of archives, on a disk or on S3."""

from __future__ import annotations

import io
import os
import re
import struct
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, BinaryIO

from fdarx_core.records import Reject
from fdarx_core.storage.errors import BadSource, MissingInput, StorageError, Unreachable
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


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files of folders, globs and archives are taken: those that end so, in any case, and zips.

    Without `endings`, all are. Hidden files never are. `plural` names them to the user: "XML files".
    """

    plural: str
    endings: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        taken = not self.endings or name.lower().endswith((*self.endings, ".zip"))
        return taken and not re.split(r"[/\\]", name)[-1].startswith(".")


@dataclass(frozen=True, slots=True)
class Source:
    """The address of one document, or of one inner archive of documents.

    `location` is a path or `s3://` address; `members` leads on through archives: ("prescription/a.zip", "a.xml").
    """

    location: str
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`dm.zip!prescription/a.zip!a.xml`"""
        return "!".join((self.location, *self.members))


@dataclass(slots=True)
class Inputs:
    """What was found: sources by name, what can't be read, and how many files of other kinds were passed over."""

    sources: list[Source] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    ignored: int = 0


def find_sources(paths: Sequence[str], wanted: FileFilter) -> Inputs:
    """The sources under any mix of files, folders, globs and zips, each once, in an order that is not the input's.

    A file named outright is always taken; of folders, globs and archives, only what is wanted. Reads no more than
    the directories of outermost zips: an inner zip is one source, which `read_source` opens. Raises `MissingInput`
    for a path that does not exist or a glob that matches nothing, `StorageError` where a place can't be reached.
    """
    found = Inputs()
    named = [(file, outright) for path in paths for file, outright in _files(path, wanted)]
    for file, outright in _distinct(named):
        if outright or wanted.takes(file.name):
            _take(file, wanted, found)
        else:
            found.ignored += 1
    found.sources.sort(key=lambda source: source.name)
    found.rejects.sort(key=lambda reject: reject.id)
    return found


def read_source(source: Source, wanted: FileFilter) -> Iterator[tuple[Source, bytes] | Reject]:
    """The documents under a source, each with its own address: one, or as many as an inner zip has.

    What can't be read comes as a `Reject`; no content makes this raise. Raises Unreachable where the fault is not the
    file's.
    """
    try:
        if source.members and _is_zip(source.members[-1]):
            yield from _inner_documents(source, wanted)
        else:
            yield source, read_document(source)
    except BadSource as bad:
        yield as_reject(source, bad)


def read_document(source: Source) -> bytes:
    """The bytes of one document, by an address that `read_source` gave. Raises `BadSource`."""
    if not source.members:
        return read_file(source.location)
    archive = open_outer(source.location)
    for inner in source.members[:-1]:
        archive = open_inner(read_member(archive, inner))
    return read_member(archive, source.members[-1])


def _files(path: str, wanted: FileFilter) -> Iterator[tuple[Location, bool]]:
    """The files that an argument stands for, each with whether it was named outright."""
    here = Location(path)
    if here.is_dir():
        yield from ((file, False) for file in here.list(recursive=True))
    elif here.exists():
        yield here, True
    elif re.search(r"[*?\[]", path):
        yield from _matches(path)
    else:
        raise MissingInput(f"{path} does not exist; give {wanted.plural}, zips, folders or globs that do")


def _matches(pattern: str) -> Iterator[tuple[Location, bool]]:
    matches = Location.glob(pattern)
    if not matches:
        raise MissingInput(f"{pattern} matches nothing; correct the pattern, or check the folder it looks in")
    for match in matches:
        yield from ((file, False) for file in (match.list(recursive=True) if match.is_dir() else [match]))


def _distinct(files: list[tuple[Location, bool]]) -> list[tuple[Location, bool]]:
    """Each file once, under the least of the names it was given, named outright if it ever was."""
    kept: dict[str, tuple[Location, bool]] = {}
    for file, outright in sorted(files, reverse=True):
        place = str(file) if file.is_remote else str(Path(file.address).resolve())
        kept[place] = (file, outright or kept.get(place, (file, False))[1])
    return list(kept.values())


def _take(file: Location, wanted: FileFilter, found: Inputs) -> None:
    source = Source(str(file))
    try:
        _refuse_undecodable(source)
        if _is_zip(file.name):
            _take_archive(source, wanted, found)
        else:
            found.sources.append(source)
    except BadSource as bad:
        found.rejects.append(as_reject(source, bad))


def _take_archive(source: Source, wanted: FileFilter, found: Inputs) -> None:
    taken = 0
    for name, bad in wanted_members(open_outer(source.location), wanted.takes):
        member = Source(source.location, (name,))
        if not name:
            found.ignored += 1
            continue
        taken += 1
        if bad:
            found.rejects.append(as_reject(member, bad))
        else:
            found.sources.append(member)
    _refuse_none(taken, wanted)


def _inner_documents(source: Source, wanted: FileFilter) -> Iterator[tuple[Source, bytes] | Reject]:
    archive = open_inner(read_document(source))
    taken = 0
    for name, bad in wanted_members(archive, wanted.takes):
        if not name:
            continue
        taken += 1
        member = Source(source.location, (*source.members, name))
        try:
            yield member, _inner_document(archive, name, bad)
        except BadSource as found:
            yield as_reject(member, found)
    _refuse_none(taken, wanted)


def _inner_document(archive: zipfile.ZipFile, name: str, bad: BadSource | None) -> bytes:
    if bad:
        raise bad
    if _is_zip(name):
        raise BadSource("archive_too_deep", "a zip in a zip in a zip is not read; unpack the outermost one first")
    return read_member(archive, name)


def _refuse_none(taken: int, wanted: FileFilter) -> None:
    if not taken:
        raise BadSource("no_document", f"the archive holds no {wanted.plural} and no zips")


def _refuse_undecodable(source: Source) -> None:
    try:
        source.location.encode()
    except UnicodeEncodeError as error:
        raise BadSource("unreadable", "the file's name is not valid UTF-8; rename it") from error


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def as_reject(source: Source, bad: BadSource, *, at: str = "") -> Reject:
    """What could not be read, by its address; `at` is put after it: the place within the document."""
    name = f"{source.name}{at}".encode("utf-8", "backslashreplace").decode()
    return Reject(id=name, stage="read", reason=bad.reason, detail=bad.detail, source=name)
