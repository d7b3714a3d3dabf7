"""From the Score rows of a cell, or the RetrievalScore rows of a retriever, to its Figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from fdarx_core.evaluation.aggregates import RETRIEVAL_AGGREGATES, SCORE_AGGREGATES, Aggregate, Columns
from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.groups import Edges, Group, length_edges, subgroups, type_groups
from fdarx_core.evaluation.statistics import Estimate, Slice, estimate
from fdarx_core.evaluation.statistics.bootstrap import RESAMPLES
from fdarx_core.records import Figure

SUBGROUP_METRICS = ("accuracy", "false_refusal_rate", "citation_f1", "citation_f1_eq")
RETRIEVAL_SUBGROUP_METRICS = ("recall_5", "mrr", "ndcg_10", "eq_recall_5")


def figures(scores: pa.Table, *, seed: int, resamples: int = RESAMPLES, edges: Edges | None = None) -> list[Figure]:
    """Every metric by question type, and `SUBGROUP_METRICS` by subgroup, of the Score rows of one cell.

    `edges` are `length_edges` of the whole evaluation, by default of this table. Metrics about no row of a group are
    left out. Raises ValueError if the rows are of several cells.
    """
    model, setting, retriever = _only_key(scores, ("model", "setting", "retriever"))
    return _figures(
        scores, CellKey(model, setting, retriever), SCORE_AGGREGATES, SUBGROUP_METRICS, seed, resamples, edges
    )


def retrieval_figures(
    scores: pa.Table, *, seed: int, resamples: int = RESAMPLES, edges: Edges | None = None
) -> list[Figure]:
    """As `figures`, of the RetrievalScore rows of one retriever; `model` and `setting` are ""."""
    (retriever,) = _only_key(scores, ("retriever",))
    return _figures(
        scores, CellKey("", "", retriever), RETRIEVAL_AGGREGATES, RETRIEVAL_SUBGROUP_METRICS, seed, resamples, edges
    )


def _only_key(scores: pa.Table, names: tuple[str, ...]) -> tuple[str, ...]:
    keys = scores.select(list(names)).group_by(list(names)).aggregate([]).to_pylist()
    if len(keys) > 1:
        raise ValueError(f"rows of {len(keys)} cells, among them {keys[0]} and {keys[1]}; give the rows of one")
    return tuple(keys[0][name] for name in names) if keys else ("",) * len(names)


def _figures(
    scores: pa.Table,
    key: CellKey,
    aggregates: Mapping[str, Aggregate],
    by_subgroup: Iterable[str],
    seed: int,
    resamples: int,
    edges: Edges | None,
) -> list[Figure]:
    columns = Columns(scores)
    wanted = _by_type(columns, aggregates)
    for group in subgroups(columns, edges or length_edges(scores)):
        wanted += [(group, aggregates[name]) for name in by_subgroup]
    slices = [Slice(aggregate, group.rows) for group, aggregate in wanted]
    estimates = estimate(columns, slices, seed=seed, resamples=resamples)
    return [
        _figure(key, group, aggregate.name, one)
        for (group, aggregate), one in zip(wanted, estimates, strict=True)
        if one.rows or one.unscored
    ]


def _figure(key: CellKey, group: Group, metric: str, one: Estimate) -> Figure:
    interval = (one.value, one.low, one.high)
    return Figure(*key, group.by, group.name, metric, *interval, one.rows, one.labels, one.unscored)


def _by_type(columns: Columns, aggregates: Mapping[str, Aggregate]) -> list[tuple[Group, Aggregate]]:
    groups = {group.name: group for group in type_groups(columns)}
    return [(groups[name], aggregate) for aggregate in aggregates.values() for name in aggregate.types]
