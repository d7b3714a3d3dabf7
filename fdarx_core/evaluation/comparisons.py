"""Cells and retrievers against each other, on the questions that both have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import pyarrow as pa

from fdarx_core.evaluation.aggregates import RETRIEVAL_AGGREGATES, SCORE_AGGREGATES, Aggregate
from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.groups import type_groups
from fdarx_core.evaluation.statistics import Measured, Slice, compare, holm
from fdarx_core.evaluation.statistics.bootstrap import RESAMPLES
from fdarx_core.evaluation.statistics.paired import FLIPS
from fdarx_core.records import Comparison

Wanted = Sequence[tuple[str, str]]
"""(metric, group by question type)"""

COMPARED: Wanted = (
    ("accuracy", "factual"),
    ("accuracy", "multihop"),
    ("accuracy", "answerable"),
    ("false_refusal_rate", "answerable"),
    ("citation_f1", "factual"),
    ("citation_f1", "multihop"),
    ("citation_f1", "answerable"),
    ("citation_f1_eq", "answerable"),
    ("refusal_f1", "all"),
)

COMPARED_RETRIEVERS: Wanted = tuple(
    (metric, group)
    for metric in ("recall_5", "mrr", "ndcg_10", "eq_recall_5")
    for group in ("factual", "multihop", "answerable")
)


def comparisons(
    cells: Mapping[CellKey, pa.Table],
    metrics: Wanted = COMPARED,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
    wanted: Callable[[CellKey, CellKey], bool] = lambda a, b: True,
) -> list[Comparison]:
    """All pairs of cells that differ in the model alone, or that share the model, by (model, setting, retriever).

    Of these those that are `wanted`: the correction counts no others. Pairs and metrics without two labels in common
    are left out. Raises ValueError if a cell has a question twice.
    """
    alike = [(a, b) for a, b in combinations(cells, 2) if a[1:] == b[1:] or a.model == b.model]
    pairs = [pair for pair in alike if wanted(*pair)]
    return _compare_all(cells, pairs, metrics, SCORE_AGGREGATES, seed, resamples, flips)


def compare_retrievers(
    tables: Mapping[str, pa.Table],
    metrics: Wanted = COMPARED_RETRIEVERS,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
) -> list[Comparison]:
    """All pairs of retrievers, from their RetrievalScore rows by name; `model_…` and `setting_…` are ""."""
    cells = {CellKey("", "", retriever): table for retriever, table in tables.items()}
    pairs = list(combinations(cells, 2))
    return _compare_all(cells, pairs, metrics, RETRIEVAL_AGGREGATES, seed, resamples, flips)


def _compare_all(
    cells: Mapping[CellKey, pa.Table],
    pairs: Sequence[tuple[CellKey, CellKey]],
    metrics: Wanted,
    aggregates: Mapping[str, Aggregate],
    seed: int,
    resamples: int,
    flips: int,
) -> list[Comparison]:
    measured = {key: Measured(table) for key, table in cells.items()}
    found: list[Comparison] = []
    for a, b in pairs:
        groups = {group.name: group.rows for group in type_groups(measured[a].columns)}
        slices = [Slice(aggregates[metric], groups[group]) for metric, group in metrics]
        differences = compare(measured[a], measured[b], slices, seed=seed, resamples=resamples, flips=flips)
        found += [
            Comparison(*name, *a, *b, one.value, one.low, one.high, one.p, one.p, one.rows, one.labels)
            for name, one in zip(metrics, differences, strict=True)
            if one is not None
        ]
    return _corrected(found)


def _corrected(found: list[Comparison]) -> list[Comparison]:
    """With p_holm over the comparisons of the same metric and group."""
    families: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at, one in enumerate(found):
        families[one.metric, one.group].append(at)
    adjusted: dict[int, float] = {}
    for members in families.values():
        adjusted |= zip(members, holm([found[at].p for at in members]), strict=True)
    return [replace(one, p_holm=adjusted[at]) for at, one in enumerate(found)]
