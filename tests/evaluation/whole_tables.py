"""Figures of whole tables of rows in one step: what the figures of an evaluation's parts are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

import pyarrow as pa

from fdarx_core.evaluation.bootstrap import FLIPS, RESAMPLES, slice_sums
from fdarx_core.evaluation.cell_sums import CellCounts, label_lengths
from fdarx_core.evaluation.figures import (
    COMPARED_RETRIEVERS,
    RETRIEVAL_SUBGROUP_METRICS,
    SUBGROUP_METRICS,
    CellKey,
    Edges,
    Group,
    StandingNames,
    compare_pairs,
    figure_slices,
    figures_of_sums,
    standing_names,
    subgroups,
    tertiles,
)
from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, Metric, ScoreColumns, score_metrics
from fdarx_core.records import Difference, Figure, SettingProgress


def length_edges(*tables: pa.Table) -> Edges:
    """Return the tertiles of label_characters over the distinct labels of Score or RetrievalScore tables.

    Give the tables of a whole evaluation, so that "short" means the same in all its cells.
    """
    return tertiles({name: length for table in tables for name, length in label_lengths(table).items()}.values())


def standing(columns: ScoreColumns) -> StandingNames:
    """Return the categories and sections that have figures of their own in these rows."""
    answerable = ~columns.is_in("type", "refusal")
    sections = Counter(columns.strings("section")[answerable].tolist())
    return standing_names({"category": Counter(columns.strings("category").tolist()), "section": sections})


def filled_subgroups(columns: ScoreColumns, edges: Edges) -> list[Group]:
    """Return the subgroups that have rows."""
    return [group for group in subgroups(columns, edges, standing(columns)) if group[2].any()]


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
    named = figure_slices(columns, metrics, by_subgroup, edges or length_edges(scores), standing(columns))
    sums = slice_sums(columns, [one for _, _, one in named])
    return figures_of_sums(key, [(by, name) for by, name, _ in named], sums, seed=seed, resamples=resamples)


def compare_retrievers(
    tables: Mapping[str, pa.Table], *, seed: int, resamples: int = RESAMPLES, flips: int = FLIPS
) -> list[Difference]:
    """Return the differences of all pairs of retrievers, from their RetrievalScore rows by name."""
    cells = {CellKey("", "", retriever): table for retriever, table in tables.items()}
    pairs = dict.fromkeys(combinations(cells, 2), COMPARED_RETRIEVERS)
    return compare_pairs(cells, pairs, RETRIEVAL_METRICS, seed, resamples, flips)


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
