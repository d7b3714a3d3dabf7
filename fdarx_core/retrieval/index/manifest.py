"""What a version of an index is made of, and its JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import orjson

from fdarx_core.records import Chunk
from fdarx_core.retrieval.encoder_info import EncoderInfo

FORMAT = 1
"""Raised when a reader of an older layout would misread a newer one."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file under the index's folder, as it was written."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A document: its `digest` is over its chunks, `segment` is where they stand.

    `source` is "" for a label: its set id, which is its id, says which label replaces it.
    """

    source: str
    digest: str
    chunks: int
    segment: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Some whole documents' chunks, and their vectors row by row where there is an encoder; never changed."""

    name: str
    rows: int
    chunks: FileInfo
    vectors: FileInfo | None
    encoder: EncoderInfo | None


@dataclass(frozen=True, slots=True)
class Approximate:
    """A FAISS index over all rows that was built once; `exact` is the number of vectors up to which none would be."""

    kind: str
    exact: int
    file: FileInfo


@dataclass(frozen=True)
class Manifest:
    """One version of an index. `entries` are its documents by id, `chunking` what the builder said of it.

    Rows are numbered through the segments in order; those of a document that stands in a later segment don't count.
    """

    segments: tuple[Segment, ...]
    entries: Mapping[str, Entry]
    chunking: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    parent: str = ""
    approximate: Approximate | None = None

    @cached_property
    def data(self) -> bytes:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return orjson.dumps({"format": FORMAT, **plain}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    @cached_property
    def version(self) -> str:
        """NNNN-HASH: counted from 1, and a hash of the manifest's bytes, so that damage shows."""
        return f"{number(self.parent) + 1:04d}-{digest(self.data)[:12]}"

    @property
    def encoder(self) -> EncoderInfo | None:
        return self.segments[0].encoder if self.segments else None

    @property
    def documents(self) -> int:
        return len(self.entries)

    @property
    def chunks(self) -> int:
        return sum(entry.chunks for entry in self.entries.values())

    def holds(self, other: Manifest) -> bool:
        """Whether both have the same documents, cut and embedded alike, wherever they stand."""
        return bool(self._content == other._content)

    def missing(self, chunks: Iterable[Chunk], encoder: EncoderInfo | None) -> list[Chunk]:
        """The chunks of those documents (given whole, chunk after chunk) that this version does not hold just so."""
        if not same_encoder(encoder, self.encoder):
            return list(chunks)
        return [chunk for one in documents(chunks) for chunk in one if not self._has(one)]

    def _has(self, document: list[Chunk]) -> bool:
        entry = self.entries.get(document[0].document_id)
        return entry is not None and entry.digest == document_digest(document)

    @property
    def _content(self) -> Any:
        return {id: entry.digest for id, entry in self.entries.items()}, self.encoder, self.chunking


def number(version: str) -> int:
    """Versions are counted from 1; "", which is none, has 0."""
    return int(version.partition("-")[0] or 0)


def same_encoder(one: EncoderInfo | None, other: EncoderInfo | None) -> bool:
    """Whether vectors of both may stand in one index; none at all agrees with none."""
    return one is other if one is None or other is None else one.makes_vectors_of(other)


def documents(chunks: Iterable[Chunk]) -> Iterable[list[Chunk]]:
    """The chunks by document, in order; `ValueError` for one whose chunks don't stand together."""
    seen = set()
    for id, group in groupby(chunks, key=lambda chunk: chunk.document_id):
        if id in seen:
            raise ValueError(f"document {id} comes twice; give every document once, its chunks one after the other")
        seen.add(id)
        yield list(group)


def document_digest(chunks: Iterable[Chunk]) -> str:
    """Over all that is searched or shown; a file that was only moved stays the same document."""
    told = [(one.id, one.title, one.section, one.text, one.position, one.start, one.set_id, one.drug) for one in chunks]
    return digest(orjson.dumps(told))


def digest(data: bytes | memoryview) -> str:
    """32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def parse(data: bytes) -> Manifest:
    """Raises `ValueError` for anything that `Manifest.data` did not write."""
    try:
        found = orjson.loads(data)
        if found.pop("format") != FORMAT:
            raise ValueError("it has another format; update fdarx")
        segments = tuple(segment(one) for one in found.pop("segments"))
        entries = {id: Entry(**one) for id, one in found.pop("entries").items()}
        approximate = found.pop("approximate")
        if approximate is not None:
            approximate = Approximate(approximate["kind"], approximate["exact"], FileInfo(**approximate["file"]))
        return Manifest(segments, entries, approximate=approximate, **found)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not one that fdarx wrote ({error!r})") from error


def segment(found: Mapping[str, Any]) -> Segment:
    """From its JSON object."""
    vectors, encoder = found["vectors"], found["encoder"]
    return Segment(
        name=found["name"],
        rows=found["rows"],
        chunks=FileInfo(**found["chunks"]),
        vectors=vectors and FileInfo(**vectors),
        encoder=encoder and EncoderInfo(**encoder),
    )
