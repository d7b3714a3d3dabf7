"""The approximate index of a version: made once, when the version is written, and read by all who open it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fdarx_core.retrieval.index.files import read_file, write_file
from fdarx_core.retrieval.index.kinds import Limits, kind_of, load_faiss, make
from fdarx_core.retrieval.index.manifest import Approximate, Manifest, digest
from fdarx_core.retrieval.index.rows import read_rows
from fdarx_core.storage import Location


def build(place: Location, manifest: Manifest, limits: Limits) -> Approximate | None:
    """Makes and saves it; None where the vectors are few enough for exact search, or FAISS is not installed."""
    kind = kind_of(manifest.chunks, limits)
    faiss = load_faiss()
    if manifest.encoder is None or kind == "exact" or faiss is None:
        return None
    parts = [part for _, part in read_rows(place, manifest, vectors=True) if part is not None]
    data = faiss.serialize_index(make(kind, parts, manifest.encoder.dimensions)).tobytes()
    return Approximate(kind, limits.exact, write_file(place, f"approximate/{digest(data)[:16]}.faiss", data))


def load(place: Location, made: Approximate) -> Any:
    """Raises `IndexDamaged`."""
    data = read_file(place, made.file)
    return load_faiss().deserialize_index(np.frombuffer(data, np.uint8))
