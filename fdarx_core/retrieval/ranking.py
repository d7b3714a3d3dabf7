"""From scores to rankings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Ranked = list[tuple[int, float]]
"""Positions in the collection with their scores, best first; among equal scores the lowest position first."""

Integers = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]

_CELLS = 1 << 18
"""Scores held at a time, questions by passages: 2 MiB, about what a core's cache takes."""
_SORTED_WHOLE = 1024
"""Passages from which finding the k best before sorting them is faster than sorting all."""


def batches(questions: int, passages: int) -> Iterator[slice]:
    """All questions, so many at a time that their scores for all passages fit in a core's cache."""
    step = max(1, _CELLS // max(1, passages))
    return (slice(start, start + step) for start in range(0, questions, step))


def best(scores: Scores, k: int) -> list[Ranked]:
    """The k highest of each row of scores (questions, passages); all where there are fewer."""
    order = _order(-scores, min(k, scores.shape[1]))
    kept = np.take_along_axis(scores, order, axis=1)
    return [list(zip(*row, strict=True)) for row in zip(order.tolist(), kept.tolist(), strict=True)]


def _order(keys: Scores, k: int) -> Integers:
    """The positions of the k smallest of each row, ascending, ties by position."""
    if k == 0 or keys.shape[1] < _SORTED_WHOLE:
        return np.argsort(keys, axis=1, kind="stable")[:, :k]
    limits = np.partition(keys, k - 1, axis=1)[:, k - 1]
    rows = [np.flatnonzero(row <= limit) for row, limit in zip(keys, limits, strict=True)]
    chosen = [among[np.argsort(row[among], kind="stable")][:k] for row, among in zip(keys, rows, strict=True)]
    return np.array(chosen, dtype=np.int64).reshape(-1, k)
