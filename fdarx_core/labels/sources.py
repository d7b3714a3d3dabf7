"""Where labels come from: XML files, folders, globs, archives and DailyMed bulk releases, on a disk or on s3://."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fdarx_core.records import Reject
from fdarx_core.storage import sources
from fdarx_core.storage.sources import Inputs, MissingInput, Source, read_document

__all__ = ["Inputs", "MissingInput", "Source", "find_sources", "read_document", "read_source"]

_XML = sources.Wanted("XML files", (".xml",))


def find_sources(paths: Sequence[str]) -> Inputs:
    """`fdarx_core.storage.sources.find_sources` for `.xml` and `.zip`."""
    return sources.find_sources(paths, _XML)


def read_source(source: Source) -> Iterator[tuple[Source, bytes] | Reject]:
    """The XML documents under a source, each with its own address: one, or as many as an inner zip has.

    What can't be read comes as a `Reject`; no content makes this raise.
    """
    return sources.read_source(source, _XML)
