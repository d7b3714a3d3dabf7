"""The files of a segment: written once under a name that follows from their content, read back with every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fdarx_core.records import Chunk, arrow_schema, to_table
from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.encoder_info import EncoderInfo
from fdarx_core.retrieval.index.errors import IndexDamaged
from fdarx_core.retrieval.index.files import read_bytes, read_file, write_file
from fdarx_core.retrieval.index.manifest import (
    Entry,
    FileInfo,
    Segment,
    digest,
    document_digest,
    documents,
    segment,
)
from fdarx_core.storage import Location


@dataclass(frozen=True, slots=True)
class Written:
    """A segment with the documents that stand in it, by id: `segments/NAME/segment.json`."""

    segment: Segment
    entries: Mapping[str, Entry]


def write(place: Location, chunks: Sequence[Chunk], vectors: Vectors | None, encoder: EncoderInfo | None) -> str:
    """Whole documents; what stands there already, whole, stays. Returns the segment's name. `segment.json` comes last.

    Raises `ValueError` where vectors and chunks don't go together.
    """
    _check(chunks, vectors, encoder)
    whole = list(documents(chunks))
    marks = [document_digest(one) for one in whole]
    name = _name(marks, encoder)
    folder = f"segments/{name}"
    if not _stands(place, folder):
        chunks_file = write_file(place, f"{folder}/chunks.parquet", _packed(to_table(chunks, Chunk)))
        vectors_file = None
        if vectors is not None:
            vectors_file = write_file(place, f"{folder}/vectors.parquet", _packed(_vector_table(vectors), flat=True))
        entries = dict(_entry(one, mark, name) for one, mark in zip(whole, marks, strict=True))
        written = Written(Segment(name, len(chunks), chunks_file, vectors_file, encoder), entries)
        write_file(place, f"{folder}/segment.json", orjson.dumps(written, option=orjson.OPT_INDENT_2))
    return name


def standing(place: Location, chunks: Sequence[Chunk], encoder: EncoderInfo | None) -> str | None:
    """The name of the segment of these chunks and this encoder where it stands there whole, else None."""
    name = _name([document_digest(one) for one in documents(chunks)], encoder)
    return name if _stands(place, f"segments/{name}") else None


def _name(marks: Sequence[str], encoder: EncoderInfo | None) -> str:
    return digest(orjson.dumps([marks, encoder]))[:16]


def read_written(place: Location, name: str) -> Written:
    """What `segment.json` says. Raises `IndexDamaged`."""
    file = place / f"segments/{name}/segment.json"
    try:
        found = orjson.loads(read_bytes(file))
        return Written(segment(found["segment"]), {id: Entry(**one) for id, one in found["entries"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error


def read_chunks(place: Location, one: Segment) -> pa.Table:
    """Raises `IndexDamaged`, as `read_vectors` does."""
    table = _table(place, one.chunks, one.rows)
    if table.schema != arrow_schema(Chunk):
        raise IndexDamaged(place / one.chunks.name, "has other columns than a chunk has")
    return table


def read_vectors(place: Location, one: Segment) -> Vectors:
    """Shape (rows, dimensions); only of a segment that has an encoder."""
    assert one.vectors is not None and one.encoder is not None
    column = _table(place, one.vectors, one.rows)["vector"].combine_chunks()
    wanted = pa.list_(pa.float32(), one.encoder.dimensions)
    if column.type != wanted:
        raise IndexDamaged(place / one.vectors.name, f"has {column.type} for vectors instead of {wanted}")
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(one.rows, one.encoder.dimensions)
    return vectors


def live_rows(table: pa.Table, name: str, entries: Mapping[str, Entry]) -> pa.Array:
    """Which rows of a segment's chunks belong to documents that the version has from this segment."""
    here = [id for id, entry in entries.items() if entry.segment == name]
    return pc.is_in(table["document_id"], value_set=pa.array(here, pa.string())).combine_chunks()


def _entry(document: Sequence[Chunk], mark: str, segment: str) -> tuple[str, Entry]:
    first = document[0]
    return first.document_id, Entry("" if first.set_id else first.source, mark, len(document), segment)


def _check(chunks: Sequence[Chunk], vectors: Vectors | None, encoder: EncoderInfo | None) -> None:
    if not chunks:
        raise ValueError("a segment needs at least one chunk")
    if (vectors is None) != (encoder is None):
        raise ValueError("give vectors and the encoder that made them together, or neither")
    if vectors is None or encoder is None:
        return
    if vectors.shape != (len(chunks), encoder.dimensions):
        raise ValueError(f"{len(chunks)} chunks of {encoder.dimensions} dimensions have vectors of {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError(f"{encoder.name} gave vectors that are no numbers; check the model")


def _stands(place: Location, folder: str) -> bool:
    if not (place / f"{folder}/segment.json").exists():
        return False
    one = read_written(place, folder.rpartition("/")[2]).segment
    files = [file for file in (one.chunks, one.vectors) if file is not None]
    return all((place / file.name).exists() and (place / file.name).size() == file.size for file in files)


def _vector_table(vectors: Vectors) -> pa.Table:
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})


def _packed(table: pa.Table, *, flat: bool = False) -> bytes:
    """As Parquet; `flat` spares the packing that numbers without a pattern only grow by."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none" if flat else "zstd", use_dictionary=not flat)
    return bytes(sink.getvalue())


def _table(place: Location, info: FileInfo, rows: int) -> pa.Table:
    data = read_file(place, info)
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise IndexDamaged(place / info.name, f"is no Parquet file ({' '.join(str(error).split())})") from error
    if table.num_rows != rows:
        raise IndexDamaged(place / info.name, f"has {table.num_rows} rows instead of {rows}")
    return table
