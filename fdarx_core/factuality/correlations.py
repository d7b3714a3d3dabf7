"""How each metric's ranking of answers goes with gold factuality, the ablations of FAS and its threshold.

Intervals are by bootstrap over clusters within each group of answers. Source: FAS §5.3, §5.5, Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fdarx_core.evaluation.aggregates import Mask, Numbers
from fdarx_core.evaluation.statistics import Contrast, Related, spearman
from fdarx_core.factuality.differences import FactualityDifference
from fdarx_core.factuality.figures import RESAMPLES
from fdarx_core.factuality.measures import cluster_of
from fdarx_core.factuality.rereading import FULL, Rereading, column_of, configurations
from fdarx_core.factuality.rows import ALL, FactualityRows
from fdarx_core.records import Correlation

GOLDS = ("gold", "gold_claims")
RELATED = ("fas", "support", "contra", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4")
"""The fields whose ranks are held against gold factuality."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Source: FAS Table 5."""
SPEARMAN = "spearman"
"""The metric of differences between correlations."""


def correlations(
    rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES
) -> tuple[list[Correlation], list[FactualityDifference]]:
    """Of every metric by dataset, question type and model; of FAS also for each configuration and threshold.

    Configurations and thresholds are for all answers and by dataset, with their differences from the whole at the run's
    own threshold, and those of FAS from other metrics, on the answers that both can score. Groups without gold are left
    out.
    """
    metrics = _metrics(rows)
    variants = _variants(rows)
    changes = [*_against(metrics), *_changes(rows, variants)]
    found: list[Correlation] = []
    changed: list[FactualityDifference] = []
    for gold in GOLDS:
        for group in _groups(rows, gold):
            asked = ([*metrics, *variants[1:]], changes) if group.whole else (metrics, [])
            more, less = group.related(*asked, seed, resamples)
            found, changed = found + more, changed + less
    return found, changed


@dataclass(frozen=True, slots=True)
class _Measure:
    """A metric of all answers, as a configuration and a threshold give it."""

    metric: str
    configuration: str
    threshold: float
    values: Numbers

    @property
    def variant(self) -> tuple[str, float]:
        return self.configuration, self.threshold


@dataclass(frozen=True, slots=True)
class _Change:
    """A measure less another, which differ in `varied`, and what they are called there."""

    varied: str
    of: str
    against: str
    first: _Measure
    second: _Measure


def _metrics(rows: FactualityRows) -> list[_Measure]:
    """FAS first."""
    names = {field: name for name, field in rows.fields.items()}
    return [_Measure(names[field], FULL, rows.threshold, column_of(rows, field)) for field in RELATED]


def _variants(rows: FactualityRows) -> list[_Measure]:
    """FAS of the whole at the run's threshold first, then of other configurations, then at other thresholds."""
    readings = {one.name: Rereading(rows, one) for one in configurations(rows)}
    wanted = [(name, rows.threshold) for name in readings]
    wanted += [(FULL, threshold) for threshold in THRESHOLDS if not np.isclose(threshold, rows.threshold)]
    return [_Measure("fas", name, threshold, readings[name].fas(threshold)) for name, threshold in wanted]


def _against(metrics: Sequence[_Measure]) -> list[_Change]:
    """FAS less every other metric that should rise with gold."""
    fas, *others = metrics
    return [
        _Change("metric", fas.metric, one.metric, fas, one) for one in others if not one.metric.startswith("contra")
    ]


def _changes(rows: FactualityRows, variants: Sequence[_Measure]) -> list[_Change]:
    whole, *others = variants
    return [
        _Change("configuration", one.configuration, FULL, one, whole)
        if one.configuration != FULL
        else _Change("threshold", f"{one.threshold:g}", f"{rows.threshold:g}", one, whole)
        for one in others
    ]


def _groups(rows: FactualityRows, gold: str) -> Iterator[_Group]:
    """All answers, then those of each dataset, question type and model, where there is gold."""
    values = column_of(rows, gold)
    has_gold = ~np.isnan(values)
    named = {name: np.array([getattr(score, name) for score in rows.scores]) for name in ("dataset", "type", "model")}
    clusters = np.array([cluster_of(score) for score in rows.scores])
    by = [{}, *({name: str(value)} for name, column in named.items() for value in np.unique(column[has_gold]) if value)]
    for names in by:
        here = has_gold.copy()
        for name, value in names.items():
            here &= named[name] == value
        if here.any():
            yield _Group(
                gold, names.get("dataset", ALL), names.get("type", ALL), names.get("model", ALL), here, values[here],
                clusters[here].tolist(), whole=set(names) <= {"dataset"},
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Group:
    gold: str
    dataset: str
    type: str
    model: str
    here: Mask
    values: Numbers
    clusters: Sequence[str]
    whole: bool

    def related(
        self, measures: Sequence[_Measure], changes: Sequence[_Change], seed: int, resamples: int
    ) -> tuple[list[Correlation], list[FactualityDifference]]:
        """What can be said of each measure and each change, all by the same samples."""
        columns = [one.values[self.here] for one in measures]
        contrasts = [Contrast(one.first.values[self.here], one.second.values[self.here]) for one in changes]
        found = spearman([*columns, *contrasts], self.values, self.clusters, seed=seed, resamples=resamples)
        told = list(zip(changes, found[len(columns) :], strict=True))
        deltas = {one.first.variant: change.value for one, change in told if one.varied != "metric"}
        return (
            [self._correlation(one, related, deltas.get(one.variant))
             for one, related in zip(measures, found, strict=False) if related.rows],
            [self._difference(one, change) for one, change in told if change.value is not None],
        )  # fmt: skip

    def _correlation(self, one: _Measure, related: Related, delta: float | None) -> Correlation:
        return Correlation(
            one.metric, self.gold, one.configuration, one.threshold, self.dataset, self.type, self.model,
            related.value, related.low, related.high, delta, related.rows, related.clusters,
        )  # fmt: skip

    def _difference(self, one: _Change, change: Related) -> FactualityDifference:
        return FactualityDifference(
            SPEARMAN, one.varied, one.of, one.against, self.model, "", self.dataset, self.type, self.gold,
            change.value or 0.0, change.low, change.high, change.rows, change.clusters,
        )  # fmt: skip
