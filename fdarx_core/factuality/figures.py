"""Means of a run's metrics with intervals, and paired differences between models and between question types.

Intervals are by bootstrap over clusters within each dataset, so that a dataset's figures are the same whatever is
scored beside it. Source: FAS §4 (10,000 draws; a difference is significant where its interval leaves out 0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from fdarx_core.evaluation.aggregates import Aggregate, Mask
from fdarx_core.evaluation.statistics import Estimate, Slice, contrast, estimate
from fdarx_core.factuality.differences import FactualityDifference
from fdarx_core.factuality.measures import columns_of, mean_of, measures
from fdarx_core.factuality.rows import ALL, FactualityRows
from fdarx_core.records import FactualityFigure, FactualityScore

RESAMPLES = 10_000
"""Source: FAS §4."""
COMPARED = ("support", "contra", "unsupported", "fas", "similarity", "rouge_l", "bleu_4", "gold")
"""The fields that models and question types are compared by."""
Key = tuple[str, str]
"""Model and setting."""


def figures(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> list[FactualityFigure]:
    """Every metric of each model and setting, on each dataset and on all, by question type and over all types.

    A metric that none of the answers has or lacks is left out.
    """
    return [
        FactualityFigure(*part.key, part.dataset, part.type, metric, one.value, one.low, one.high, one.rows,
                         one.labels, one.unscored)
        for answers in _answers(rows)
        for part, metric, one in answers.figures(seed, resamples)
        if one.rows or one.unscored
    ]  # fmt: skip


def differences(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> list[FactualityDifference]:
    """Models against each other in the same setting on the questions of both, and question types of one model.

    Source: FAS §5.1, §5.3.
    """
    return [one for answers in _answers(rows) for one in answers.differences(seed, resamples)]


def overall(rows: FactualityRows) -> dict[str, float | None]:
    """Each metric's mean over all answers that have it, None where none has."""
    found: dict[str, float | None] = {}
    for metric, of in measures(rows).items():
        values = [value for value in map(of, rows.scores) if value is not None]
        found[metric] = fmean(values) if values else None
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    key: Key
    dataset: str
    type: str
    here: Mask


def _answers(rows: FactualityRows) -> Iterator[_Answers]:
    """The answers of all datasets together, then of each that has a name."""
    by_dataset: dict[str, list[FactualityScore]] = defaultdict(list)
    for score in rows.scores:
        by_dataset[score.dataset].append(score)
    if rows.scores:
        yield _Answers(rows, ALL, rows.scores)
    for name in sorted(filter(None, by_dataset)):
        yield _Answers(rows, name, by_dataset[name])


class _Answers:
    """The answers on a dataset as the statistics read rows: a cluster stands where a label's set id does."""

    def __init__(self, rows: FactualityRows, dataset: str, scores: Sequence[FactualityScore]) -> None:
        self._dataset = dataset
        self._fields = rows.fields
        measured = measures(rows)
        self._aggregates = {metric: mean_of(metric) for metric in measured}
        self._columns = columns_of(rows, scores, measured)
        self._models, self._settings = self._columns.strings("model"), self._columns.strings("setting")
        self._types = self._columns.strings("type")

    def figures(self, seed: int, resamples: int) -> list[tuple[_Part, str, Estimate]]:
        wanted = [(part, metric) for part in self._parts() for metric in self._aggregates]
        slices = [Slice(self._aggregates[metric], part.here) for part, metric in wanted]
        estimates = estimate(self._columns, slices, seed=seed, resamples=resamples)
        return [(*one, found) for one, found in zip(wanted, estimates, strict=True)]

    def differences(self, seed: int, resamples: int) -> list[FactualityDifference]:
        wanted = [*self._of_models(), *self._of_types()]
        pairs = [(Slice(aggregate, one.here), Slice(aggregate, other.here)) for aggregate, _, one, other in wanted]
        return [
            _difference(aggregate.name, varied, one, other, found)
            for (aggregate, varied, one, other), found in zip(
                wanted, contrast(self._columns, pairs, seed=seed, resamples=resamples), strict=True
            )
            if found.value is not None
        ]

    def _parts(self) -> list[_Part]:
        return [
            _Part(key, self._dataset, name, here & among)
            for key, here in self._keys()
            for name, among in ((ALL, np.ones_like(here)), *((name, self._types == name) for name in self._names(here)))
        ]

    def _keys(self) -> list[tuple[Key, Mask]]:
        """Each model and setting, and its rows."""
        return [
            ((model, setting), (self._models == model) & (self._settings == setting))
            for model, setting in sorted(set(zip(self._models.tolist(), self._settings.tolist(), strict=True)))
        ]

    def _names(self, here: Mask) -> list[str]:
        return [str(name) for name in np.unique(self._types[here]) if name]

    def _compared(self) -> list[Aggregate]:
        return [self._aggregates[metric] for metric, field in self._fields.items() if field in COMPARED]

    def _of_models(self) -> Iterator[tuple[Aggregate, str, _Part, _Part]]:
        for (key, here), (other, there) in combinations(self._keys(), 2):
            if key[1] != other[1]:
                continue
            for aggregate in self._compared():
                both = self._shared(aggregate, here, there)
                if both.any():
                    first, second = (
                        _Part(key, self._dataset, ALL, here & both),
                        _Part(other, self._dataset, ALL, there & both),
                    )
                    yield aggregate, "model", first, second

    def _shared(self, aggregate: Aggregate, here: Mask, there: Mask) -> Mask:
        """The rows whose question is measured on both sides."""
        told = ~np.isnan(self._columns.number(aggregate.name))
        questions = self._columns.strings("question_id")
        common = np.intersect1d(questions[here & told], questions[there & told])
        return np.asarray(told & np.isin(questions, common))

    def _of_types(self) -> Iterator[tuple[Aggregate, str, _Part, _Part]]:
        for key, here in self._keys():
            for first, second in combinations(self._names(here), 2):
                parts = [_Part(key, self._dataset, name, here & (self._types == name)) for name in (first, second)]
                for aggregate in self._compared():
                    yield aggregate, "type", parts[0], parts[1]


def _difference(metric: str, varied: str, one: _Part, other: _Part, found: Estimate) -> FactualityDifference:
    of, against = (one.key[0], other.key[0]) if varied == "model" else (one.type, other.type)
    model, type_ = ("", one.type) if varied == "model" else (one.key[0], "")
    return FactualityDifference(
        metric, varied, of, against, model, one.key[1], one.dataset, type_, "",
        found.value or 0.0, found.low, found.high, found.rows, found.labels,
    )  # fmt: skip
