"""From score rows to figures, paired comparisons of cells, and counts of each cell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.bootstrap import (
    FLIPS,
    RESAMPLES,
    Estimate,
    MetricSlice,
    PairedRows,
    estimate,
    holm,
    paired_differences,
)
from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, Mask, Metric, Numbers, ScoreColumns, graded, score_metrics
from fdarx_core.records import Comparison, Figure, SettingProgress


class CellKey(NamedTuple):
    """Who is asked and with what in view; `retriever` is "" but in the setting retrieved."""

    model: str
    setting: str
    retriever: str

    def __str__(self) -> str:
        return " · ".join(part for part in self if part)


TYPES = ("factual", "multihop", "refusal")
SMALLEST = 10
"""Questions that a category or section needs to stand alone; smaller ones go together as `OTHER`."""
OTHER = "other"
LENGTHS = ("short", "medium", "long")

Edges = tuple[float, float]
"""Characters up to which a label is short, and up to which it is medium."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that share something: `by` is the Figure's group_by, `name` its group."""

    by: str
    name: str
    rows: Mask


def type_groups(columns: ScoreColumns) -> list[Group]:
    """Each question type, `answerable` for all but refusal, and `all`."""
    by_type = {name: columns.is_in("type", name) for name in TYPES}
    together = {"answerable": ~by_type["refusal"], "all": np.ones(columns.rows, dtype=np.bool_)}
    return [Group("type", name, rows) for name, rows in (by_type | together).items()]


def subgroups(columns: ScoreColumns, edges: Edges) -> list[Group]:
    """The answerable questions by category, section, the label's length and whether the answer holds a number."""
    answerable = ~columns.is_in("type", "refusal")
    return [
        *_by_name(columns, "category", answerable),
        *_by_name(columns, "section", answerable),
        *_by_length(columns, edges, answerable),
        *_numeric(columns, answerable),
    ]


def length_edges(*tables: pa.Table) -> Edges:
    """The tertiles of label_characters over the distinct labels of Score or RetrievalScore tables.

    Give the tables of a whole evaluation, so that short means the same in all its cells.
    """
    lengths: dict[str, int] = {}
    for table in tables:
        distinct = table.select(["set_id", "label_characters"]).group_by(["set_id", "label_characters"]).aggregate([])
        lengths |= dict(zip(*(distinct[name].to_pylist() for name in ("set_id", "label_characters")), strict=True))
    low, high = np.quantile(list(lengths.values()), [1 / 3, 2 / 3]) if lengths else (0.0, 0.0)
    return float(low), float(high)


def _by_name(columns: ScoreColumns, by: str, among: Mask) -> list[Group]:
    values = columns.strings(by)
    names, rows = np.unique(values[among], return_counts=True)
    alone = [
        str(name) for name, count in zip(names, rows, strict=True) if name not in ("", OTHER) and count >= SMALLEST
    ]
    groups = [Group(by, name, among & (values == name)) for name in alone]
    return _filled([*groups, Group(by, OTHER, among & ~np.isin(values, alone))])


def _by_length(columns: ScoreColumns, edges: Edges, among: Mask) -> list[Group]:
    tertile = np.searchsorted(edges, columns.number("label_characters"))
    return _filled([Group("label_length", name, among & (tertile == at)) for at, name in enumerate(LENGTHS)])


def _numeric(columns: ScoreColumns, among: Mask) -> list[Group]:
    numeric = columns.number("numeric") > 0
    groups = [Group("numeric", "numeric", among & numeric), Group("numeric", "not numeric", among & ~numeric)]
    return _filled(groups)


def _filled(groups: list[Group]) -> list[Group]:
    return [group for group in groups if group.rows.any()]


SUBGROUP_METRICS = ("accuracy", "false_refusal_rate", "citation_f1", "citation_f1_eq")
RETRIEVAL_SUBGROUP_METRICS = ("recall_5", "mrr", "ndcg_10", "eq_recall_5")


def figures(scores: pa.Table, *, seed: int, resamples: int = RESAMPLES, edges: Edges | None = None) -> list[Figure]:
    """Every metric by question type, and `SUBGROUP_METRICS` by subgroup, of the Score rows of one cell.

    `edges` are `length_edges` of the whole evaluation, by default of this table. Metrics about no row of a group are
    left out. Raises ValueError if the rows are of several cells.
    """
    model, setting, retriever = _only_key(scores, ("model", "setting", "retriever"))
    return _figures(
        scores, CellKey(model, setting, retriever), score_metrics(), SUBGROUP_METRICS, seed, resamples, edges
    )


def retrieval_figures(
    scores: pa.Table, *, seed: int, resamples: int = RESAMPLES, edges: Edges | None = None
) -> list[Figure]:
    """As `figures`, of the RetrievalScore rows of one retriever; `model` and `setting` are ""."""
    (retriever,) = _only_key(scores, ("retriever",))
    return _figures(
        scores, CellKey("", "", retriever), RETRIEVAL_METRICS, RETRIEVAL_SUBGROUP_METRICS, seed, resamples, edges
    )


def _only_key(scores: pa.Table, names: tuple[str, ...]) -> tuple[str, ...]:
    keys = scores.select(list(names)).group_by(list(names)).aggregate([]).to_pylist()
    if len(keys) > 1:
        raise ValueError(f"rows of {len(keys)} cells, among them {keys[0]} and {keys[1]}; give the rows of one")
    return tuple(keys[0][name] for name in names) if keys else ("",) * len(names)


def _figures(
    scores: pa.Table,
    key: CellKey,
    aggregates: Mapping[str, Metric],
    by_subgroup: Iterable[str],
    seed: int,
    resamples: int,
    edges: Edges | None,
) -> list[Figure]:
    columns = ScoreColumns(scores)
    wanted = _by_type(columns, aggregates)
    for group in subgroups(columns, edges or length_edges(scores)):
        wanted += [(group, aggregates[name]) for name in by_subgroup]
    slices = [MetricSlice(aggregate, group.rows) for group, aggregate in wanted]
    estimates = estimate(columns, slices, seed=seed, resamples=resamples)
    return [
        _figure(key, group, aggregate.name, one)
        for (group, aggregate), one in zip(wanted, estimates, strict=True)
        if one.rows or one.unscored
    ]


def _figure(key: CellKey, group: Group, metric: str, one: Estimate) -> Figure:
    interval = (one.value, one.low, one.high)
    return Figure(*key, group.by, group.name, metric, *interval, one.rows, one.labels, one.unscored)


def _by_type(columns: ScoreColumns, aggregates: Mapping[str, Metric]) -> list[tuple[Group, Metric]]:
    groups = {group.name: group for group in type_groups(columns)}
    return [(groups[name], aggregate) for aggregate in aggregates.values() for name in aggregate.types]


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
    return _compare_all(cells, pairs, metrics, score_metrics(), seed, resamples, flips)


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
    return _compare_all(cells, pairs, metrics, RETRIEVAL_METRICS, seed, resamples, flips)


def _compare_all(
    cells: Mapping[CellKey, pa.Table],
    pairs: Sequence[tuple[CellKey, CellKey]],
    metrics: Wanted,
    aggregates: Mapping[str, Metric],
    seed: int,
    resamples: int,
    flips: int,
) -> list[Comparison]:
    measured = {key: PairedRows(table) for key, table in cells.items()}
    found: list[Comparison] = []
    for a, b in pairs:
        groups = {group.name: group.rows for group in type_groups(measured[a].columns)}
        slices = [MetricSlice(aggregates[metric], groups[group]) for metric, group in metrics]
        differences = paired_differences(measured[a], measured[b], slices, seed=seed, resamples=resamples, flips=flips)
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


def filled_cells(cells: Iterable[SettingProgress], scores: Mapping[CellKey, pa.Table]) -> list[SettingProgress]:
    """The cells with counts, tokens, cost and latencies filled in; a cell without Score rows stays as it is.

    The caller sets the cell's name, status, reason and due. Latencies are of questions that got a reply; `cost` is the
    sum of what has a price.
    """
    return [_filled_cells(cell, scores.get(CellKey(cell.model, cell.setting, cell.retriever))) for cell in cells]


def _filled_cells(cell: SettingProgress, table: pa.Table | None) -> SettingProgress:
    if table is None or not table.num_rows:
        return cell
    columns = ScoreColumns(table)
    outcomes = Counter(columns.strings("outcome").tolist())
    latencies = columns.number("latency_s")[~columns.is_in("outcome", "failed")]
    return replace(
        cell,
        answered=outcomes["answered"],
        refused=outcomes["refused"],
        unparsed=outcomes["unparsed"],
        failed=outcomes["failed"],
        prompt_tokens=_total(table, "prompt_tokens"),
        cached_tokens=_total(table, "cached_tokens"),
        completion_tokens=_total(table, "completion_tokens"),
        unscored=int(np.count_nonzero(~graded(columns))),
        cost=pc.sum(table["cost"]).as_py(),
        latency_p50=_quantile(latencies, 0.50),
        latency_p95=_quantile(latencies, 0.95),
    )


def _total(table: pa.Table, name: str) -> int:
    return int(pc.sum(table[name]).as_py() or 0)


def _quantile(values: Numbers, share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None
