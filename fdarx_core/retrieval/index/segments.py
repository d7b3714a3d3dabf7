"""The files of an index: immutable segments, manifests, and the pointer to the current version."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fdarx_core.records import Chunk, arrow_schema
from fdarx_core.retrieval.encoders import Vectors
from fdarx_core.retrieval.index.manifest import (
    DocumentEntry,
    FileInfo,
    IndexDamaged,
    Manifest,
    Segment,
    digest,
    parse_manifest,
    parse_segment,
)
from fdarx_core.storage import Location, StorageError

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
        return str(orjson.loads(_read_with_retries(file))["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error


def _read_with_retries(file: Location) -> bytes:
    """Read a file that may be replaced meanwhile: on S3 such a read fails, and is tried again."""
    for attempt in range(_READ_ATTEMPTS - 1):
        with suppress(StorageError):
            return file.read_bytes()
        time.sleep(_READ_PAUSE * 2**attempt)
    return file.read_bytes()


def write_file(place: Location, name: str, data: bytes) -> FileInfo:
    (place / name).write_bytes(data)
    return FileInfo(name, len(data), digest(data))


def manifest_name(version: str) -> str:
    return f"versions/{version}.json"


def read_manifest(place: Location, version: str) -> Manifest:
    """Read the manifest of a version. Raises `IndexDamaged` where its content does not match its name."""
    file = place / manifest_name(version)
    try:
        manifest = parse_manifest(read_bytes(file))
    except ValueError as error:
        raise IndexDamaged(file, f"can't be read: {error}") from error
    if manifest.version != version:
        raise IndexDamaged(file, "has other content than was written")
    return manifest


def find_version(place: Location, version: str) -> Manifest:
    """Read the manifest of a version given by name. Raises StorageError, which lists the versions there are."""
    if not (place / manifest_name(version)).exists():
        there = [file.name.removesuffix(".json") for file in (place / "versions").list() if file.suffix == ".json"]
        raise StorageError(f"{place} has no version {version}; it has {', '.join(there) or 'none'}")
    return read_manifest(place, version)


def read_segment(place: Location, name: str) -> SegmentListing:
    """Read `segment.json` of a segment. Raises `IndexDamaged`."""
    file = place / f"segments/{name}/segment.json"
    try:
        found = orjson.loads(read_bytes(file))
        return parse_segment(found)
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error


def read_rows(place: Location, manifest: Manifest, *, vectors: bool) -> Iterator[tuple[pa.Table, Vectors | None]]:
    """Yield each segment's chunks that belong to the version, and their vectors where asked for.

    Raises `IndexDamaged`.
    """
    for segment in manifest.segments:
        chunks = _read_chunks(place, segment)
        own = [id for id, entry in manifest.entries.items() if entry.segment == segment.name]
        alive = pc.is_in(chunks["document_id"], value_set=pa.array(own, pa.string())).combine_chunks()
        wanted = sum(manifest.entries[id].chunks for id in own)
        if pc.sum(alive).as_py() != wanted:
            raise IndexDamaged(place / segment.chunks.name, f"holds other documents than version {manifest.version}")
        read = _read_vectors(place, segment) if vectors else None
        if wanted < segment.rows:
            chunks = chunks.filter(alive)
            read = None if read is None else read[alive.to_numpy(zero_copy_only=False)]
        yield chunks, None if read is None else np.ascontiguousarray(read)


def _read_chunks(place: Location, segment: Segment) -> pa.Table:
    table = _read_table(place, segment.chunks, segment.rows)
    if table.schema != arrow_schema(Chunk):
        raise IndexDamaged(place / segment.chunks.name, "has other columns than a chunk has")
    return table


def _read_vectors(place: Location, segment: Segment) -> Vectors:
    """Return the vectors of a segment that has an encoder, shape (rows, dimensions)."""
    assert segment.vectors is not None and segment.encoder is not None
    column = _read_table(place, segment.vectors, segment.rows)["vector"].combine_chunks()
    wanted = pa.list_(pa.float32(), segment.encoder.dimensions)
    if column.type != wanted:
        raise IndexDamaged(place / segment.vectors.name, f"has {column.type} for vectors instead of {wanted}")
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False)
    return vectors.reshape(segment.rows, segment.encoder.dimensions)


def _read_table(place: Location, info: FileInfo, rows: int) -> pa.Table:
    data = read_file(place, info)
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise IndexDamaged(place / info.name, f"is not a Parquet file ({' '.join(str(error).split())})") from error
    if table.num_rows != rows:
        raise IndexDamaged(place / info.name, f"has {table.num_rows} rows instead of {rows}")
    return table
