"""Means of the metrics of a factuality run with intervals, and differences between models and between question types.

Intervals are by bootstrap over clusters within each dataset, so the figures of a dataset do not depend on the other
datasets of the run. Source: FAS §4 (10,000 resamples; a difference is significant where its interval excludes 0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import MetricSlice, contrast, estimate
from fdarx_core.evaluation.measures import Measure, mean_metric, measure_table
from fdarx_core.evaluation.metrics import Mask, ScoreColumns
from fdarx_core.factuality.evidence.sources import K
from fdarx_core.factuality.scores import WEIGHTS, Weights
from fdarx_core.records import Difference, FactualityScore, Figure, PairVerdict, SafetyFlag, to_table
from fdarx_core.verify import THRESHOLD

ALL = "all"
"""The value of a key of a figure (model, setting, dataset, type) that is about all of them."""
FLAG_KINDS = (
    "dose_missing",
    "dose_unsupported",
    "contraindicated_population",
    "contraindicated_condition",
    "contraindicated_drug",
)


@dataclass(frozen=True)
class FactualityRows:
    """The scores of all answers of a run, and how they were made.

    `pairs` is a table of PairVerdict rows of every kind and engine; ablations are computed from it. `flags` is None
    where no label was available for safety checks. `engine` judged the verdicts of the scores; `similarity` is the name
    of the similarity measure.
    """

    scores: Sequence[FactualityScore]
    pairs: pa.Table = field(default_factory=lambda: to_table([], PairVerdict))
    flags: Sequence[SafetyFlag] | None = None
    engine: str = "baseline"
    similarity: str = ""
    weights: Weights = WEIGHTS
    threshold: float = THRESHOLD
    k: int = K

    @property
    def fields(self) -> dict[str, str]:
        """The field of the score for each metric except the flags, by the name of the metric."""
        return {
            f"support@{self.k}": "support",
            f"contra@{self.k}": "contra",
            **{name: name for name in ("unsupported", "fas", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4")},
            **{name: name for name in ("gold", "gold_claims", "claims")},
        }


def flag_metric(kind: str) -> str:
    """Return the metric that is the share of answers with a flag of a kind, or with any flag for the kind "any"."""
    return f"flag_{kind}"


def measures(rows: FactualityRows) -> dict[str, Measure]:
    """Return the measures by name: the scores' fields, and whether an answer has a flag if flags were looked for."""
    found = {metric: (field, _read(field)) for metric, field in rows.fields.items()}
    if rows.flags is not None:
        kinds: dict[str, set[str]] = defaultdict(set)
        for flag in rows.flags:
            kinds[flag.kind].add(flag.answer_id)
        kinds["any"] = set().union(*kinds.values())
        found |= {(name := flag_metric(kind)): (name, _flagged(kinds[kind])) for kind in ("any", *FLAG_KINDS)}
    return found


def cluster_of(score: FactualityScore) -> str:
    """Return what the bootstrap draws: the cluster of the answer, or its question if it has no cluster."""
    return score.cluster or score.question_id


def _read(name: str) -> Callable[[FactualityScore], float | None]:
    def measure(score: FactualityScore) -> float | None:
        value: float | None = getattr(score, name)
        return None if name == "claims" and score.outcome != "answered" else value

    return measure


def _flagged(answers: set[str]) -> Callable[[FactualityScore], float | None]:
    return lambda score: float(score.answer_id in answers) if score.outcome == "answered" else None


RESAMPLES = 10_000
"""Source: FAS §4."""
COMPARED = ("support", "contra", "unsupported", "fas", "similarity", "rouge_l", "bleu_4", "gold")
"""The fields that models and question types are compared by."""
Part = tuple[dict[str, str], Mask]
"""Rows of one dataset, and the keys model, setting, dataset and type of their figures."""


def figures(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return every metric of each model and setting, on each dataset and on all, by question type and over all types.

    The keys of a figure are model, setting, dataset and type. A metric that no answer has or lacks is left out.
    """
    found: list[Figure] = []
    for dataset, columns in _datasets(rows):
        parts = [part for key, here in _models(columns) for part in _parts(columns, {**key, "dataset": dataset}, here)]
        wanted = [(keys, mean_metric(name), here) for keys, here in parts for name in measures(rows)]
        slices = [(metric, here) for _, metric, here in wanted]
        estimates = estimate(columns, slices, seed=seed, resamples=resamples)
        found += [
            Figure.of(metric.name, keys, one)
            for (keys, metric, _), one in zip(wanted, estimates, strict=True)
            if one.rows or one.unscored
        ]
    return found


def differences(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> list[Difference]:
    """Return the differences of models in the same setting on their common questions, and of types of one model.

    Both sides use the same samples of clusters; `rows` counts the answers of both. Source: FAS §5.1, §5.3.
    """
    compared = [metric for metric, field in rows.fields.items() if field in COMPARED]
    found: list[Difference] = []
    for dataset, columns in _datasets(rows):
        wanted = [*_model_pairs(columns, dataset, compared), *_type_pairs(columns, dataset, compared)]
        estimates = contrast(columns, [slices for _, *slices in wanted], seed=seed, resamples=resamples)  # type: ignore[misc]
        found += [
            Difference.of(slices[0][0].name, keys, one, first={varied: a}, second={varied: b})
            for ((keys, varied, a, b), *slices), one in zip(wanted, estimates, strict=True)
            if one.value is not None
        ]
    return found


def overall(rows: FactualityRows) -> dict[str, float | None]:
    """Return the mean of each metric over all answers that have it, None where no answer has it."""
    found: dict[str, float | None] = {}
    for metric, (_, read) in measures(rows).items():
        values = [value for value in map(read, rows.scores) if value is not None]
        found[metric] = fmean(values) if values else None
    return found


def _datasets(rows: FactualityRows) -> Iterator[tuple[str, ScoreColumns]]:
    """Yield the answers of all datasets together, then those of each named dataset."""
    names = [ALL, *sorted({score.dataset for score in rows.scores} - {""})] if rows.scores else []
    for name in names:
        table = measure_table(
            [score for score in rows.scores if name in (ALL, score.dataset)],
            measures(rows),
            cluster=cluster_of,
            question=lambda score: f"{score.dataset}\n{score.question_id}",
            keys=("model", "setting", "type"),
        )
        yield name, ScoreColumns(table)


def _models(columns: ScoreColumns) -> list[Part]:
    """Return the rows of each model and setting."""
    models, settings = columns.strings("model"), columns.strings("setting")
    return [
        ({"model": model, "setting": setting}, (models == model) & (settings == setting))
        for model, setting in sorted(set(zip(models.tolist(), settings.tolist(), strict=True)))
    ]


def _parts(columns: ScoreColumns, keys: Mapping[str, str], here: Mask) -> list[Part]:
    """Return the rows of all question types together, then those of each named type."""
    types = columns.strings("type")
    named = [str(name) for name in np.unique(types[here]) if name]
    return [({**keys, "type": ALL}, here), *(({**keys, "type": name}, here & (types == name)) for name in named)]


Pair = tuple[tuple[dict[str, str], str, str, str], MetricSlice, MetricSlice]
"""The common keys, the key that differs and its two values; then the two sides."""


def _model_pairs(columns: ScoreColumns, dataset: str, compared: Sequence[str]) -> Iterator[Pair]:
    questions = columns.strings("question_id")
    for (one, here), (other, there) in combinations(_models(columns), 2):
        if one["setting"] != other["setting"]:
            continue
        keys = {"setting": one["setting"], "dataset": dataset, "type": ALL}
        for name in compared:
            measured = ~np.isnan(columns.number(name))
            common = np.intersect1d(questions[here & measured], questions[there & measured])
            both = measured & np.isin(questions, common)
            if both.any():
                metric = mean_metric(name)
                yield (keys, "model", one["model"], other["model"]), (metric, here & both), (metric, there & both)


def _type_pairs(columns: ScoreColumns, dataset: str, compared: Sequence[str]) -> Iterator[Pair]:
    for keys, mine in _models(columns):
        for (one, here), (other, there) in combinations(_parts(columns, {}, mine)[1:], 2):
            for name in compared:
                metric = mean_metric(name)
                shared = {**keys, "dataset": dataset}
                yield (shared, "type", one["type"], other["type"]), (metric, here), (metric, there)
