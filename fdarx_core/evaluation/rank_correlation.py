"""Spearman's rank correlation with an interval by bootstrap over clusters, ranks and ties worked out in every sample.

Rows are weighted by how often their cluster is drawn, so a sample takes sums along a sorted order, not a sort.
Source: Spearman 1904 (ties share their mean rank); Efron and Tibshirani 1993, §13.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fdarx_core.evaluation.bootstrap import or_none, percentile_interval, weight_blocks
from fdarx_core.evaluation.metrics import Codes, Mask, Numbers

_CELLS = 2**17
"""Weights that are worked on at once: they stay in a processor's cache."""


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """ρ, or a difference of two, and its 95 % interval, over `rows` rows of `clusters` clusters.

    None where one side has no two different values; no interval where all rows are of one cluster.
    """

    value: float | None
    low: float | None
    high: float | None
    rows: int
    clusters: int


@dataclass(frozen=True, slots=True)
class CorrelationContrast:
    """Two measures to be compared: ρ of the first less ρ of the second, over the rows that both have."""

    first: Numbers
    second: Numbers


def spearman(
    measures: Sequence[Numbers | CorrelationContrast],
    other: Numbers,
    clusters: Sequence[str],
    *,
    seed: int,
    resamples: int,
) -> list[RankCorrelation]:
    """How each measure's ranks go with those of `other`, or how two measures differ in that; NaN rows are left out.

    All are arrays of one value a row, `clusters` names each row's. All see the same samples of clusters.
    """
    names, codes = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    columns = _Columns(other)
    asked = [columns.add(measure) for measure in measures]
    if not len(names) or not asked:
        return [RankCorrelation(None, None, None, 0, 0) for _ in asked]
    ones = columns.rhos(np.ones((1, len(codes))))[0]
    blocks = [columns.rhos(weights) for weights in _row_weights(codes.astype(np.int64), len(names), resamples, seed)]
    samples = np.concatenate(blocks)
    lows, highs = percentile_interval(np.column_stack([_value(samples, at) for at in asked]))
    return [
        _related(float(_value(ones, at)), (low, high), codes[columns.masks[at[0]]])
        for at, low, high in zip(asked, lows.tolist(), highs.tolist(), strict=True)
    ]


def _related(value: float, bounds: tuple[float, float], codes: Codes) -> RankCorrelation:
    clusters = len(np.unique(codes))
    low, high = (or_none(bound) for bound in bounds) if clusters > 1 and not np.isnan(value) else (None, None)
    return RankCorrelation(or_none(value), low, high, len(codes), clusters)


def _value(rhos: Numbers, at: tuple[int, ...]) -> Numbers:
    """The column that was asked for, or the difference of two."""
    first = rhos[..., at[0]]
    return np.asarray(first if len(at) == 1 else first - rhos[..., at[1]])


def _row_weights(cluster_of: Codes, clusters: int, resamples: int, seed: int) -> Iterator[Numbers]:
    """How often each row is drawn, shape (some, rows), a few samples at a time."""
    step = max(1, _CELLS // len(cluster_of))
    for block in weight_blocks(clusters, resamples, seed):
        for start in range(0, len(block), step):
            yield np.take(block[start : start + step], cluster_of, axis=1)


class _Columns:
    """The distinct columns that are correlated with `other`; those with the same rows share its ranks."""

    def __init__(self, other: Numbers) -> None:
        self._other = other
        self._values: list[Numbers] = []
        self.masks: list[Mask] = []
        self._known: dict[bytes, int] = {}

    def add(self, measure: Numbers | CorrelationContrast) -> tuple[int, ...]:
        """Where the columns of a measure stand."""
        if isinstance(measure, CorrelationContrast):
            here = ~np.isnan(measure.first) & ~np.isnan(measure.second)
            return self._column(measure.first, here), self._column(measure.second, here)
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
        """ρ of every column in every sample, shape (samples, columns); NaN where it has no meaning."""
        found = np.full((len(weights), len(self._values)), np.nan)
        for here, other, columns in self._ranked:
            mine = weights if here.all() else weights[:, here]
            totals = mine.sum(axis=1, keepdims=True)
            against, spread = other.centred(mine, totals)
            against *= mine
            for at, ranks in columns.items():
                deviations, width = ranks.centred(mine, totals)
                found[:, at] = _ratio(np.einsum("sr,sr->s", deviations, against), np.sqrt(width * spread))
        return found

    @cached_property
    def _ranked(self) -> list[tuple[Mask, _Ranks, dict[int, _Ranks]]]:
        """Which rows, the ranks of `other` in them, and those of each column that has these rows."""
        groups: dict[bytes, list[int]] = defaultdict(list)
        for at, here in enumerate(self.masks):
            if here.any():
                groups[here.tobytes()].append(at)
        return [
            (here, _Ranks.of(self._other[here]), {at: _Ranks.of(self._values[at][here]) for at in group})
            for group in groups.values()
            for here in (self.masks[group[0]],)
        ]


@dataclass(frozen=True, slots=True)
class _Ranks:
    """A column in its order: `starts` of each run of equal values in it, and the run that each row is in."""

    order: Codes
    starts: Codes
    run_of: Codes

    @classmethod
    def of(cls, values: Numbers) -> _Ranks:
        _, run_of, lengths = np.unique(values, return_inverse=True, return_counts=True)
        return cls(np.argsort(run_of, kind="stable"), np.cumsum(lengths) - lengths, run_of)

    def centred(self, weights: Numbers, totals: Numbers) -> tuple[Numbers, Numbers]:
        """Mean ranks less their mean, shape (samples, rows), and the sum of their squares over the rows drawn."""
        times = np.take(weights, self.order, axis=1)
        if len(self.starts) < len(self.order):
            times = np.add.reduceat(times, self.starts, axis=1)
        ranks = np.cumsum(times, axis=1)
        ranks -= (times + totals) / 2
        return np.take(ranks, self.run_of, axis=1), np.einsum("sr,sr,sr->s", times, ranks, ranks)


def _ratio(above: Numbers, below: Numbers) -> Numbers:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))
