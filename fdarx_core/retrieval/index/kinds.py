"""Which kind of FAISS index suits so many vectors, and making it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from fdarx_core.retrieval.collection import Vectors

Kind = Literal["exact", "hnsw", "ivf"]

NEIGHBOURS = 32
"""Links of a vector in the graph (M)."""
_BUILD_BREADTH = 200
_PER_CELL = 39
"""Vectors a cell that FAISS's training asks for."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of vectors up to which search is exact, and by a graph.

    Exact search of a million vectors of 384 numbers reads 1.5 GB, a tenth of a second or so on a core. A graph (HNSW)
    finds as well in a thousandth of it, but takes 300 bytes a vector more and hours to build beyond tens of millions;
    cells (IVF) take next to nothing more and find a little less.
    """

    exact: int = 1_000_000
    graph: int = 20_000_000


LIMITS = Limits()


def kind_of(vectors: int, limits: Limits = LIMITS) -> Kind:
    """How so many vectors are searched."""
    if vectors <= limits.exact:
        return "exact"
    return "hnsw" if vectors <= limits.graph else "ivf"


def load_faiss() -> Any:
    """The module, or None where its extra is not installed."""
    try:
        return import_module("faiss")
    except ImportError:
        return None


def make(kind: Kind, parts: Sequence[Vectors], dimensions: int) -> Any:
    """A FAISS index of that kind over all rows of the parts, in order."""
    faiss = load_faiss()
    if kind == "exact":
        index = faiss.IndexFlatIP(dimensions)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimensions, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_BREADTH
    else:
        index = _trained_cells(faiss, parts, dimensions)
    for part in parts:
        index.add(part)
    return index


def _trained_cells(faiss: Any, parts: Sequence[Vectors], dimensions: int) -> Any:
    """4 √n cells, as FAISS's guidelines have it, none of fewer than 39 vectors on average."""
    total = sum(len(part) for part in parts)
    cells = max(1, min(int(4 * math.sqrt(total)), total // _PER_CELL))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, faiss.METRIC_INNER_PRODUCT)
    step = max(1, total // (cells * index.cp.max_points_per_centroid))
    index.train(np.concatenate([part[::step] for part in parts]))
    return index
