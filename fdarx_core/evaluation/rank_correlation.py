"""Spearman's rank correlation with an interval by bootstrap over clusters; every sample has its own ranks and ties.

Rows are weighted by how often their cluster is drawn, so a sample needs sums along a sorted order instead of a sort.
Source: Spearman 1904 (ties share their mean rank); Efron and Tibshirani 1993, §13.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from fdarx_core.evaluation.bootstrap import or_none, percentile_interval, weight_blocks
from fdarx_core.evaluation.metrics import Codes, Mask, Numbers, divide
from fdarx_core.records import Estimate

_CELLS = 2**17
"""Weights that are processed together, so that they stay in the cache of a processor."""


Contrast = tuple[Numbers, Numbers]
"""Two measures to compare: ρ of the first minus ρ of the second, over the rows that have both."""


def spearman(
    measures: Sequence[Numbers | Contrast], other: Numbers, clusters: Sequence[str], *, seed: int, resamples: int
) -> list[Estimate]:
    """Return ρ of each measure with `other`, or the difference of two measures in ρ; NaN rows are left out.

    All arrays have one value for each row; `clusters` names the cluster of each row. All use the same samples of
    clusters. An estimate is None where one side has no two different values, and has no interval where all rows are in
    one cluster.
    """
    names, codes = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    columns = _Columns(other)
    asked = [columns.add(measure) for measure in measures]
    if not len(names) or not asked:
        return [Estimate(None) for _ in asked]
    ones = columns.rhos(np.ones((1, len(codes))))[0]
    blocks = [columns.rhos(weights) for weights in _row_weights(codes.astype(np.int64), len(names), resamples, seed)]
    samples = np.concatenate(blocks)
    lows, highs = percentile_interval(np.column_stack([_value(samples, at) for at in asked]))
    return [
        _related(float(_value(ones, at)), (low, high), codes[columns.masks[at[0]]])
        for at, low, high in zip(asked, lows.tolist(), highs.tolist(), strict=True)
    ]


def _related(value: float, bounds: tuple[float, float], codes: Codes) -> Estimate:
    clusters = len(np.unique(codes))
    low, high = (or_none(bound) for bound in bounds) if clusters > 1 and not np.isnan(value) else (None, None)
    return Estimate(or_none(value), low, high, len(codes), clusters)


def _value(rhos: Numbers, at: tuple[int, ...]) -> Numbers:
    """Return one column, or the difference of two."""
    first = rhos[..., at[0]]
    return np.asarray(first if len(at) == 1 else first - rhos[..., at[1]])


def _row_weights(cluster_of: Codes, clusters: int, resamples: int, seed: int) -> Iterator[Numbers]:
    """Yield how often each row is drawn, shape (some, rows), a few samples at a time."""
    step = max(1, _CELLS // len(cluster_of))
    for block in weight_blocks(clusters, resamples, seed):
        for start in range(0, len(block), step):
            yield np.take(block[start : start + step], cluster_of, axis=1)


class _Columns:
    """The distinct columns to correlate with `other`; columns with the same rows share the ranks of `other`."""

    def __init__(self, other: Numbers) -> None:
        self._other = other
        self._values: list[Numbers] = []
        self.masks: list[Mask] = []
        self._known: dict[bytes, int] = {}

    def add(self, measure: Numbers | Contrast) -> tuple[int, ...]:
        """Return the positions of the columns of a measure."""
        if isinstance(measure, tuple):
            here = ~np.isnan(measure[0]) & ~np.isnan(measure[1])
            return self._column(measure[0], here), self._column(measure[1], here)
        return (self._column(measure, ~np.isnan(measure)),)

    def _column(self, values: Numbers, here: Mask) -> int:
        here = here & ~np.isnan(self._other)
        kept = np.where(here, values, np.nan)
        key = kept.tobytes()
        if key not in self._known:
            self._known[key] = len(self._values)
            self._values.append(kept)
            self.masks.append(here)
        return self._known[key]

    def rhos(self, weights: Numbers) -> Numbers:
        """Return ρ of every column in every sample, shape (samples, columns); NaN where it has no meaning."""
        found = np.full((len(weights), len(self._values)), np.nan)
        for here, other, columns in self._ranked:
            mine = weights if here.all() else weights[:, here]
            totals = mine.sum(axis=1, keepdims=True)
            against, spread = _centred(other, mine, totals)
            against *= mine
            for at, ranks in columns.items():
                deviations, width = _centred(ranks, mine, totals)
                found[:, at] = divide(np.einsum("sr,sr->s", deviations, against), np.sqrt(width * spread))
        return found

    @cached_property
    def _ranked(self) -> list[tuple[Mask, _Ranks, dict[int, _Ranks]]]:
        """Each set of rows with the ranks of `other` in them, and the ranks of each column that has these rows."""
        groups: dict[bytes, list[int]] = defaultdict(list)
        for at, here in enumerate(self.masks):
            if here.any():
                groups[here.tobytes()].append(at)
        return [
            (here, _ranks(self._other[here]), {at: _ranks(self._values[at][here]) for at in group})
            for group in groups.values()
            for here in (self.masks[group[0]],)
        ]


_Ranks = tuple[Codes, Codes, Codes]
"""The rows of a column in sorted order, the starts of its runs of equal values, and the run of each row."""


def _ranks(values: Numbers) -> _Ranks:
    _, run_of, lengths = np.unique(values, return_inverse=True, return_counts=True)
    return np.argsort(run_of, kind="stable"), np.cumsum(lengths) - lengths, run_of


def _centred(ranks: _Ranks, weights: Numbers, totals: Numbers) -> tuple[Numbers, Numbers]:
    """Return mean ranks minus their mean, shape (samples, rows), and the sum of their squares over drawn rows."""
    order, starts, run_of = ranks
    times = np.take(weights, order, axis=1)
    if len(starts) < len(order):
        times = np.add.reduceat(times, starts, axis=1)
    centred = np.cumsum(times, axis=1)
    centred -= (times + totals) / 2
    return np.take(centred, run_of, axis=1), np.einsum("sr,sr,sr->s", times, centred, centred)
