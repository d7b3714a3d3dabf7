"""Figures of an evaluation from its score rows: metrics by group, differences of cells, and counts of each cell."""

from __future__ import annotations

from collections import Counter
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
    slice_sums,
    with_holm,
)
from fdarx_core.evaluation.cell_sums import CellCounts, label_lengths
from fdarx_core.evaluation.metrics import (
    JUDGED,
    RETRIEVAL_METRICS,
    Mask,
    Metric,
    ScoreColumns,
    score_metrics,
)
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.records import Difference, Estimate, Figure, SettingProgress


class CellKey(NamedTuple):
    """A model in a setting; `retriever` is "" except in the setting retrieved."""

    model: str
    setting: str
    retriever: str

    def __str__(self) -> str:
        return " · ".join(part for part in self if part)


TYPES = ("factual", "multihop", "refusal")
SMALLEST = 10
"""Questions that a category or section needs for figures of its own; smaller ones are pooled as `OTHER`."""
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


def subgroups(columns: ScoreColumns, edges: Edges, standing: StandingNames | None = None) -> list[Group]:
    """Return the answerable questions by category, section, length of the label and whether the answer has a number.

    Without `standing`, the names that have enough rows here stand alone, and groups without rows are left out.
    """
    answerable = ~columns.is_in("type", "refusal")
    tertile = np.searchsorted(edges, columns.number("label_characters"))
    numeric = columns.number("numeric") > 0
    groups: list[Group] = [
        *_by_name(columns, "category", answerable, standing),
        *_by_name(columns, "section", answerable, standing),
        *(("label_length", name, answerable & (tertile == at)) for at, name in enumerate(LENGTHS)),
        ("numeric", "numeric", answerable & numeric),
        ("numeric", "not numeric", answerable & ~numeric),
    ]
    return groups if standing is not None else [group for group in groups if group[2].any()]


def length_edges(*tables: pa.Table) -> Edges:
    """Return the tertiles of label_characters over the distinct labels of Score or RetrievalScore tables.

    Give the tables of a whole evaluation, so that "short" means the same in all its cells.
    """
    return tertiles({name: length for table in tables for name, length in label_lengths(table).items()}.values())


def tertiles(lengths: Collection[int]) -> Edges:
    """Return the tertiles of the lengths of labels; 0 without labels."""
    low, high = np.quantile(list(lengths), [1 / 3, 2 / 3]) if lengths else (0.0, 0.0)
    return float(low), float(high)


def _by_name(columns: ScoreColumns, by: str, among: Mask, standing: StandingNames | None) -> list[Group]:
    values = columns.strings(by)
    if standing is None:
        standing = {by: standing_names(Counter(values[among].tolist()))}
    alone = standing[by]
    groups: list[Group] = [(by, name, among & (values == name)) for name in alone]
    return [*groups, (by, OTHER, among & ~np.isin(values, np.asarray(alone, dtype=np.str_)))]


def standing_names(rows: Mapping[str, int]) -> list[str]:
    """Return the names that have enough rows for figures of their own, in ascending order."""
    return sorted(name for name, count in rows.items() if name not in ("", OTHER) and count >= SMALLEST)


SUBGROUP_METRICS = ("accuracy", "false_refusal_rate", "citation_f1", "citation_f1_eq")
RETRIEVAL_SUBGROUP_METRICS = ("recall_5", "mrr", "ndcg_10", "eq_recall_5")


def figures(scores: pa.Table, *, seed: int, resamples: int = RESAMPLES, edges: Edges | None = None) -> list[Figure]:
    """Return every metric by question type, and `SUBGROUP_METRICS` by subgroup, of the Score rows of one cell.

    The keys of a figure are model, setting, retriever, group_by and group: group_by is type, category, section,
    label_length or numeric, and group its value. By type, `answerable` is factual and multi-hop together and `all`
    every question. A cluster is a label. Metrics that concern no row of a group are left out.

    Args:
        scores: the rows of one cell.
        seed: fixes the intervals.
        resamples: bootstrap resamples.
        edges: `length_edges` of the whole evaluation, by default of this table.

    Raises:
        ValueError: if the rows are of several cells.
    """
    key = _only_cell(scores, ("model", "setting", "retriever"))
    return _figures(scores, key, score_metrics(), SUBGROUP_METRICS, seed, resamples, edges)


def retrieval_figures(scores: pa.Table, *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return the same for the RetrievalScore rows of one retriever; the keys model and setting are ""."""
    key = _only_cell(scores, ("retriever",))
    return _figures(scores, key, RETRIEVAL_METRICS, RETRIEVAL_SUBGROUP_METRICS, seed, resamples, None)


def _only_cell(scores: pa.Table, names: tuple[str, ...]) -> CellKey:
    keys = scores.select(list(names)).group_by(list(names)).aggregate([]).to_pylist()
    if len(keys) > 1:
        raise ValueError(f"rows of {len(keys)} cells, among them {keys[0]} and {keys[1]}; give the rows of one")
    return CellKey(**{"model": "", "setting": "", "retriever": "", **(keys[0] if keys else {})})


def _figures(
    scores: pa.Table,
    key: CellKey,
    metrics: Mapping[str, Metric],
    by_subgroup: Iterable[str],
    seed: int,
    resamples: int,
    edges: Edges | None,
) -> list[Figure]:
    columns = ScoreColumns(scores)
    named = figure_slices(columns, metrics, by_subgroup, edges or length_edges(scores))
    sums = slice_sums(columns, [one for _, _, one in named])
    return figures_of_sums(key, [(by, name) for by, name, _ in named], sums, seed=seed, resamples=resamples)


def figure_slices(
    columns: ScoreColumns,
    metrics: Mapping[str, Metric],
    by_subgroup: Iterable[str],
    edges: Edges,
    standing: StandingNames | None = None,
) -> list[tuple[str, str, MetricSlice]]:
    """Return the slice of each figure of a cell, with its group_by and group. `standing` is as in `subgroups`."""
    types = {name: rows for _, name, rows in type_groups(columns)}
    named = [("type", name, (metric, types[name])) for metric in metrics.values() for name in metric.types]
    for by, name, rows in subgroups(columns, edges, standing):
        named += [(by, name, (metrics[metric], rows)) for metric in by_subgroup]
    return named


def figures_of_sums(
    key: CellKey, groups: Sequence[tuple[str, str]], sums: Sequence[SliceSums], *, seed: int, resamples: int = RESAMPLES
) -> list[Figure]:
    """Return the figures of a cell as `figures` does, from the sums of its slices and their group_by and group."""
    estimates = _with_undecided(sums, estimate_sums(sums, seed=seed, resamples=resamples), seed, resamples)
    return [
        Figure.of(slice_.metric.name, {**key._asdict(), "group_by": by, "group": name}, one)
        for (by, name), slice_, one in zip(groups, sums, estimates, strict=True)
        if one.rows or one.unscored
    ]


def _with_undecided(
    sums: Sequence[SliceSums], estimates: Sequence[Estimate], seed: int, resamples: int
) -> list[Estimate]:
    """Widen the intervals of metrics that rest on grades, so that they hold whatever the missing grades would be.

    The lower bound takes all answers without a grade as 0, the upper bound as 1. Source: Horowitz and Manski 2000.
    """
    widened = list(estimates)
    affected = [at for at, one in enumerate(estimates) if one.unscored and one.rows and sums[at].metric.name in JUDGED]
    for taken_as in (0.0, 1.0):
        filled = [sums[at].taking_unscored_as(taken_as) for at in affected]
        for at, bound in zip(affected, estimate_sums(filled, seed=seed, resamples=resamples), strict=True):
            lows = [one.low for one in (widened[at], bound) if one.low is not None]
            highs = [one.high for one in (widened[at], bound) if one.high is not None]
            widened[at] = replace(widened[at], low=min(lows, default=None), high=max(highs, default=None))
    return widened


Pair = tuple[CellKey, CellKey]
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
    return _compare_all(cells, pairs, score_metrics(), seed, resamples, flips)


def comparison_pairs(
    pairs: Iterable[Pair], metrics: Wanted, excluded: Callable[[CellKey, CellKey], Collection[str]]
) -> dict[Pair, Wanted]:
    """Return the metrics and question types to compare in each pair, without those that are excluded there."""
    return {(a, b): [one for one in metrics if one[0] not in excluded(a, b)] for a, b in pairs}


def alike_pairs(cells: Collection[CellKey]) -> list[Pair]:
    """Return the pairs of cells that have the setting and retriever, or the model, in common.

    Answers of another program in a setting with a name of its own are compared with those of every cell.
    """
    given = {cell for cell in cells if cell.setting not in SETTINGS}
    return [(a, b) for a, b in combinations(cells, 2) if a[1:] == b[1:] or a.model == b.model or {a, b} & given]


def compare_retrievers(
    tables: Mapping[str, pa.Table], *, seed: int, resamples: int = RESAMPLES, flips: int = FLIPS
) -> list[Difference]:
    """Return the differences of all pairs of retrievers, from their RetrievalScore rows by name."""
    cells = {CellKey("", "", retriever): table for retriever, table in tables.items()}
    pairs = dict.fromkeys(combinations(cells, 2), COMPARED_RETRIEVERS)
    return _compare_all(cells, pairs, RETRIEVAL_METRICS, seed, resamples, flips)


def _compare_all(
    cells: Mapping[CellKey, pa.Table],
    pairs: Mapping[Pair, Wanted],
    metrics: Mapping[str, Metric],
    seed: int,
    resamples: int,
    flips: int,
) -> list[Difference]:
    measured = {key: PairedRows(table) for key, table in cells.items()}
    found: list[Difference] = []
    for (a, b), wanted in pairs.items():
        slices = pair_slices(measured[a], metrics, wanted)
        differences = paired_differences(measured[a], measured[b], slices, seed=seed, resamples=resamples, flips=flips)
        found += named_differences((a, b), wanted, differences)
    return with_holm(found, ["group"])


def pair_slices(first: PairedRows, metrics: Mapping[str, Metric], wanted: Wanted) -> list[MetricSlice]:
    """Return the slices of a comparison, by the rows of its first cell."""
    groups = {name: rows for _, name, rows in type_groups(first.columns)}
    return [(metrics[metric], groups[group]) for metric, group in wanted]


def named_differences(pair: Pair, wanted: Wanted, differences: Iterable[Difference | None]) -> list[Difference]:
    """Return the differences that are defined, with the keys of the group and of both cells."""
    first, second = (cell._asdict() for cell in pair)
    return [
        replace(one, keys={"group": group}, first=first, second=second)
        for (_, group), one in zip(wanted, differences, strict=True)
        if one is not None
    ]


def filled_cells(cells: Iterable[SettingProgress], scores: Mapping[CellKey, pa.Table]) -> list[SettingProgress]:
    """Return the cells with counts, tokens, cost and latencies; a cell without Score rows is returned unchanged.

    The caller sets the keys, status, reason and due of a cell. Latencies are of questions with a reply; `cost` is the
    sum of the known costs.
    """
    return [
        CellCounts.of(table).fill(cell)
        if (table := scores.get(CellKey(cell.model, cell.setting, cell.retriever)))
        else cell
        for cell in cells
    ]
