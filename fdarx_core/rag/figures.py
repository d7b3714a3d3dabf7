"""From the rows of a comparison to its figures: means with intervals, and paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import (
    FLIPS,
    RESAMPLES,
    MetricSlice,
    PairedRows,
    estimate,
    holm,
    paired_differences,
)
from fdarx_core.evaluation.metrics import Mask, Metric, ScoreColumns, mean_components, ratio
from fdarx_core.rag.metrics import document_recall, reciprocal_rank
from fdarx_core.records import RagDifference, RagFigure, RagScore, TitleRank

Key = tuple[str, str, str]
"""Strategy, post-processing, model."""
Rows = Mapping[Key, Sequence[RagScore]]

AGAINST = "question"
"""The strategy that all others are compared with: conventional RAG."""
DEPTHS = (1, 6, 24)


@dataclass(frozen=True, slots=True)
class ScoreMeasure:
    """A number of a score, and the field of RagScore that `unscored` names where it could not be had."""

    field: str
    of: Callable[[RagScore], float | None]


def _held(field: str) -> ScoreMeasure:
    return ScoreMeasure(field, lambda score: getattr(score, field))


def _ranked(of: Callable[[int | None], float | None]) -> ScoreMeasure:
    return ScoreMeasure("title_rank", lambda score: of(score.title_rank))


def _recall(depth: int) -> ScoreMeasure:
    return _ranked(lambda rank: document_recall(depth, rank))


MEASURES: dict[str, ScoreMeasure] = {
    **{
        name: _held(name)
        for name in (
            "context_precision", "context_recall", "bert_precision", "bert_recall", "bert_f1", "embedding_similarity",
            "token_f1",
        )
    },
    **{f"document_recall_{depth}": _recall(depth) for depth in DEPTHS},
    "document_mrr": _ranked(reciprocal_rank),
}  # fmt: skip
"""By the name of their RagFigure."""


def figures(scores: Iterable[RagScore], *, seed: int, resamples: int = RESAMPLES) -> list[RagFigure]:
    """Every measure of each strategy, post-processing and model; one that none of its rows has or lacks is left out."""
    return [
        figure for key, rows in _by_key(scores).items() for figure in _figures(key, rows, MEASURES, seed, resamples)
    ]


def title_figures(ranks: Iterable[TitleRank], *, seed: int, resamples: int = RESAMPLES) -> list[RagFigure]:
    """Recall of the right document and MRR of each retriever, which stands in `strategy`; the other names are ""."""
    scores = [RagScore(one.question_id, one.cluster, one.retriever, "", "", title_rank=one.rank) for one in ranks]
    return figures(scores, seed=seed, resamples=resamples)


def differences(
    scores: Iterable[RagScore], *, seed: int, resamples: int = RESAMPLES, flips: int = FLIPS
) -> list[RagDifference]:
    """Each strategy less `AGAINST` where post-processing and model are the same, on the questions that both have.

    Measures without two clusters in common are left out. Raises ValueError if a question stands twice in a cell.
    """
    cells = {key: PairedRows(_table(rows)) for key, rows in _by_key(scores).items()}
    found: list[RagDifference] = []
    for (strategy, postprocess, model), cell in cells.items():
        other = cells.get((AGAINST, postprocess, model))
        if strategy == AGAINST or other is None:
            continue
        found += _differences((strategy, postprocess, model), cell, other, seed, resamples, flips)
    return _corrected(found)


def _by_key(scores: Iterable[RagScore]) -> Rows:
    found: dict[Key, list[RagScore]] = defaultdict(list)
    for one in scores:
        found[one.strategy, one.postprocess, one.model].append(one)
    return found


def _figures(key: Key, rows: Sequence[RagScore], measures: Iterable[str], seed: int, resamples: int) -> list[RagFigure]:
    columns = ScoreColumns(_table(rows))
    everywhere = np.ones(columns.rows, dtype=np.bool_)
    names = list(measures)
    estimates = estimate(
        columns, [MetricSlice(_aggregate(name), everywhere) for name in names], seed=seed, resamples=resamples
    )
    return [
        RagFigure(*key, name, one.value, one.low, one.high, one.rows, one.labels, one.unscored)
        for name, one in zip(names, estimates, strict=True)
        if one.rows or one.unscored
    ]


def _differences(
    key: Key, cell: PairedRows, other: PairedRows, seed: int, resamples: int, flips: int
) -> list[RagDifference]:
    (strategy, postprocess, model), everywhere = key, np.ones(cell.columns.rows, dtype=np.bool_)
    slices = [MetricSlice(_aggregate(name), everywhere) for name in MEASURES]
    differ = paired_differences(cell, other, slices, seed=seed, resamples=resamples, flips=flips)
    return [
        RagDifference(
            name, strategy, AGAINST, postprocess, model,
            one.value, one.low, one.high, one.p, one.p, one.rows, one.labels,
        )
        for name, one in zip(MEASURES, differ, strict=True)
        if one is not None
    ]  # fmt: skip


def _table(rows: Sequence[RagScore]) -> pa.Table:
    """As the statistics read rows: a cluster stands where a label's set id does."""
    columns: dict[str, pa.Array] = {
        "question_id": pa.array([row.question_id for row in rows], pa.string()),
        "set_id": pa.array([row.cluster for row in rows], pa.string()),
    }
    for name, measure in MEASURES.items():
        columns[name] = pa.array([measure.of(row) for row in rows], pa.float64())
        columns[_lacking(name)] = pa.array([_is_unscored(row, measure.field) for row in rows], pa.bool_())
    return pa.table(columns)


def _aggregate(name: str) -> Metric:
    """The mean of a measure, about the rows that have it and those that should."""

    def over(columns: ScoreColumns) -> Mask:
        return ~np.isnan(columns.number(name)) | (columns.number(_lacking(name)) > 0)

    return Metric(name, over, lambda columns: mean_components(columns.number(name)), ratio, ())


def _lacking(name: str) -> str:
    return f"no_{name}"


def _is_unscored(row: RagScore, field: str) -> bool:
    return any(one.partition(":")[0] == field for one in row.unscored)


def _corrected(found: list[RagDifference]) -> list[RagDifference]:
    """With p_holm over the comparisons of the same metric."""
    families: dict[str, list[int]] = defaultdict(list)
    for at, one in enumerate(found):
        families[one.metric].append(at)
    adjusted: dict[int, float] = {}
    for members in families.values():
        adjusted |= zip(members, holm([found[at].p for at in members]), strict=True)
    return [replace(one, p_holm=adjusted[at]) for at, one in enumerate(found)]
