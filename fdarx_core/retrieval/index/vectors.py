"""Nearest-neighbor search over vectors with FAISS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from fdarx_core.retrieval.encoders import Vectors, WindowVectors
from fdarx_core.retrieval.lexical import Integers, Mask, RankedList

_MARGIN = 8
"""Rows that are fetched beyond k."""
_TIE_TOLERANCE = 1e-5
"""Scores of unit vectors that are this close may come in either order from FAISS."""
_DEEPEST_ON_GPU = 2048
"""The most rows that FAISS finds on a GPU."""


def load_faiss() -> Any:
    """Return the FAISS module, None where it is not installed."""
    try:
        return import_module("faiss")
    except ImportError:
        return None


class VectorIndex:
    """Searches vectors, which are of windows of chunks, exactly; thread-safe.

    A chunk scores as its best window does. Every score is the inner product of two vectors, summed in double precision
    and rounded once, so that it does not depend on other queries.
    """

    def __init__(self, parts: Sequence[WindowVectors], dimensions: int) -> None:
        """`parts` are the vectors of all chunks, in order."""
        self._faiss = load_faiss()
        windows = np.concatenate([part.counts for part in parts])
        self._chunk_of = np.repeat(np.arange(len(windows), dtype=np.int32), windows)
        self._rows_a_chunk = math.ceil(len(self._chunk_of) / max(1, len(windows)))
        self._index = self._faiss.IndexFlatIP(dimensions)
        for part in parts:
            self._index.add(part.rows)
        self._gpu_index: Any = None
        self._gpu_lock = Lock()  # FAISS wants one thread at a time on a GPU
        if hasattr(self._faiss, "StandardGpuResources") and self._faiss.get_num_gpus():  # faiss-gpu
            self._resources = self._faiss.StandardGpuResources()
            self._gpu_index = self._faiss.index_cpu_to_gpu(self._resources, 0, self._index)
        rows = self._faiss.rev_swig_ptr(self._index.get_xb(), self._index.ntotal * dimensions)  # without a copy
        self._rows: Vectors = rows.reshape(-1, dimensions)

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
        parameters = None
        if rows is not None:
            selector = self._faiss.IDSelectorBitmap(np.packbits(rows, bitorder="little"))
            parameters = self._faiss.SearchParameters(sel=selector)
        rankings: list[RankedList] = [[] for _ in queries]
        open_queries = list(range(len(queries))) if reachable else []
        depth = (k + _MARGIN) * self._rows_a_chunk
        while open_queries:
            depth = min(depth, reachable)
            if self._gpu_index is not None and parameters is None and depth <= _DEEPEST_ON_GPU:
                with self._gpu_lock:
                    _, fetched = self._gpu_index.search(queries[open_queries], depth)
            else:
                _, fetched = self._index.search(queries[open_queries], depth, params=parameters)
            deeper: list[int] = []
            for query, ids in zip(open_queries, fetched, strict=True):
                rankings[query], is_complete = self._rank(queries[query], ids[ids >= 0], k)
                if not is_complete and (ids >= 0).all() and depth < reachable:
                    deeper.append(query)
            open_queries = deeper
            depth *= 4
        return rankings

    def _rank(self, query: Vectors, ids: Integers, k: int) -> tuple[RankedList, bool]:
        """Return the k best chunks of some rows, and whether no row that scores less than all of these changes them."""
        ids = np.sort(ids)
        scores = (self._rows[ids].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        order = np.argsort(-scores, kind="stable")
        chunks, firsts = np.unique(self._chunk_of[ids[order]], return_index=True)
        best = np.argsort(firsts)[:k]
        found = scores[order[firsts[best]]]
        ranked = list(zip(chunks[best].tolist(), found.tolist(), strict=True))
        if len(ranked) < k:
            return ranked, False
        return ranked, bool(found[-1] - scores[order[-1]] > _TIE_TOLERANCE * max(1.0, abs(found[-1])))
