"""Figures and differences of tables of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations

import pyarrow as pa

from fdarx_core.evaluation.bootstrap import FLIPS, RESAMPLES
from fdarx_core.evaluation.figures import (
    RETRIEVAL_SUBGROUP_METRICS,
    SUBGROUP_METRICS,
    CellKey,
    Edges,
    MetricGroups,
    cell_figures,
    comparable_metrics,
    compare_pairs,
    compared_retrieval_metrics,
    length_edges,
    related_pairs,
)
from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, SCORE_METRICS, Metric, added_metrics
from fdarx_core.pipeline.evaluation_results import with_counts
from fdarx_core.records import Difference, Figure, SettingProgress


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
    return _figures(scores, key, SCORE_METRICS | added_metrics(), SUBGROUP_METRICS, seed, resamples, edges)


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
    edges = edges or length_edges([scores])
    return cell_figures(key, scores, metrics, by_subgroup, edges, seed=seed, resamples=resamples)


def compare_retrievers(
    tables: Mapping[str, pa.Table], *, seed: int, resamples: int = RESAMPLES, flips: int = FLIPS
) -> list[Difference]:
    """Return the differences of all pairs of retrievers, from their RetrievalScore rows by name."""
    cells = {CellKey("", "", retriever): table for retriever, table in tables.items()}
    pairs = dict.fromkeys(combinations(cells, 2), compared_retrieval_metrics())
    return compare_pairs(cells, pairs, RETRIEVAL_METRICS, seed=seed, resamples=resamples, flips=flips)


def comparisons(
    cells: Mapping[CellKey, pa.Table],
    metrics: MetricGroups = (),
    *,
    seed: int,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
    wanted: Callable[[CellKey, CellKey], bool] = lambda a, b: True,
) -> list[Difference]:
    """Return the differences of the wanted pairs of cells that have something in common, by default in all metrics."""
    progress = {key: SettingProgress(*key, "done") for key in cells}
    pairs = comparable_metrics([pair for pair in related_pairs(cells) if wanted(*pair)], progress)
    if metrics:
        pairs = dict.fromkeys(pairs, metrics)
    return compare_pairs(cells, pairs, SCORE_METRICS, seed=seed, resamples=resamples, flips=flips)


def filled_cells(cells: Iterable[SettingProgress], scores: Mapping[CellKey, pa.Table]) -> list[SettingProgress]:
    """Return the cells with counts, tokens, cost and latencies; a cell without Score rows is returned unchanged."""
    found = ((cell, scores.get(CellKey(cell.model, cell.setting, cell.retriever))) for cell in cells)
    return [with_counts(cell, table) if table else cell for cell, table in found]
