"""Means of a run's metrics with intervals, and differences between models and between question types.

Intervals are by bootstrap over clusters within each dataset: the figures of a dataset do not depend on the others that
are scored with it. Source: FAS §4 (10,000 resamples; a difference is significant where its interval excludes 0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import fmean

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import Estimate, MetricSlice, contrast, estimate
from fdarx_core.evaluation.metrics import Mask, Metric, ScoreColumns, mean_components, ratio
from fdarx_core.factuality.evidence.sources import K
from fdarx_core.factuality.scores import WEIGHTS, Weights
from fdarx_core.records import FactualityFigure, FactualityScore, PairVerdict, SafetyFlag, to_table
from fdarx_core.verify import THRESHOLD


@dataclass(slots=True)
class FactualityDifference:
    """`metric` of `of` less that of `against`, which differ in `varied`: model, type, metric, configuration, threshold.

    `metric` is that of a FactualityFigure, or `spearman`: ρ with `gold`, of FAS or of the metrics that are compared.
    `low` and `high` bound the 95 % interval by bootstrap over clusters, the same draws for both. Models are compared on
    the questions that both have, and metrics, configurations and thresholds on the answers that both can score: `rows`,
    of both sides for models and types, over `clusters` clusters.
    """

    metric: str
    varied: str
    of: str
    against: str
    model: str
    setting: str
    dataset: str
    type: str
    gold: str
    value: float
    low: float | None
    high: float | None
    rows: int
    clusters: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0. Source: FAS §4."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


ALL = "all"
"""What a model, setting, dataset or type is called where a figure is about every one."""
FLAG_KINDS = (
    "dose_missing",
    "dose_unsupported",
    "contraindicated_population",
    "contraindicated_condition",
    "contraindicated_drug",
)


@dataclass(frozen=True)
class FactualityRows:
    """All answers of a run in numbers, with what they were measured by.

    `pairs` is a table of PairVerdict rows of every kind and engine: what is judged under another threshold, with fewer
    passages or by another engine is read from it again. `flags` is None where no label was at hand for safety. `engine`
    judged the verdicts of the scores; `similarity` is the measure's name.
    """

    scores: Sequence[FactualityScore]
    pairs: pa.Table = field(default_factory=lambda: to_table([], PairVerdict))
    flags: Sequence[SafetyFlag] | None = None
    engine: str = "baseline"
    similarity: str = ""
    weights: Weights = WEIGHTS
    threshold: float = THRESHOLD
    k: int = K

    @cached_property
    def fields(self) -> dict[str, str]:
        """The score's field of each metric, by the metric's name."""
        return metrics(self.k)


def metrics(k: int = K) -> dict[str, str]:
    """The names of all metrics of an answer but its flags, and where its score holds each."""
    return {
        f"support@{k}": "support",
        f"contra@{k}": "contra",
        "unsupported": "unsupported",
        "fas": "fas",
        "similarity": "similarity",
        "rouge_1": "rouge_1",
        "rouge_2": "rouge_2",
        "rouge_l": "rouge_l",
        "bleu_4": "bleu_4",
        "gold": "gold",
        "gold_claims": "gold_claims",
        "claims": "claims",
    }


def flag_metric(kind: str) -> str:
    """The share of answers with a flag of a kind, or, of kind "any", with any."""
    return f"flag_{kind}"


Measure = Callable[[FactualityScore], float | None]


def measures(rows: FactualityRows) -> dict[str, Measure]:
    """Each metric's value of an answer; of flags the share of answers that have one, where they were looked for."""
    found: dict[str, Measure] = {metric: _field(field) for metric, field in rows.fields.items()}
    if rows.flags is not None:
        kinds: dict[str, set[str]] = defaultdict(set)
        for flag in rows.flags:
            kinds[flag.kind].add(flag.answer_id)
        found[flag_metric("any")] = _flagged(set().union(*kinds.values()))
        found |= {flag_metric(kind): _flagged(kinds[kind]) for kind in FLAG_KINDS}
    return found


def cluster_of(score: FactualityScore) -> str:
    """What is drawn by the bootstrap: the answer's cluster, its question where none is named."""
    return score.cluster or score.question_id


def columns_of(
    rows: FactualityRows, scores: Sequence[FactualityScore], measured: Mapping[str, Measure]
) -> ScoreColumns:
    """A cluster stands where a label's set id does; the question is that of its dataset."""
    columns: dict[str, pa.Array] = {
        "set_id": pa.array([cluster_of(score) for score in scores], pa.string()),
        "question_id": pa.array([f"{score.dataset}\n{score.question_id}" for score in scores], pa.string()),
    }
    for name in ("model", "setting", "type"):
        columns[name] = pa.array([getattr(score, name) for score in scores], pa.string())
    for metric, of in measured.items():
        field = rows.fields.get(metric, metric)
        columns[metric] = pa.array([of(score) for score in scores], pa.float64())
        columns[_lacking(metric)] = pa.array([_is_unscored(score, field) for score in scores], pa.bool_())
    return ScoreColumns(pa.table(columns))


def mean_of(metric: str) -> Metric:
    """About the answers that have the metric and those that should."""

    def over(columns: ScoreColumns) -> Mask:
        return ~np.isnan(columns.number(metric)) | (columns.number(_lacking(metric)) > 0)

    return Metric(metric, over, lambda columns: mean_components(columns.number(metric)), ratio, ())


def _field(name: str) -> Measure:
    def measure(score: FactualityScore) -> float | None:
        value: float | None = getattr(score, name)
        return None if name == "claims" and score.outcome != "answered" else value

    return measure


def _flagged(answers: set[str]) -> Measure:
    return lambda score: float(score.answer_id in answers) if score.outcome == "answered" else None


def _lacking(metric: str) -> str:
    return f"no_{metric}"


def _is_unscored(score: FactualityScore, field: str) -> bool:
    return any(one.partition(":")[0] == field for one in score.unscored)


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
        slices = [MetricSlice(self._aggregates[metric], part.here) for part, metric in wanted]
        estimates = estimate(self._columns, slices, seed=seed, resamples=resamples)
        return [(*one, found) for one, found in zip(wanted, estimates, strict=True)]

    def differences(self, seed: int, resamples: int) -> list[FactualityDifference]:
        wanted = [*self._of_models(), *self._of_types()]
        pairs = [
            (MetricSlice(aggregate, one.here), MetricSlice(aggregate, other.here))
            for aggregate, _, one, other in wanted
        ]
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

    def _compared(self) -> list[Metric]:
        return [self._aggregates[metric] for metric, field in self._fields.items() if field in COMPARED]

    def _of_models(self) -> Iterator[tuple[Metric, str, _Part, _Part]]:
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

    def _shared(self, aggregate: Metric, here: Mask, there: Mask) -> Mask:
        """The rows whose question is measured on both sides."""
        told = ~np.isnan(self._columns.number(aggregate.name))
        questions = self._columns.strings("question_id")
        common = np.intersect1d(questions[here & told], questions[there & told])
        return np.asarray(told & np.isin(questions, common))

    def _of_types(self) -> Iterator[tuple[Metric, str, _Part, _Part]]:
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
