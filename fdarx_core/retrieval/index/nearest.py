"""The nearest vectors by inner product."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.index.kinds import LIMITS, load_faiss
from fdarx_core.retrieval.ranking import Integers, Ranked

Mask = npt.NDArray[np.bool_]

_BREADTH = 128
"""Of a walk through the graph (efSearch), at least."""
_CELLS_SEARCHED = 16
"""One cell in so many, and at least so many, are looked through."""
_MARGIN = 8
_CLOSE = 1e-5
"""Scores of unit vectors that are this near to each other may come in either order from FAISS."""
_GPU_DEEPEST = 2048


class VectorIndex:
    """A FAISS index of `make`, asked; thread-safe.

    Every score is the inner product of the two vectors, summed in double precision and rounded once: it depends on
    neither the kind of index nor the questions asked along. Filtered search is exact wherever `exact` rows or fewer
    pass the filter, or an approximate search finds fewer than it should.
    """

    def __init__(self, index: Any, exact: int = LIMITS.exact) -> None:
        self._faiss = load_faiss()
        self._owner = index  # what downcasting gives is a view that keeps nothing alive
        self._index = self._flat = self._faiss.downcast_index(index)
        self._exact = exact
        self._graph = isinstance(self._index, self._faiss.IndexHNSW)
        self._cells = isinstance(self._index, self._faiss.IndexIVF)
        self._gpu: _OnGpu | None = None
        if self._graph:
            self._flat = self._faiss.downcast_index(self._index.storage)
        elif self._cells:
            self._index.make_direct_map()
        elif hasattr(self._faiss, "StandardGpuResources") and self._faiss.get_num_gpus():
            self._gpu = _OnGpu(self._faiss, self._index)
        self._rows = None if self._cells else _view(self._faiss, self._flat)

    def top(self, asked: Vectors, k: int, allowed: Mask | None = None) -> list[Ranked]:
        """For each question (row of `asked`) the k best of the allowed rows; ties by position."""
        asked = np.ascontiguousarray(asked, np.float32)
        reach = self._index.ntotal if allowed is None else int(allowed.sum())
        found: list[Ranked] = [[] for _ in asked]
        waiting = list(range(len(asked))) if reach else []
        depth = k + _MARGIN
        while waiting:
            depth = min(depth, reach)
            rows = self._search(asked[waiting], depth, reach, allowed)
            ranked = [self._ranked(asked[one], ids) for one, ids in zip(waiting, rows, strict=True)]
            for one, ranking in zip(waiting, ranked, strict=True):
                found[one] = ranking[:k]
            waiting = [
                one for one, it in zip(waiting, ranked, strict=True) if len(it) == depth < reach and _open_tie(it, k)
            ]
            depth *= 4
        return found

    def _ranked(self, question: Vectors, ids: Integers) -> Ranked:
        ids = np.sort(ids[ids >= 0])
        scores = (self._vectors(ids).astype(np.float64) @ question.astype(np.float64)).astype(np.float32)
        order = np.argsort(-scores, kind="stable")
        return list(zip(ids[order].tolist(), scores[order].tolist(), strict=True))

    def _vectors(self, ids: Integers) -> Vectors:
        rows: Vectors = self._index.reconstruct_batch(ids) if self._rows is None else self._rows[ids]
        return rows

    def _search(self, asked: Vectors, depth: int, reach: int, allowed: Mask | None) -> Integers:
        """Rows, shape (questions, depth), -1 where there are no more."""
        if reach > self._exact and (self._graph or self._cells):
            rows = self._approximately(asked, depth, reach, allowed)
            if (rows >= 0).all():
                return rows
        return self._exactly(asked, depth, allowed)

    def _exactly(self, asked: Vectors, depth: int, allowed: Mask | None) -> Integers:
        if self._gpu is not None and allowed is None and depth <= _GPU_DEEPEST:
            return self._gpu(asked, depth)
        wanted = {} if allowed is None else {"sel": self._selector(allowed)}
        if self._cells:
            parameters = self._faiss.SearchParametersIVF(nprobe=self._index.nlist, **wanted)
            return _ids(self._index.search(asked, depth, params=parameters))
        parameters = self._faiss.SearchParameters(**wanted) if wanted else None
        return _ids(self._flat.search(asked, depth, params=parameters))

    def _approximately(self, asked: Vectors, depth: int, reach: int, allowed: Mask | None) -> Integers:
        wanted = {} if allowed is None else {"sel": self._selector(allowed)}
        if self._cells:
            probes = max(_CELLS_SEARCHED, self._index.nlist // _CELLS_SEARCHED)
            parameters = self._faiss.SearchParametersIVF(nprobe=probes, **wanted)
        else:
            # rows that don't pass take up the breadth of a walk through the graph too
            breadth = max(_BREADTH, 2 * depth) * self._index.ntotal // reach
            parameters = self._faiss.SearchParametersHNSW(efSearch=breadth, **wanted)
        return _ids(self._index.search(asked, depth, params=parameters))

    def _selector(self, allowed: Mask) -> Any:
        return self._faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))


def _open_tie(ranked: Ranked, k: int) -> bool:
    """Whether a row that was not found might score as the k-th does."""
    last, kth = ranked[-1][1], ranked[min(k, len(ranked)) - 1][1]
    return kth - last <= _CLOSE * max(1.0, abs(kth))


def _ids(found: tuple[Any, Integers]) -> Integers:
    return found[1]


def _view(faiss: Any, flat: Any) -> Vectors:
    """The rows that the index holds, not copied."""
    rows: Vectors = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(-1, flat.d)
    return rows


class _OnGpu:
    """An exact index copied to the first GPU, and searched by one thread at a time, as FAISS wants it.

    Not tested: no GPU was at hand.
    """

    def __init__(self, faiss: Any, index: Any) -> None:
        self._lock = Lock()
        self._resources = faiss.StandardGpuResources()
        self._index = faiss.index_cpu_to_gpu(self._resources, 0, index)

    def __call__(self, asked: Vectors, depth: int) -> Integers:
        with self._lock:
            return _ids(self._index.search(asked, depth))
