"""Whether two cells differ on the questions that both have.

The interval resamples labels, the same ones for both cells. The p value is of a permutation test that swaps the two
cells' results label by label; one is added to both counts, so that it is never 0. Source: Phipson and Smyth 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.aggregates import Aggregate, Codes, Columns, Mask, Numbers, counted
from fdarx_core.evaluation.statistics.bootstrap import (
    RESAMPLES,
    Slice,
    label_weights,
    percentile_interval,
    sums_by_label,
    times_each,
)

FLIPS = 10_000
_TIE = 1e-12
"""Differences that lie closer together than this are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first cell's value less the second's with its 95 % interval, and the two-sided p value."""

    value: float
    low: float
    high: float
    p: float
    rows: int
    labels: int


class Measured:
    """A cell's rows, with each metric's components worked out once for all comparisons.

    Raises ValueError if a question stands twice in the table: it could not be paired.
    """

    def __init__(self, table: pa.Table) -> None:
        self.columns = Columns(table)
        self.questions = pa.array(self.columns.strings("question_id"), pa.string())
        self._counted: dict[str, tuple[Mask, Numbers]] = {}
        for one in pc.value_counts(self.questions).to_pylist():
            if one["counts"] > 1:
                raise ValueError(f"question {one['values']} stands {one['counts']} times in a cell, 1 is allowed")

    def counted(self, aggregate: Aggregate) -> tuple[Mask, Numbers]:
        """The rows that the metric rests on, and the components of all."""
        if aggregate.name not in self._counted:
            self._counted[aggregate.name] = counted(aggregate, self.columns)[1:]
        return self._counted[aggregate.name]


def compare(
    first: Measured,
    second: Measured,
    slices: Sequence[Slice],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
) -> list[Difference | None]:
    """The difference in each slice (rows of `first`), on the questions that are measured in both cells.

    None where these lie on fewer than two labels, or where the metric has no meaning on them.
    """
    shared = _Shared.of(first, second)
    if shared.labels < 2 or not slices:
        return [None] * len(slices)
    pairs = [_Pair.of(first, second, shared, one) for one in slices]
    weights = label_weights(shared.labels, resamples, seed)
    ones = times_each(weights, [pair.first for pair in pairs])
    others = times_each(weights, [pair.second for pair in pairs])
    moved = times_each(label_swaps(shared.labels, flips, seed), [pair.second - pair.first for pair in pairs])
    return [pair.difference(*drawn) for pair, *drawn in zip(pairs, ones, others, moved, strict=True)]


@lru_cache(maxsize=4)
def label_swaps(labels: int, flips: int, seed: int) -> Numbers:
    """For each permutation 1 for every label whose results are swapped, else 0; shape (flips, labels)."""
    dice = np.random.default_rng([seed, labels, flips])
    swaps = dice.integers(0, 2, (flips, labels)).astype(np.float64)
    swaps.flags.writeable = False
    return swaps


@dataclass(frozen=True, slots=True)
class _Shared:
    """The questions of both cells: their rows in each, and their labels numbered in the order of set ids."""

    first: Codes
    second: Codes
    label_of: Codes
    labels: int

    @classmethod
    def of(cls, first: Measured, second: Measured) -> _Shared:
        found = pc.fill_null(pc.index_in(first.questions, value_set=second.questions), -1).to_numpy()
        rows = np.flatnonzero(found >= 0)
        names, label_of = np.unique(first.columns.label_of[rows], return_inverse=True)
        return cls(rows, found[rows].astype(np.int64), label_of.astype(np.int64), len(names))


@dataclass(frozen=True, slots=True)
class _Pair:
    """One metric's sums by label (labels, k) in both cells, over the rows that are measured in both."""

    aggregate: Aggregate
    first: Numbers
    second: Numbers
    rows: int
    labels: int

    @classmethod
    def of(cls, first: Measured, second: Measured, shared: _Shared, one: Slice) -> _Pair:
        in_first, of_first = first.counted(one.aggregate)
        in_second, of_second = second.counted(one.aggregate)
        here = in_first[shared.first] & in_second[shared.second] & one.rows[shared.first]
        label_of = shared.label_of[here]
        sums_first = sums_by_label(of_first[shared.first[here]], label_of, shared.labels)
        sums_second = sums_by_label(of_second[shared.second[here]], label_of, shared.labels)
        return cls(one.aggregate, sums_first, sums_second, len(label_of), len(np.unique(label_of)))

    def difference(self, firsts: Numbers, seconds: Numbers, moved: Numbers) -> Difference | None:
        """From both cells' sums in samples of labels, and what swapping labels adds to the first's sums."""
        value = float(self._differ(self.first.sum(axis=0), self.second.sum(axis=0)))
        if self.labels < 2 or np.isnan(value):
            return None
        low, high = percentile_interval(self._differ(firsts, seconds)[:, None])
        return Difference(value, float(low[0]), float(high[0]), self._p(value, moved), self.rows, self.labels)

    def _p(self, value: float, moved: Numbers) -> float:
        permuted = self._differ(self.first.sum(axis=0) + moved, self.second.sum(axis=0) - moved)
        permuted = permuted[~np.isnan(permuted)]
        return float((1 + np.count_nonzero(np.abs(permuted) >= abs(value) - _TIE)) / (1 + len(permuted)))

    def _differ(self, first: Numbers, second: Numbers) -> Numbers:
        return np.asarray(self.aggregate.combine(first) - self.aggregate.combine(second))
