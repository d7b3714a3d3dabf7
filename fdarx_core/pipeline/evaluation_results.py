"""The figures, comparisons and cells of an evaluation from the scores of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.figures import (
    CellKey,
    compare_retrievers,
    comparisons,
    figures,
    filled_cells,
    length_edges,
    retrieval_figures,
)
from fdarx_core.pipeline.evaluation_models import with_bert_scores
from fdarx_core.records import Difference, Figure, RetrievalScore, Score, SettingProgress, arrow_schema
from fdarx_core.report.evaluation_page import row_name
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records


def write_results(
    run: RunDirectory, cells: Sequence[SettingProgress], retrievers: Sequence[str], *, seed: int, resamples: int
) -> list[SettingProgress]:
    """Write the figures, comparisons and cells of a run as Parquet, and the figures by question type as metrics.json.

    Args:
        run: the run with its scored parts.
        cells: the cells with their status and the questions due.
        retrievers: the retrievers with rankings.
        seed: fixes the intervals.
        resamples: bootstrap resamples.

    Returns:
        The cells with their counts.
    """
    scores: dict[CellKey, pa.Table] = {
        CellKey(one.model, one.setting, one.retriever): table
        for one in cells
        if (table := _scores(run, one)) is not None
    }
    ranked = {
        name: table
        for name in retrievers
        if (table := _table(run, f"retrieval_scores/{name}", RetrievalScore)).num_rows
    }
    made: list[Figure] = []
    compared: list[Difference] = []
    if scores:
        edges = length_edges(
            pa.concat_tables(table.select(["set_id", "label_characters"]) for table in scores.values())
        )
        for table in scores.values():
            made += figures(table, seed=seed, resamples=resamples, edges=edges)
        compared += comparisons(scores, seed=seed, resamples=resamples)
    for table in ranked.values():
        made += retrieval_figures(table, seed=seed, resamples=resamples)
    compared += compare_retrievers(ranked, seed=seed, resamples=resamples)
    filled = filled_cells(cells, scores)
    write_records(run.file("metrics.parquet"), made, Figure)
    write_records(run.file("comparisons.parquet"), compared, Difference)
    write_records(run.file("cells.parquet"), filled, SettingProgress)
    run.file("metrics.json").write_bytes(orjson.dumps(figures_by_cell(made), option=orjson.OPT_INDENT_2))
    return filled


def compare_runs(runs: Sequence[RunDirectory], names: Sequence[str], *, seed: int, resamples: int) -> list[Difference]:
    """Compare cells of different runs in the same setting, on the questions that both have.

    `names` are the names of the runs; each model is called by `row_name`. Raises StorageError where a run has no cells.
    """
    cells: dict[CellKey, pa.Table] = {}
    run_of: dict[str, str] = {}
    for run, name in zip(runs, names, strict=True):
        for one in read_records(run.file("cells.parquet"), SettingProgress):
            table = _scores(run, one)
            model = row_name(name, one.model)
            run_of[model] = name
            if table is not None:
                cells[CellKey(model, one.setting, one.retriever)] = table

    def of_two_runs(a: CellKey, b: CellKey) -> bool:
        return run_of[a.model] != run_of[b.model]

    return comparisons(cells, seed=seed, resamples=resamples, wanted=of_two_runs)


def merge_cells(parts: Iterable[Sequence[SettingProgress]], wanted: Sequence[CellKey]) -> list[SettingProgress]:
    """Merge the cells of the parts of a model: done where every part is done, with the most frequent reason."""
    sums: dict[CellKey, SettingProgress] = {key: SettingProgress(*key, status="done") for key in wanted}
    reasons: dict[CellKey, Counter[str]] = {key: Counter() for key in wanted}
    for part in parts:
        for one in part:
            key = CellKey(one.model, one.setting, one.retriever)
            if one.status != sums[key].status and one.status == "incomplete":
                sums[key].status, reasons[key] = one.status, Counter()
            sums[key].due += one.due
            if one.reason and one.status == sums[key].status:
                reasons[key][one.reason] += 1
    for key, found in reasons.items():
        sums[key].reason = found.most_common(1)[0][0] if found else ""
    return list(sums.values())


def _scores(run: RunDirectory, cell: SettingProgress) -> pa.Table | None:
    table = _table(run, f"scores/{cell.model}", Score)
    mine = (pc.field("setting") == cell.setting) & (pc.field("retriever") == cell.retriever)
    found = with_bert_scores(run, cell.model, table.filter(mine))
    return found if found.num_rows else None


def _table(run: RunDirectory, kind: str, record: type) -> pa.Table:
    """Return the rows of all parts; a column that an earlier version did not write is null."""
    schema = arrow_schema(record)
    tables = [read_table(place) for place in run.parts(kind)]
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default").select(schema.names)


def figures_by_cell(rows: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return an entry for each cell: value, low, high and rows of each metric by question type."""
    cells: dict[CellKey, dict[str, Any]] = {}
    for row in rows:
        if row.keys["group_by"] == "type":
            key = CellKey(*(row.keys[name] for name in CellKey._fields))
            metrics: Mapping[str, Any] = {"value": row.value, "low": row.low, "high": row.high, "rows": row.rows}
            cells.setdefault(key, {}).setdefault(row.metric, {})[row.keys["group"]] = metrics
    return [{**key._asdict(), "metrics": metrics} for key, metrics in cells.items()]
