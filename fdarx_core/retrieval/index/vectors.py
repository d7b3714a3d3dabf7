"""Nearest-neighbor search over vectors with FAISS, exact and approximate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from typing import Any, Literal

import numpy as np

from fdarx_core.retrieval.encoders import Vectors
from fdarx_core.retrieval.index.segments import ApproximateIndex, Manifest, digest, read_file, read_rows, write_file
from fdarx_core.retrieval.lexical import Integers, Mask, RankedList
from fdarx_core.storage import Location

VectorIndexKind = Literal["exact", "hnsw", "ivf"]

NEIGHBORS = 32
"""Links of each vector in an HNSW graph (M)."""
_EF_CONSTRUCTION = 200
_VECTORS_PER_CELL = 39
"""Vectors for each IVF cell that FAISS's training asks for."""
_LEAST_EF_SEARCH = 128
_CELLS_SEARCHED = 16
"""The share of IVF cells that is searched (one in 16), and the least number of them."""
_MARGIN = 8
"""Rows that are fetched beyond k."""
_TIE_TOLERANCE = 1e-5
"""Scores of unit vectors that are this close may come in either order from FAISS."""
_DEEPEST_ON_GPU = 2048


MAX_EXACT, MAX_GRAPH = 1_000_000, 20_000_000
"""Numbers of vectors up to which search is exact, and up to which it uses a graph.

Exact search of a million vectors of 384 numbers reads 1.5 GB, about a tenth of a second on a core. A graph (HNSW) finds
as much in a thousandth of that time, but takes 300 bytes more for each vector, and hours to build beyond tens of
millions. Cells (IVF) take hardly any more space and find slightly less.
"""


def choose_kind(vectors: int, limits: tuple[int, int] = (MAX_EXACT, MAX_GRAPH)) -> VectorIndexKind:
    """Return the kind of index for a number of vectors, with `limits` in place of (MAX_EXACT, MAX_GRAPH)."""
    exact, graph = limits
    return "exact" if vectors <= exact else "hnsw" if vectors <= graph else "ivf"


def load_faiss() -> Any:
    """Return the FAISS module, None where it is not installed."""
    try:
        return import_module("faiss")
    except ImportError:
        return None


def make_faiss_index(kind: VectorIndexKind, parts: Sequence[Vectors], dimensions: int) -> Any:
    """Build a FAISS index of that kind over all vectors of the parts, in order."""
    faiss = load_faiss()
    if kind == "exact":
        index = faiss.IndexFlatIP(dimensions)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimensions, NEIGHBORS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _EF_CONSTRUCTION
    else:
        index = _trained_ivf(faiss, parts, dimensions)
    for part in parts:
        index.add(part)
    return index


def _trained_ivf(faiss: Any, parts: Sequence[Vectors], dimensions: int) -> Any:
    """Train an index of 4 √n cells, as FAISS's guidelines recommend, of 39 vectors or more on average."""
    total = sum(len(part) for part in parts)
    cells = max(1, min(int(4 * math.sqrt(total)), total // _VECTORS_PER_CELL))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, faiss.METRIC_INNER_PRODUCT)
    step = max(1, total // (cells * index.cp.max_points_per_centroid))
    index.train(np.concatenate([part[::step] for part in parts]))
    return index


def build_approximate_index(place: Location, manifest: Manifest, limits: tuple[int, int]) -> ApproximateIndex | None:
    """Build and save the approximate index of a version, which all readers of the version load.

    Returns None where the vectors are few enough for exact search, or FAISS is not installed.
    """
    kind = choose_kind(manifest.windows, limits)
    faiss = load_faiss()
    if manifest.encoder is None or kind == "exact" or faiss is None:
        return None
    parts = [rows.vectors.rows for rows in read_rows(place, manifest, vectors=True) if rows.vectors is not None]
    data = faiss.serialize_index(make_faiss_index(kind, parts, manifest.encoder.dimensions)).tobytes()
    return ApproximateIndex(kind, limits[0], write_file(place, f"approximate/{digest(data)[:16]}.faiss", data))


def load_approximate_index(place: Location, saved: ApproximateIndex) -> Any:
    """Load the FAISS index that `build_approximate_index` saved. Raises `IndexDamaged`."""
    data = read_file(place, saved.file)
    return load_faiss().deserialize_index(np.frombuffer(data, np.uint8))


class VectorIndex:
    """Searches a FAISS index of `make_faiss_index`, whose rows are windows of chunks; thread-safe.

    A chunk scores as its best window does. Every score is the inner product of two vectors, summed in double precision
    and rounded once: it depends neither on the kind of index nor on other queries. Filtered search is exact where
    `exact` rows or fewer pass the filter, and where an approximate search finds fewer rows than it should.
    """

    def __init__(self, index: Any, windows: Integers, exact: int = MAX_EXACT) -> None:
        """`windows`, of shape (chunks,), is the number of rows of each chunk; the chunks stand in order."""
        self._faiss = load_faiss()
        self._chunk_of = np.repeat(np.arange(len(windows), dtype=np.int32), windows)
        self._rows_a_chunk = math.ceil(len(self._chunk_of) / max(1, len(windows)))
        self._owner = index  # downcasting gives a view that does not keep the index alive
        self._index = self._flat = self._faiss.downcast_index(index)
        self._exact = exact
        self._is_graph = isinstance(self._index, self._faiss.IndexHNSW)
        self._is_ivf = isinstance(self._index, self._faiss.IndexIVF)
        self._gpu_index: Any = None
        self._gpu_lock = Lock()  # FAISS wants one thread at a time on a GPU
        if self._is_graph:
            self._flat = self._faiss.downcast_index(self._index.storage)
        elif self._is_ivf:
            self._index.make_direct_map()
        elif hasattr(self._faiss, "StandardGpuResources") and self._faiss.get_num_gpus():  # not tested: no GPU at hand
            self._resources = self._faiss.StandardGpuResources()
            self._gpu_index = self._faiss.index_cpu_to_gpu(self._resources, 0, self._index)
        self._rows = None if self._is_ivf else _rows_of(self._faiss, self._flat)

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """Return, for each row of `queries`, the k best of the allowed chunks, ties by position.

        The search goes deeper while fewer chunks are found, or a row that was not fetched might score as the k-th does.

        Args:
            queries: float32 of shape (queries, dimensions).
            k: how many chunks to return for each query.
            allowed: shape (chunks,); the chunks that may be returned, None for all.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        rows = None if allowed is None else allowed[self._chunk_of]
        reachable = self._index.ntotal if rows is None else int(rows.sum())
        rankings: list[RankedList] = [[] for _ in queries]
        open_queries = list(range(len(queries))) if reachable else []
        depth = (k + _MARGIN) * self._rows_a_chunk
        while open_queries:
            depth = min(depth, reachable)
            fetched = self._fetch(queries[open_queries], depth, reachable, rows)
            deeper: list[int] = []
            for one, ids in zip(open_queries, fetched, strict=True):
                rankings[one], is_complete = self._rank(queries[one], ids[ids >= 0], k)
                if not is_complete and (ids >= 0).all() and depth < reachable:
                    deeper.append(one)
            open_queries = deeper
            depth *= 4
        return rankings

    def _rank(self, query: Vectors, ids: Integers, k: int) -> tuple[RankedList, bool]:
        """Return the k best chunks of some rows, and whether no row that scores less than all of these changes them."""
        ids = np.sort(ids)
        vectors = self._index.reconstruct_batch(ids) if self._rows is None else self._rows[ids]
        scores = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        order = np.argsort(-scores, kind="stable")
        chunks, firsts = np.unique(self._chunk_of[ids[order]], return_index=True)
        best = np.argsort(firsts)[:k]
        found = scores[order[firsts[best]]]
        ranked = list(zip(chunks[best].tolist(), found.tolist(), strict=True))
        if len(ranked) < k:
            return ranked, False
        return ranked, bool(found[-1] - scores[order[-1]] > _TIE_TOLERANCE * max(1.0, abs(found[-1])))

    def _fetch(self, queries: Vectors, depth: int, reachable: int, allowed: Mask | None) -> Integers:
        """Return row numbers, shape (queries, depth), -1 where there are no more."""
        if reachable > self._exact and (self._is_graph or self._is_ivf):
            rows = self._fetch_approximate(queries, depth, reachable, allowed)
            if (rows >= 0).all():
                return rows
        return self._fetch_exact(queries, depth, allowed)

    def _fetch_exact(self, queries: Vectors, depth: int, allowed: Mask | None) -> Integers:
        if self._gpu_index is not None and allowed is None and depth <= _DEEPEST_ON_GPU:
            with self._gpu_lock:
                return _row_numbers(self._gpu_index.search(queries, depth))
        selector = self._selector(allowed)
        if self._is_ivf:
            parameters = self._faiss.SearchParametersIVF(nprobe=self._index.nlist, **selector)
            return _row_numbers(self._index.search(queries, depth, params=parameters))
        parameters = self._faiss.SearchParameters(**selector) if selector else None
        return _row_numbers(self._flat.search(queries, depth, params=parameters))

    def _fetch_approximate(self, queries: Vectors, depth: int, reachable: int, allowed: Mask | None) -> Integers:
        selector = self._selector(allowed)
        if self._is_ivf:
            probes = max(_CELLS_SEARCHED, self._index.nlist // _CELLS_SEARCHED)
            parameters = self._faiss.SearchParametersIVF(nprobe=probes, **selector)
        else:
            # rows that do not pass the filter count towards efSearch too
            ef_search = max(_LEAST_EF_SEARCH, 2 * depth) * self._index.ntotal // reachable
            parameters = self._faiss.SearchParametersHNSW(efSearch=ef_search, **selector)
        return _row_numbers(self._index.search(queries, depth, params=parameters))

    def _selector(self, allowed: Mask | None) -> dict[str, Any]:
        return {} if allowed is None else {"sel": self._faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))}


def _row_numbers(found: tuple[Any, Integers]) -> Integers:
    return found[1]


def _rows_of(faiss: Any, flat: Any) -> Vectors:
    """Return the vectors of a flat index, without copying them."""
    rows: Vectors = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(-1, flat.d)
    return rows
