"""The rows of a version, segment by segment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.index.errors import IndexDamaged
from fdarx_core.retrieval.index.manifest import Manifest
from fdarx_core.retrieval.index.segments import live_rows, read_chunks, read_vectors
from fdarx_core.storage import Location


def read_rows(place: Location, manifest: Manifest, *, vectors: bool) -> Iterator[tuple[pa.Table, Vectors | None]]:
    """Each segment's chunks that count, and their vectors where asked for. Raises `IndexDamaged`."""
    for segment in manifest.segments:
        chunks = read_chunks(place, segment)
        alive = live_rows(chunks, segment.name, manifest.entries)
        wanted = sum(entry.chunks for entry in manifest.entries.values() if entry.segment == segment.name)
        if pc.sum(alive).as_py() != wanted:
            raise IndexDamaged(place / segment.chunks.name, f"holds other documents than version {manifest.version}")
        read = read_vectors(place, segment) if vectors else None
        if wanted < segment.rows:
            chunks = chunks.filter(alive)
            read = None if read is None else read[alive.to_numpy(zero_copy_only=False)]
        yield chunks, None if read is None else np.ascontiguousarray(read)
