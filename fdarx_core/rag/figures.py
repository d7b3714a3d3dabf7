"""Figures of a comparison of RAG strategies: means with intervals, and paired differences from conventional RAG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import FLIPS, RESAMPLES, PairedRows, estimate, paired_differences, with_holm
from fdarx_core.evaluation.measures import Measure, mean_metric, measure_table
from fdarx_core.evaluation.metrics import ScoreColumns
from fdarx_core.rag.metrics import document_recall, reciprocal_rank
from fdarx_core.records import Difference, Figure, RagScore, TitleRank

KEYS = ("strategy", "postprocess", "model")
"""The keys of figures and differences."""
AGAINST = "question"
"""The strategy that all others are compared with: conventional RAG."""
DEPTHS = (1, 6, 24)


def _document_recall(depth: int, score: RagScore) -> float | None:
    return document_recall(depth, score.title_rank)


MEASURES: dict[str, Measure] = {
    **{
        name: (name, attrgetter(name))
        for name in (
            "context_precision", "context_recall", "bert_precision", "bert_recall", "bert_f1", "embedding_similarity",
            "token_f1",
        )
    },
    **{f"document_recall_{depth}": ("title_rank", partial(_document_recall, depth)) for depth in DEPTHS},
    "document_mrr": ("title_rank", lambda score: reciprocal_rank(score.title_rank)),
}  # fmt: skip


def figures(scores: Iterable[RagScore], *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return every measure of each strategy, post-processing and model; one that no row has or lacks is left out."""
    found: list[Figure] = []
    for key, rows in _by_key(scores).items():
        columns = ScoreColumns(_table(rows))
        everywhere = np.ones(columns.rows, dtype=np.bool_)
        slices = [(mean_metric(name), everywhere) for name in MEASURES]
        estimates = estimate(columns, slices, seed=seed, resamples=resamples)
        named = dict(zip(KEYS, key, strict=True))
        found += [
            Figure.of(name, named, one)
            for name, one in zip(MEASURES, estimates, strict=True)
            if one.rows or one.unscored
        ]
    return found


def title_figures(ranks: Iterable[TitleRank], *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return recall of the right document and MRR of each retriever, which is the key strategy; other keys are ""."""
    scores = [RagScore(one.question_id, one.cluster, one.retriever, "", "", title_rank=one.rank) for one in ranks]
    return figures(scores, seed=seed, resamples=resamples)


def differences(
    scores: Iterable[RagScore], *, seed: int, resamples: int = RESAMPLES, flips: int = FLIPS
) -> list[Difference]:
    """Return the difference of each strategy from `AGAINST`, with the same post-processing and model.

    The differences are on the questions that both have. Measures without two clusters in common are left out. Raises
    ValueError if a question occurs twice for a strategy, post-processing and model.
    """
    cells = {key: PairedRows(_table(rows)) for key, rows in _by_key(scores).items()}
    found: list[Difference] = []
    for (strategy, postprocess, model), cell in cells.items():
        other = cells.get((AGAINST, postprocess, model))
        if strategy == AGAINST or other is None:
            continue
        everywhere = np.ones(cell.columns.rows, dtype=np.bool_)
        slices = [(mean_metric(name), everywhere) for name in MEASURES]
        shared = {"postprocess": postprocess, "model": model}
        found += [
            replace(one, keys=shared, first={"strategy": strategy}, second={"strategy": AGAINST})
            for one in paired_differences(cell, other, slices, seed=seed, resamples=resamples, flips=flips)
            if one is not None
        ]
    return with_holm(found)


def _by_key(scores: Iterable[RagScore]) -> dict[tuple[str, str, str], list[RagScore]]:
    found: dict[tuple[str, str, str], list[RagScore]] = defaultdict(list)
    for one in scores:
        found[one.strategy, one.postprocess, one.model].append(one)
    return found


def _table(rows: Sequence[RagScore]) -> pa.Table:
    return measure_table(rows, MEASURES, cluster=attrgetter("cluster"), question=attrgetter("question_id"))
