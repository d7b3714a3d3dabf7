"""Each metric of an answer as a column that the statistics read, and its mean as they take it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.aggregates.aggregate import Aggregate, averaged, ratio
from fdarx_core.evaluation.aggregates.columns import Columns, Mask
from fdarx_core.factuality.rows import FLAG_KINDS, FactualityRows, flag_metric
from fdarx_core.records import FactualityScore

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


def columns_of(rows: FactualityRows, scores: Sequence[FactualityScore], measured: Mapping[str, Measure]) -> Columns:
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
    return Columns(pa.table(columns))


def mean_of(metric: str) -> Aggregate:
    """About the answers that have the metric and those that should."""

    def over(columns: Columns) -> Mask:
        return ~np.isnan(columns.number(metric)) | (columns.number(_lacking(metric)) > 0)

    return Aggregate(metric, over, lambda columns: averaged(columns.number(metric)), ratio, ())


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
