"""What a user gives to be read: files, folders, globs, archives and archives of archives, on a disk or on s3://."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fdarx_core.records import Reject
from fdarx_core.storage.archives import (
    BadSource,
    open_inner,
    open_outer,
    read_file,
    read_member,
    wanted_members,
)
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location


class MissingInput(StorageError):
    """An input that the user named does not exist. The message names it and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
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


def find_sources(paths: Sequence[str], wanted: Wanted) -> Inputs:
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


def read_source(source: Source, wanted: Wanted) -> Iterator[tuple[Source, bytes] | Reject]:
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


def _files(path: str, wanted: Wanted) -> Iterator[tuple[Location, bool]]:
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


def _take(file: Location, wanted: Wanted, found: Inputs) -> None:
    source = Source(str(file))
    try:
        _refuse_undecodable(source)
        if _is_zip(file.name):
            _take_archive(source, wanted, found)
        else:
            found.sources.append(source)
    except BadSource as bad:
        found.rejects.append(as_reject(source, bad))


def _take_archive(source: Source, wanted: Wanted, found: Inputs) -> None:
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


def _inner_documents(source: Source, wanted: Wanted) -> Iterator[tuple[Source, bytes] | Reject]:
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


def _refuse_none(taken: int, wanted: Wanted) -> None:
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
