"""Figures of an evaluation from its score rows: metrics by group, differences of cells, and counts of each cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import (
    FLIPS,
    RESAMPLES,
    MetricSlice,
    PairedRows,
    SliceSums,
    estimate_sums,
    paired_differences,
    with_holm,
)
from fdarx_core.evaluation.metrics import (
    HALLUCINATIONS,
    JUDGED,
    Mask,
    Metric,
    ScoreColumns,
    score_metrics,
)
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import Difference, Estimate, Figure


class CellKey(NamedTuple):
    """A model in a setting; `retriever` is "" except in the setting retrieved."""

    model: str
    setting: str
    retriever: str

    def __str__(self) -> str:
        return " · ".join(part for part in self if part)


TYPES = ("factual", "multihop", "refusal")
SMALLEST = 10
"""Questions that a section needs for figures of its own, and a category that is none of `TOPICS`; smaller ones are
pooled as `OTHER`. With fewer, a rate says little."""
OTHER = "other"
LENGTHS = ("short", "medium", "long")

Edges = tuple[float, float]
"""Characters up to which a label is short, and up to which it is medium."""


Group = tuple[str, str, Mask]
"""The keys group_by and group of the figures of a group, and its rows."""


def type_groups(columns: ScoreColumns) -> list[Group]:
    """Return each question type, `answerable` for all types but refusal, and `all`."""
    by_type = {name: columns.is_in("type", name) for name in TYPES}
    together = {"answerable": ~by_type["refusal"], "all": np.ones(columns.rows, dtype=np.bool_)}
    return [("type", name, rows) for name, rows in (by_type | together).items()]


StandingNames = Mapping[str, Sequence[str]]
"""The categories and the sections of a cell that have figures of their own; all others are pooled as `OTHER`."""


def subgroups(columns: ScoreColumns, edges: Edges, standing: StandingNames) -> list[Group]:
    """Return all questions by category, and the answerable ones by section, length of the label and whether the answer
    has a number."""
    answerable = ~columns.is_in("type", "refusal")
    tertile = np.searchsorted(edges, columns.number("label_characters"))
    numeric = columns.number("numeric") > 0
    return [
        *_by_name(columns, "category", np.ones(columns.rows, dtype=np.bool_), standing),
        *_by_name(columns, "section", answerable, standing),
        *(("label_length", name, answerable & (tertile == at)) for at, name in enumerate(LENGTHS)),
        ("numeric", "numeric", answerable & numeric),
        ("numeric", "not numeric", answerable & ~numeric),
    ]


def tertiles(lengths: Collection[int]) -> Edges:
    """Return the tertiles of the lengths of labels; 0 without labels."""
    low, high = np.quantile(list(lengths), [1 / 3, 2 / 3]) if lengths else (0.0, 0.0)
    return float(low), float(high)


def _by_name(columns: ScoreColumns, by: str, among: Mask, standing: StandingNames) -> list[Group]:
    alone = standing[by]
    groups: list[Group] = [(by, name, among & columns.is_in(by, name)) for name in alone]
    return [*groups, (by, OTHER, among & ~columns.is_in(by, *alone))]


def standing_names(rows: Mapping[str, Mapping[str, int]]) -> StandingNames:
    """Return the names that have figures of their own, in ascending order, from the rows by category and by section.

    They are those with enough rows; of the categories also all of `TOPICS` that have any, since who asks about a topic
    must see how few its questions are.
    """
    return {
        by: sorted(
            name
            for name, count in counts.items()
            if name not in ("", OTHER) and (count >= SMALLEST or (by == "category" and name in TOPICS))
        )
        for by, counts in rows.items()
    }


SUBGROUP_METRICS = ("accuracy", "false_refusal_rate", "citation_f1", "citation_f1_eq")
CATEGORY_METRICS = (HALLUCINATIONS,)
"""Metrics that are also given by category: those of answerable and refusal questions together."""
RETRIEVAL_SUBGROUP_METRICS = ("recall_5", "mrr", "ndcg_10", "eq_recall_5")


def figure_slices(
    columns: ScoreColumns,
    metrics: Mapping[str, Metric],
    by_subgroup: Iterable[str],
    edges: Edges,
    standing: StandingNames,
) -> list[tuple[str, str, MetricSlice]]:
    """Return the slice of each figure of a cell, with its group_by and group."""
    types = {name: rows for _, name, rows in type_groups(columns)}
    named = [("type", name, (metric, types[name])) for metric in metrics.values() for name in metric.types]
    for by, name, rows in subgroups(columns, edges, standing):
        listed = [*by_subgroup, *(CATEGORY_METRICS if by == "category" else ())]
        named += [(by, name, (metrics[metric], rows)) for metric in listed if metric in metrics]
    return named


def figures_of_sums(
    key: CellKey, groups: Sequence[tuple[str, str]], sums: Sequence[SliceSums], *, seed: int, resamples: int = RESAMPLES
) -> list[Figure]:
    """Return every figure of one cell from the sums of its slices, and their group_by and group.

    The keys of a figure are model, setting, retriever, group_by and group: group_by is type, category, section,
    label_length or numeric, and group its value. By type, `answerable` is factual and multi-hop together and `all`
    every question. Metrics that concern no row of a group are left out. Retrieval alone has no model and no setting.
    """
    estimates = _with_undecided(sums, seed, resamples)
    return [
        Figure.of(slice_.metric.name, {**key._asdict(), "group_by": by, "group": name}, one)
        for (by, name), slice_, one in zip(groups, sums, estimates, strict=True)
        if one.rows or one.unscored
    ]


def _with_undecided(sums: Sequence[SliceSums], seed: int, resamples: int) -> list[Estimate]:
    """Return the estimates, with intervals of metrics that rest on grades that hold whatever missing grades would be.

    The lower bound takes all answers without a grade as 0, the upper bound as 1. All are multiplied with the same
    samples at once. Source: Horowitz and Manski 2000.
    """
    affected = [
        at for at, one in enumerate(sums) if one.metric.name in JUDGED and one.unscored.any() and one.rows.any()
    ]
    filled = [sums[at].taking_unscored_as(value) for at in affected for value in (0.0, 1.0)]
    estimates = estimate_sums([*sums, *filled], seed=seed, resamples=resamples)
    widened, bounds = estimates[: len(sums)], estimates[len(sums) :]
    for at, *extremes in zip(affected, bounds[::2], bounds[1::2], strict=True):
        lows = [one.low for one in (widened[at], *extremes) if one.low is not None]
        highs = [one.high for one in (widened[at], *extremes) if one.high is not None]
        widened[at] = replace(widened[at], low=min(lows, default=None), high=max(highs, default=None))
    return widened


Pair = tuple[CellKey, CellKey]
Wanted = Sequence[tuple[str, str]]
"""(metric, group by question type, or topic)"""

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
    *((HALLUCINATIONS, group) for group in ("answerable", "refusal", "all")),
    *((HALLUCINATIONS, topic) for topic in TOPICS),
)
"""Those by topic are compared between models only, not between settings of one model."""

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
    excluded: Callable[[CellKey, CellKey], Collection[str]] = lambda a, b: (),
) -> list[Difference]:
    """Return the differences of all pairs of cells that `alike_pairs` names.

    The key of a difference is group, those of its sides are model, setting and retriever. Pairs and metrics without
    two labels in common are left out.

    Args:
        cells: the Score rows of each cell.
        metrics: the metrics and question types to compare.
        seed: fixes the intervals.
        resamples: bootstrap resamples.
        flips: permutations of the test.
        wanted: chooses the pairs; Holm's correction counts no others.
        excluded: returns the metrics in which two cells may not be compared.

    Raises:
        ValueError: if a cell has a question twice.
    """
    pairs = comparison_pairs([pair for pair in alike_pairs(cells) if wanted(*pair)], metrics, excluded)
    return compare_pairs(cells, pairs, score_metrics(), seed, resamples, flips)


def compare_pairs(
    cells: Mapping[CellKey, pa.Table],
    pairs: Mapping[Pair, Wanted],
    metrics: Mapping[str, Metric],
    seed: int,
    resamples: int,
    flips: int,
) -> list[Difference]:
    """Return the differences of these pairs of cells, from their rows; the arguments are those of `comparisons`."""
    measured = {key: PairedRows(table) for key, table in cells.items()}
    found: list[Difference] = []
    for (a, b), wanted in pairs.items():
        slices = pair_slices(measured[a], metrics, wanted)
        differences = paired_differences(measured[a], measured[b], slices, seed=seed, resamples=resamples, flips=flips)
        found += named_differences((a, b), wanted, differences)
    return with_holm(found, ["group"])


def comparison_pairs(
    pairs: Iterable[Pair], metrics: Wanted, excluded: Callable[[CellKey, CellKey], Collection[str]]
) -> dict[Pair, Wanted]:
    """Return the metrics, each with its question types or topics, to compare in each pair, without those that are
    excluded there."""
    return {
        (a, b): [
            (metric, group)
            for metric, group in metrics
            if metric not in excluded(a, b) and (group not in TOPICS or a.model != b.model)
        ]
        for a, b in pairs
    }


def alike_pairs(cells: Collection[CellKey]) -> list[Pair]:
    """Return the pairs of cells that have the setting and retriever, or the model, in common.

    Answers of another program in a setting with a name of its own are compared with those of every cell.
    """
    given = {cell for cell in cells if cell.setting not in SETTINGS}
    return [(a, b) for a, b in combinations(cells, 2) if a[1:] == b[1:] or a.model == b.model or {a, b} & given]


def pair_slices(first: PairedRows, metrics: Mapping[str, Metric], wanted: Wanted) -> list[MetricSlice]:
    """Return the slices of a comparison, by the rows of its first cell."""
    groups = {name: rows for _, name, rows in type_groups(first.columns)}
    groups |= {topic: first.columns.is_in("category", topic) for topic in TOPICS}
    return [(metrics[metric], groups[group]) for metric, group in wanted]


def named_differences(pair: Pair, wanted: Wanted, differences: Iterable[Difference | None]) -> list[Difference]:
    """Return the differences that are defined, with the keys of the group and of both cells."""
    first, second = (cell._asdict() for cell in pair)
    return [
        replace(one, keys={"group": group}, first=first, second=second)
        for (_, group), one in zip(wanted, differences, strict=True)
        if one is not None
    ]
