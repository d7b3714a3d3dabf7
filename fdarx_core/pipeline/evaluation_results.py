"""The figures of an evaluation from its scored parts, which are read into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.figures import (
    RETRIEVAL_SUBGROUP_METRICS,
    SUBGROUP_METRICS,
    CellKey,
    cell_figures,
    comparable_metrics,
    compare_pairs,
    compared_retrieval_metrics,
    length_edges,
    related_pairs,
    with_provenance,
)
from fdarx_core.evaluation.metrics import (
    RETRIEVAL_METRICS,
    SCORE_METRICS,
    AnswerFunction,
    Metric,
    ScoreColumns,
    added_metrics,
    graded,
)
from fdarx_core.pipeline.evaluation_models import with_bert_scores
from fdarx_core.records import Difference, Figure, RetrievalScore, Score, SettingProgress, arrow_schema
from fdarx_core.storage import Location, RunDirectory, read_tables, write_records

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_OUTCOMES = ("answered", "refused", "unparsed", "failed")


def write_results(
    run: RunDirectory,
    cells: Sequence[SettingProgress],
    retrievers: Sequence[str],
    *,
    seed: int,
    resamples: int,
    added: Sequence[AnswerFunction | Metric] = (),
) -> list[SettingProgress]:
    """Write the figures, comparisons and cells of a run as Parquet, and the figures by question type as metrics.json.

    The rows of all cells are in memory: 0.9 KB for each answer, of which their comparison takes 0.6 KB.

    Args:
        run: the run with its scored parts.
        cells: the cells with their status and the questions due.
        retrievers: the retrievers with rankings.
        seed: fixes the intervals.
        resamples: bootstrap resamples.
        added: metrics besides those that FDARx and installed packages have.

    Returns:
        The cells with their counts.
    """
    options: dict[str, Any] = {"seed": seed, "resamples": resamples}
    scored = answer_scores(run, cells)
    by_key = {CellKey(cell.model, cell.setting, cell.retriever): cell for cell in cells}
    by_key |= {key: with_counts(cell, scored[key]) for key, cell in by_key.items() if key in scored}
    answers = {key: scored[key] for key in by_key if key in scored}
    made: list[Figure] = []
    metrics, edges = SCORE_METRICS | added_metrics(tuple(added)), length_edges(answers.values())
    for key, rows in answers.items():
        found = cell_figures(key, rows, metrics, SUBGROUP_METRICS, edges, **options)
        made += with_provenance(found, by_key[key])
    compared = compare_pairs(answers, comparable_metrics(related_pairs(answers), by_key), metrics, **options)
    ranked: dict[CellKey, pa.Table] = {}
    for retriever in retrievers:
        rows = _read(run.parts(f"retrieval_scores/{retriever}"), RetrievalScore)
        if rows.num_rows:
            key = CellKey("", "", retriever)
            ranked[key] = rows
            made += cell_figures(
                key, rows, RETRIEVAL_METRICS, RETRIEVAL_SUBGROUP_METRICS, length_edges([rows]), **options
            )
    pairs = dict.fromkeys(related_pairs(ranked), compared_retrieval_metrics())
    compared += compare_pairs(ranked, pairs, RETRIEVAL_METRICS, **options)
    filled = list(by_key.values())
    write_records(run.file("metrics.parquet"), made, Figure)
    write_records(run.file("comparisons.parquet"), compared, Difference)
    write_records(run.file("cells.parquet"), filled, SettingProgress)
    run.file("metrics.json").write_bytes(orjson.dumps(figures_by_cell(made), option=orjson.OPT_INDENT_2))
    return filled


def answer_scores(run: RunDirectory, cells: Sequence[SettingProgress]) -> dict[CellKey, pa.Table]:
    """Return the Score rows of each cell of the models of these cells, with BERTScores."""
    scored: dict[CellKey, pa.Table] = {}
    for model in dict.fromkeys(cell.model for cell in cells):
        table = _read(run.parts(f"scores/{model}"), Score)
        if semantic := run.parts(f"bert_scores/{model}"):
            table = with_bert_scores(semantic, table)
        for names in table.group_by(list(CellKey._fields)).aggregate([]).to_pylist():
            matching = reduce(pc.and_, (pc.equal(table[field], name) for field, name in names.items()))
            scored[CellKey(**names)] = table.filter(matching)
    return scored


def _read(parts: Sequence[Location], record: type) -> pa.Table:
    """Return the rows of parts as one table."""
    return pa.concat_tables([arrow_schema(record).empty_table(), *read_tables(parts)]).combine_chunks()


def with_counts(cell: SettingProgress, rows: pa.Table) -> SettingProgress:
    """Return a cell with the counts, tokens, cost and latencies of its Score rows.

    Latencies are of questions with a reply; `cost` is the sum of the known costs.
    """
    columns = ScoreColumns(rows)
    latencies = columns.number("latency_s")[~columns.is_in("outcome", "failed")]
    p50, p95 = (float(np.quantile(latencies, share)) if len(latencies) else None for share in (0.50, 0.95))
    shown = rows["gold_shown"]
    counted = {
        "cut": pc.greater(rows["cuts"], 0),
        "gold_due": pc.is_valid(shown),
        "gold_shown": pc.equal(shown, rows["gold"]),
        **{name: rows[name] for name in _TOKENS},
        **{name: pc.equal(rows["outcome"], name) for name in _OUTCOMES},
    }
    counts: dict[str, Any] = {name: int(pc.sum(values).as_py() or 0) for name, values in counted.items()}
    counts["unscored"] = int(np.count_nonzero(~graded(columns)))
    return replace(cell, **counts, cost=pc.sum(rows["cost"]).as_py(), latency_p50=p50, latency_p95=p95)


_GROUPINGS = {"type": "metrics", "category": "topics"}
"""The names in metrics.json of the figures by question type and by topic."""


def figures_by_cell(rows: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return an entry for each cell: what its figures rest on, and value, low, high and counts of each metric by
    question type (`metrics`) and by topic (`topics`)."""
    cells: dict[CellKey, dict[str, Any]] = {}
    for row in rows:
        if (name := _GROUPINGS.get(row.keys["group_by"])) is None:
            continue
        key = CellKey(*(row.keys[field] for field in CellKey._fields))
        if key not in cells:
            cells[key] = {**key._asdict(), **row.provenance(), **{grouping: {} for grouping in _GROUPINGS.values()}}
        figure = {field: getattr(row, field) for field in ("value", "low", "high", "rows", "unscored")}
        cells[key][name].setdefault(row.metric, {})[row.keys["group"]] = figure
    return list(cells.values())
