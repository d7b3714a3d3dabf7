"""The files of an index: immutable segments, manifests of versions, and the pointer to the current version."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from fdarx_core.records import Chunk, arrow_schema
from fdarx_core.retrieval.encoders import EncoderInfo, WindowVectors
from fdarx_core.retrieval.lexical import Integers
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.arrow_files import open_parquet

FORMAT = 4
"""Raised when a reader of an older layout would misread a newer one."""


class IndexDamaged(StorageError):
    """A file of the index is missing or has other content than was written."""

    def __init__(self, file: Location, problem: str) -> None:
        remedy = "delete the index and build it again: fdarx index --documents … --out INDEX"
        super().__init__(f"{file} {problem}; {remedy}")
        self.file = file
        self._problem = problem

    def __reduce__(self) -> tuple[type[IndexDamaged], tuple[Location, str]]:
        return IndexDamaged, (self.file, self._problem)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file in the index's folder, as it was written."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document of an index.

    Attributes:
        source: the file that the document came from; "" for a label that nobody uploaded, which its set id (its id)
            identifies.
        digest: a hash over the document's chunks.
        chunks: the number of chunks.
        windows: the number of vectors: one for each window of each chunk, 0 without an encoder.
        segment: the name of the segment that holds them.
        version: the number of a label's version, 0 for another document.
        effective_date: the date of a label's version in ISO 8601, else "".
        file: a hash of the bytes of a label's file, "" where the chunks were not made from a file.
    """

    source: str
    digest: str
    chunks: int
    windows: int
    segment: str
    version: int = 0
    effective_date: str = ""
    file: str = ""

    @property
    def age(self) -> tuple[int, str]:
        """By this versions of a label are ordered: number, then date."""
        return self.version, self.effective_date


def entry_source(chunk: Chunk) -> str:
    """Return the `source` of the entry of a chunk's document."""
    return "" if chunk.set_id and not chunk.uploaded_by else chunk.source


@dataclass(frozen=True, slots=True)
class Segment:
    """The chunks of some whole documents, one a row, and where there is an encoder their vectors; never changed.

    `vectors` has a row for each window of each chunk, in the order of the chunks; `windows` has a row for each chunk:
    how many windows it has, 1 or more.
    """

    name: str
    rows: int
    chunks: FileInfo
    windows: FileInfo | None
    vectors: FileInfo | None
    encoder: EncoderInfo | None


@dataclass(frozen=True)
class Manifest:
    """One version of an index.

    Rows are numbered through the segments, in order; rows of a document that a later segment holds are left out.

    Attributes:
        segments: the segments, in order.
        entries: the documents by id.
        chunking: the options with which documents were cut into chunks.
        created: when the version was written, in ISO format.
        parent: the name of the version that this one builds on, "" for the first.
    """

    segments: tuple[Segment, ...]
    entries: Mapping[str, DocumentEntry]
    chunking: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    parent: str = ""

    @cached_property
    def data(self) -> bytes:
        """The manifest as JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["approximate"] = None  # earlier versions, which had such an index, keep their names
        return orjson.dumps({"format": FORMAT, **plain}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    @cached_property
    def version(self) -> str:
        """The name of the version, NNNN-HASH: a number from 1, and a hash of the JSON, which reveals damage."""
        return f"{version_number(self.parent) + 1:04d}-{digest(self.data)[:12]}"

    @property
    def encoder(self) -> EncoderInfo | None:
        return self.segments[0].encoder if self.segments else None

    @property
    def documents(self) -> int:
        return len(self.entries)

    @property
    def chunks(self) -> int:
        return sum(entry.chunks for entry in self.entries.values())

    @property
    def windows(self) -> int:
        """The number of vectors."""
        return sum(entry.windows for entry in self.entries.values())

    def same_content(self, other: Manifest) -> bool:
        """Return whether both have the same documents, chunked and embedded alike, in whatever segments."""
        own, others = (
            ({id: entry.digest for id, entry in manifest.entries.items()}, manifest.encoder, manifest.chunking)
            for manifest in (self, other)
        )
        return own == others


def version_number(version: str) -> int:
    """Return the number of a version, counted from 1; 0 for "", which is no version."""
    return int(version.partition("-")[0] or 0)


def same_encoder(encoder: EncoderInfo | None, other: EncoderInfo | None) -> bool:
    """Return whether vectors of both encoders may stand in one index; None agrees with None.

    Only questions carry the instruction, which may differ.
    """
    compared = attrgetter("fingerprint", "dimensions", "normalised")
    return encoder is other if encoder is None or other is None else bool(compared(encoder) == compared(other))


def group_by_document(chunks: Iterable[Chunk]) -> Iterable[list[Chunk]]:
    """Yield the chunks of each document, in order. Raises ValueError for a document whose chunks are not together."""
    seen = set()
    for id, group in groupby(chunks, key=lambda chunk: chunk.document_id):
        if id in seen:
            raise ValueError(f"document {id} comes twice; give every document once, its chunks one after the other")
        seen.add(id)
        yield list(group)


_DIGESTED = attrgetter(*(column.name for column in fields(Chunk) if column.name != "source"))


def document_digest(chunks: Iterable[Chunk]) -> str:
    """Return a hash over all that is searched or shown; a file that was only moved keeps its digest."""
    return digest(orjson.dumps([_DIGESTED(chunk) for chunk in chunks]))


def digest(data: bytes | memoryview) -> str:
    """Return a hash of 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


_WINDOWS = pa.schema({"windows": pa.int64()})
_MANIFEST = TypeAdapter(Manifest)
_SEGMENT = TypeAdapter(tuple[Segment, dict[str, DocumentEntry]])


POINTER = "index.json"
_READ_ATTEMPTS = 6
_READ_PAUSE = 0.05
"""Seconds before the second attempt; doubled for each further one."""

SegmentListing = tuple[Segment, Mapping[str, DocumentEntry]]
"""A segment and the documents in it, by id: the content of `segments/NAME/segment.json`."""


def read_file(place: Location, info: FileInfo) -> bytes:
    """Return the content of a file. Raises `IndexDamaged` where it is missing or has another size or digest."""
    file = place / info.name
    data = read_bytes(file)
    if len(data) != info.size:
        raise IndexDamaged(file, f"has {len(data)} bytes instead of {info.size}")
    if digest(data) != info.digest:
        raise IndexDamaged(file, "has other content than was written")
    return data


def read_bytes(file: Location) -> bytes:
    """Return the content of a file. Raises `IndexDamaged` where it is missing."""
    if not file.exists():
        raise IndexDamaged(file, "is missing")
    return file.read_bytes()


def read_pointer(place: Location) -> str:
    """Return the name of the current version, "" where there is no index. Raises `IndexDamaged`."""
    file = place / POINTER
    if not file.exists():
        return ""
    try:
        for attempt in range(_READ_ATTEMPTS - 1):  # on S3 a read fails while the file is replaced
            with suppress(StorageError):
                return str(orjson.loads(file.read_bytes())["version"])
            time.sleep(_READ_PAUSE * 2**attempt)
        return str(orjson.loads(file.read_bytes())["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error


def manifest_name(version: str) -> str:
    return f"versions/{version}.json"


def read_manifest(place: Location, version: str) -> Manifest:
    """Read the manifest of a version. Raises `IndexDamaged` where its content does not match its name."""
    file = place / manifest_name(version)
    try:
        found = orjson.loads(read_bytes(file))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("it has another format; update fdarx, or build the index again")
        manifest = _MANIFEST.validate_python(found)
    except ValueError as error:
        raise IndexDamaged(file, f"can't be read: {error}") from error
    if manifest.version != version:
        raise IndexDamaged(file, "has other content than was written")
    return manifest


def find_version(place: Location, version: str) -> Manifest:
    """Read the manifest of a version given by name. Raises StorageError, which lists the versions there are."""
    if not (place / manifest_name(version)).exists():
        versions = [file.name.removesuffix(".json") for file in (place / "versions").list() if file.suffix == ".json"]
        raise StorageError(f"{place} has no version {version}; it has {', '.join(versions) or 'none'}")
    return read_manifest(place, version)


def read_segment(place: Location, name: str) -> SegmentListing:
    """Read `segment.json` of a segment. Raises `IndexDamaged`."""
    file = place / f"segments/{name}/segment.json"
    try:
        found = orjson.loads(read_bytes(file))
        return _SEGMENT.validate_python((found["segment"], found["entries"]))
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error


def read_rows(place: Location, manifest: Manifest, *, vectors: bool) -> Iterator[tuple[pa.Table, WindowVectors | None]]:
    """Yield the chunks of each segment that belong to a version, and where asked for their vectors.

    Raises `IndexDamaged`.
    """
    for segment in manifest.segments:
        chunks = _read_table(place, segment.chunks, segment.rows)
        if chunks.schema != arrow_schema(Chunk):
            raise IndexDamaged(place / segment.chunks.name, "has other columns than a chunk has")
        own = [id for id, entry in manifest.entries.items() if entry.segment == segment.name]
        alive = pc.is_in(chunks["document_id"], value_set=pa.array(own, pa.string())).combine_chunks()
        wanted = sum(manifest.entries[id].chunks for id in own)
        if pc.sum(alive).as_py() != wanted:
            raise IndexDamaged(place / segment.chunks.name, f"holds other documents than version {manifest.version}")
        kept = alive.to_numpy(zero_copy_only=False)
        read = _read_vectors(place, segment) if vectors else None
        yield chunks if kept.all() else chunks.filter(alive), read if read is None or kept.all() else read.select(kept)


def _read_vectors(place: Location, segment: Segment) -> WindowVectors | None:
    """Return the vectors of a segment, None for one without an encoder."""
    if segment.windows is None or segment.vectors is None or segment.encoder is None:
        return None
    table = _read_table(place, segment.windows, segment.rows)
    if table.schema != _WINDOWS:
        raise IndexDamaged(place / segment.windows.name, f"has other columns than {_WINDOWS.names[0]}")
    windows: Integers = table["windows"].to_numpy()
    rows = int(windows.sum())
    column = _read_table(place, segment.vectors, rows)["vector"].combine_chunks()
    wanted = pa.list_(pa.float32(), segment.encoder.dimensions)
    if column.type != wanted:
        raise IndexDamaged(place / segment.vectors.name, f"has {column.type} for vectors instead of {wanted}")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return WindowVectors(flat.reshape(rows, segment.encoder.dimensions), windows)


def _read_table(place: Location, info: FileInfo, rows: int) -> pa.Table:
    data = read_file(place, info)
    try:
        table = open_parquet(data, place / info.name).read()
    except (pa.ArrowException, OSError) as error:
        raise IndexDamaged(place / info.name, f"is not a Parquet file ({' '.join(str(error).split())})") from error
    if table.num_rows != rows:
        raise IndexDamaged(place / info.name, f"has {table.num_rows} rows instead of {rows}")
    return table
