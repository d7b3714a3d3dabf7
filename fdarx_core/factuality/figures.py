"""Means of the metrics of a factuality run with intervals, and differences between models and between question types.

Intervals are by bootstrap over clusters within each dataset, so the figures of a dataset do not depend on the other
datasets of the run. Source: FAS §4 (10,000 resamples; a difference is significant where its interval excludes 0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from statistics import fmean

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import MetricSlice, contrast, estimate_figures
from fdarx_core.evaluation.metrics import Mask, Metric, ScoreColumns, mean_metric, metric_table
from fdarx_core.factuality.safety import safety_counts
from fdarx_core.factuality.scores import ScoringMethod
from fdarx_core.records import Difference, FactualityScore, Figure, PairVerdict, SafetyFlag, to_table
from fdarx_core.text.tokens import vocabulary

ALL = "all"
"""The value of a key of a figure (model, setting, dataset, type) that is about all of them."""
table_texts = partial(vocabulary, __package__, "tables.yaml")
"""Returns the texts of the tables."""
FLAGS = {kind: (above, header) for kind, (above, header) in table_texts()["flags"].items()}
"""The upper header and the header of each kind of flag."""


@dataclass(frozen=True)
class FactualityRows:
    """The scores of all answers of a run, and how they were made.

    `pairs` is a table of PairVerdict rows of every kind and engine; ablations are computed from it. `flags` is None
    where no language model checked the answers against labels.
    """

    scores: Sequence[FactualityScore]
    pairs: pa.Table = field(default_factory=lambda: to_table([], PairVerdict))
    flags: Sequence[SafetyFlag] | None = None
    method: ScoringMethod = field(default_factory=ScoringMethod)

    @property
    def fields(self) -> dict[str, str]:
        """The field of the score for each metric except the flags, by the name of the metric."""
        k, others = self.method.k, ("similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4")
        return {
            f"support@{k}": "support",
            f"contra@{k}": "contra",
            **{name: name for name in ("unsupported", "decided", "coverage")},
            self.method.fas: "fas",
            **{name: name for name in (*others, "completeness", "stated_in_references", "claims")},
        }


def flag_metric(kind: str) -> str:
    """Return the metric that is the share of answers with a flag of a kind, or with any flag for the kind "any"."""
    return f"flag_{kind}"


def factuality_metrics(rows: FactualityRows) -> list[Metric]:
    """Return the metrics: means of the scores' fields, and of whether an answer has a flag if flags were looked for."""
    found = []
    for metric, name in rows.fields.items():

        def measure(score: FactualityScore, name: str = name) -> float | None:
            value: float | None = getattr(score, name)
            return None if name == "claims" and score.outcome != "answered" else value

        found.append(mean_metric(measure, metric, field=name))
    if rows.flags is not None:
        kinds: dict[str, set[str]] = defaultdict(set)
        for flag in rows.flags:
            kinds[flag.kind].add(flag.answer_id)
            kinds["any"].add(flag.answer_id)
        for kind in FLAGS:

            def is_flagged(score: FactualityScore, answers: set[str] = kinds[kind]) -> float | None:
                checked = score.outcome == "answered" and not safety_counts(score)["unchecked"]
                return float(score.answer_id in answers) if checked else None

            found.append(mean_metric(is_flagged, flag_metric(kind)))
    return found


def cluster_of(score: FactualityScore) -> str:
    """Return what the bootstrap draws: the cluster of the answer, or its question if it has no cluster."""
    return score.cluster or score.question_id


RESAMPLES = 10_000
"""Source: FAS §4."""
COMPARED = ("support", "contra", "unsupported", "decided", "fas", "similarity", "rouge_l", "bleu_4", "completeness")
"""The fields that models and question types are compared by."""
Part = tuple[dict[str, str], Mask]
"""Rows of one dataset, and the keys model, setting, dataset and type of their figures."""


def figures(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return every metric of each model and setting, on each dataset and on all, by question type and over all types.

    The keys of a figure are model, setting, dataset and type. A metric that no answer has or lacks is left out. FAS has
    no value for a group whose mean coverage or share of decided claims is below that of the method.
    """
    metrics, found = factuality_metrics(rows), list[Figure]()
    for dataset, columns in _datasets(rows, metrics):
        parts = [part for key, here in _models(columns) for part in _parts(columns, {**key, "dataset": dataset}, here)]
        slices = [(keys, metric, here) for keys, here in parts for metric in metrics]
        withheld = [keys for keys, metric, here in slices if not _may_show(columns, metric, here, rows.method)]
        for figure in estimate_figures(columns, slices, seed=seed, resamples=resamples):
            shown = figure.metric != rows.method.fas or figure.keys not in withheld
            found.append(figure if shown else replace(figure, value=None, low=None, high=None))
    return found


def _may_show(columns: ScoreColumns, metric: Metric, here: Mask, method: ScoringMethod) -> bool:
    """Return whether a group has a value of a metric: FAS needs the least coverage and share of decided claims."""
    means = {name: columns.number(name)[here] for name in method.floors} if metric.name == method.fas else {}
    return not any(
        np.nansum(mean) < method.floors[name] * np.count_nonzero(~np.isnan(mean)) for name, mean in means.items()
    )


def too_low(figures: Sequence[Figure], method: ScoringMethod) -> list[Figure]:
    """Return the coverages and shares of decided claims for which a group has no FAS."""
    return [
        figure
        for figure in figures
        if figure.value is not None and figure.value < method.floors.get(figure.metric, 0.0)
    ]


def differences(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> list[Difference]:
    """Return the differences of models in the same setting on their common questions, and of types of one model.

    Both sides use the same samples of clusters; `rows` counts the answers of both. Source: FAS §5.1, §5.3.
    """
    metrics, found = factuality_metrics(rows), list[Difference]()
    compared = [metric for metric in metrics if metric.field in COMPARED]
    for dataset, columns in _datasets(rows, metrics):
        wanted = list(_pairs(columns, dataset, compared))
        estimates = contrast(columns, [slices for _, *slices in wanted], seed=seed, resamples=resamples)  # type: ignore[misc]
        found += [
            Difference.of(slices[0][0].name, keys, estimated, first={varied: a}, second={varied: b})
            for ((keys, varied, a, b), *slices), estimated in zip(wanted, estimates, strict=True)
            if estimated.value is not None and all(_may_show(columns, *side, rows.method) for side in slices)
        ]
    return found


def overall(rows: FactualityRows) -> dict[str, float | None]:
    """Return the mean of each metric over all answers that have it, None where no answer has it, or as in `figures`."""
    found: dict[str, float | None] = {}
    for metric in factuality_metrics(rows):
        values = [value for value in map(metric.number, rows.scores) if value is not None]
        found[metric.name] = fmean(values) if values else None
    if any((value := found[name]) is not None and value < least for name, least in rows.method.floors.items()):
        found[rows.method.fas] = None
    return found


def _datasets(rows: FactualityRows, metrics: Sequence[Metric]) -> Iterator[tuple[str, ScoreColumns]]:
    """Yield the answers of all datasets together, then those of each named dataset."""
    names = [ALL, *sorted({score.dataset for score in rows.scores} - {""})] if rows.scores else []
    for name in names:
        table = metric_table(
            [score for score in rows.scores if name in (ALL, score.dataset)],
            metrics,
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


def _pairs(columns: ScoreColumns, dataset: str, compared: Sequence[Metric]) -> Iterator[Pair]:
    """Yield the pairs of models in the same setting on their common questions, then those of types of one model."""
    questions = columns.strings("question_id")
    models = _models(columns)
    for (first, ours), (second, theirs) in combinations(models, 2):
        for metric in compared if first["setting"] == second["setting"] else ():
            measured = ~np.isnan(columns.number(metric.name))
            common = np.intersect1d(questions[ours & measured], questions[theirs & measured])
            both = measured & np.isin(questions, common)
            if both.any():
                keys = {"setting": first["setting"], "dataset": dataset, "type": ALL}
                yield (keys, "model", first["model"], second["model"]), (metric, ours & both), (metric, theirs & both)
    for keys, mine in models:
        for (first, ours), (second, theirs) in combinations(_parts(columns, {}, mine)[1:], 2):
            for metric in compared:
                shared = {**keys, "dataset": dataset}
                yield (shared, "type", first["type"], second["type"]), (metric, ours), (metric, theirs)
