"""The pages of one evaluation and of several evaluations side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fdarx_core.evaluation.paper_tables import added_metrics_table, table_1, table_2, table_8
from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.records import Comparison, Figure
from fdarx_core.report import evaluation_figures
from fdarx_core.report.evaluation_figures import (
    MISSING,
    EvaluationTables,
    benchmark_name,
    calibrated_parts,
    read_evaluation_tables,
    subgroups,
)
from fdarx_core.report.page_engine import Cell, duration, environment, paper_table, plain_table
from fdarx_core.report.traces import find_question_answers, question_answers_text
from fdarx_core.report.wrong_answers import (
    GROUP_NAMES,
    KINDS,
    METRIC_NAMES,
    NO_VERDICT,
    STATUS_NAMES,
    WrongAnswerPayload,
    WrongAnswers,
    collect_wrong,
    plural,
    read_sources,
    setting_name,
)
from fdarx_core.storage import RunDirectory

SIGNIFICANT = 0.05
"""Of p after Holm's correction."""


def differences(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What the page's script reads: `level` of significance and `rows`, the surest first.

    A row is metric, questions, A, B, difference, low, high, p, p after Holm, number of questions and of labels.
    """
    ordered = sorted(comparisons, key=lambda one: (one.p_holm, one.p, -abs(one.difference)))
    return {"level": SIGNIFICANT, "rows": [_row(one) for one in ordered]}


def _row(one: Comparison) -> list[str | int | float]:
    return [
        METRIC_NAMES.get(one.metric, one.metric),
        GROUP_NAMES.get(one.group, one.group),
        _named(one.model_a, one.setting_a, one.retriever_a),
        _named(one.model_b, one.setting_b, one.retriever_b),
        *(round(value, 5) for value in (one.difference, one.low, one.high, one.p, one.p_holm)),
        one.rows,
        one.labels,
    ]


def _named(model: str, setting: str, retriever: str) -> str:
    """ "model · Full label"; a retriever alone by its name."""
    return f"{model} · {setting_name(setting, retriever)}" if model else retriever


CELL_HEADER = (
    "Model", "Setting", "Status", "Due", "Answered", "Refused", "Unparsed", "Failed", "Unscored",
    "Tokens in", "From cache", "Tokens out", "USD", "Latency p50, s", "p95, s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FailedCells:
    """Settings in which a model's cells are not done, all for one reason."""

    model: str
    settings: list[str]
    status: str
    counts: str
    reason: str


def troubles(sheets: EvaluationTables) -> list[FailedCells]:
    """Cells that are not done, those of one model that share status and reason together."""
    groups = defaultdict(list)
    for cell in sheets.cells:
        if cell.status != "done":
            groups[cell.model, cell.status, cell.reason].append(cell)
    return [
        FailedCells(
            model,
            [setting_name(cell.setting, cell.retriever) for cell in cells],
            STATUS_NAMES.get(status, status),
            _counts(sum(cell.failed for cell in cells), sum(cell.due for cell in cells)),
            reason,
        )
        for (model, status, reason), cells in groups.items()
    ]


def cell_rows(sheets: EvaluationTables) -> list[list[Cell]]:
    """The rows below `CELL_HEADER`."""
    return [
        [
            cell.model, setting_name(cell.setting, cell.retriever), STATUS_NAMES.get(cell.status, cell.status),
            cell.due, cell.answered, cell.refused, cell.unparsed, cell.failed, cell.unscored,
            cell.prompt_tokens, _share(cell.cached_tokens, cell.prompt_tokens), cell.completion_tokens,
            _amount(cell.cost), _amount(cell.latency_p50), _amount(cell.latency_p95),
        ]
        for cell in sheets.cells
    ]  # fmt: skip


def wrong_rows(found: WrongAnswers) -> tuple[list[str], list[list[Cell]]]:
    """Header and rows of the counts by cell and kind; kinds that never occur are left out."""
    kinds = [kind for kind in KINDS if any(kind == counted for _, counted in found.counts)]
    cells: Mapping[tuple[str, str, str], None] = dict.fromkeys(cell for cell, _ in found.counts)
    rows: list[list[Cell]] = [
        [cell[0], setting_name(*cell[1:]), *(found.counts[cell, kind] for kind in kinds)] for cell in cells
    ]
    return ["Model", "Setting", *(KINDS[kind] for kind in kinds)], rows


def _counts(failed: int, due: int) -> str:
    return f"{failed:,} of {plural(due, 'question')} failed" if failed else ""


def _amount(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.2f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else MISSING


def build_evaluation_report(
    run: RunDirectory, summary: Mapping[str, Any] | None = None, calibrated: Sequence[ResultTable] = ()
) -> str:
    """The page for an evaluation whose tables and rows are all on disk. Memory is bounded by one part of the run.

    `summary` is what `RunDirectory.finish` will add to run.json, for a page that is written before it; `calibrated` are
    the tables that `calibrated_tables` makes of a review.
    """
    sheets = read_evaluation_tables(run, summary)
    found = collect_wrong(run, sheets.models, sheets.types, sheets.info["config"].get("seed", 0))
    content = {**_head(sheets), **_results(sheets), **calibrated_parts(calibrated), **_wrong(run, found)}
    return environment().get_template("evaluation.html.j2").render(content)


def _head(sheets: EvaluationTables) -> dict[str, Any]:
    config = sheets.info["config"]
    types = [(kind, GROUP_NAMES.get(kind, kind), rows) for kind, rows in sorted(sheets.questions.items())]
    return {
        "info": sheets.info,
        "took": duration(sheets.info),
        "benchmark": benchmark_name(sheets.info),
        "judge": config.get("judge", ""),
        "labels": sheets.labels,
        "types": types,
        "total": len(sheets.types),
        "models": sheets.models,
        "troubles": troubles(sheets),
    }


def _results(sheets: EvaluationTables) -> dict[str, Any]:
    rows, judge = sheets.figures, sheets.info["config"].get("judge", "")
    tables = [
        paper_table("table-1", *(table_1(rows, judge=judge, equivalent=same) for same in (False, True))),
        paper_table("table-2", *(table_2(rows, equivalent=same) for same in (False, True))),
        paper_table("table-8", table_8(rows)),
        plain_table("added-metrics", added_metrics_table(rows)),
    ]
    figures = [
        evaluation_figures.by_setting(sheets),
        evaluation_figures.answers_and_citations(sheets),
        evaluation_figures.refusals(sheets),
        evaluation_figures.accuracy_and_cost(sheets),
    ]
    return {
        "tables": [one for one in tables if one.strict.grid.columns],
        "figures": [figure for figure in figures if figure is not None],
        "subgroups": subgroups(sheets),
        "differences": differences(sheets.comparisons),
        "cell_header": CELL_HEADER,
        "cells": cell_rows(sheets),
    }


def _wrong(run: RunDirectory, found: WrongAnswers) -> dict[str, Any]:
    dossier = WrongAnswerPayload(read_sources(run, [one.prediction for one in found.picked]))
    for one in found.picked:
        dossier.add(one)
    header, rows = wrong_rows(found)
    return {
        "wrong": dossier.payload,
        "wrong_total": found.counts.total(),
        "no_verdict": sum(rows for (_, kind), rows in found.counts.items() if kind in NO_VERDICT),
        "wrong_header": header,
        "wrong_rows": rows,
    }


RUN_HEADER = ("Run", "Benchmark", "Judge", "Labels", "Questions", "Seed", "Status")


def build_comparison_page(runs: Sequence[RunDirectory], comparisons: Sequence[Comparison] = ()) -> str:
    """Tables 1 and 2 with the rows of all runs, and the differences between cells of two runs.

    In `comparisons` models are named by `row_name`, with the names that `run_names` gives.
    """
    names = run_names(runs)
    sheets = [read_evaluation_tables(run) for run in runs]
    figures = [one for name, sheet in zip(names, sheets, strict=True) for one in _renamed(name, sheet)]
    judge = ", ".join(dict.fromkeys(_option(sheet, "judge") for sheet in sheets))
    tables = [
        paper_table("table-1", *(table_1(figures, judge=judge, equivalent=same) for same in (False, True))),
        paper_table("table-2", *(table_2(figures, equivalent=same) for same in (False, True))),
    ]
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            names=names,
            warnings=_warnings(sheets),
            run_header=RUN_HEADER,
            runs=[_row_compare(name, sheet) for name, sheet in zip(names, sheets, strict=True)],
            tables=[one for one in tables if one.strict.grid.columns],
            differences=differences(comparisons),
        )
    )


def run_names(runs: Sequence[RunDirectory]) -> list[str]:
    """The folders' names, their whole addresses where two are called the same."""
    names = [run.root.name for run in runs]
    return [name if names.count(name) == 1 else str(run.root) for name, run in zip(names, runs, strict=True)]


def row_name(run: str, model: str) -> str:
    """What a model of a run is called where several runs stand together."""
    return f"{run} · {model}"


def _renamed(name: str, sheets: EvaluationTables) -> list[Figure]:
    """Retrieval has no model: there the retriever's name says which run it is."""
    return [
        replace(one, model=row_name(name, one.model))
        if one.model
        else replace(one, retriever=row_name(name, one.retriever))
        for one in sheets.figures
    ]


def _warnings(sheets: Sequence[EvaluationTables]) -> list[str]:
    found = []
    if len({frozenset(sheet.types) for sheet in sheets}) > 1:
        found.append("The runs are not on the same questions: rows of different runs are not on an equal footing.")
    if len({_option(sheet, "judge") for sheet in sheets}) > 1:
        found.append("The runs were graded by different judges: their accuracies can't be set against each other.")
    return found


def _row_compare(name: str, sheets: EvaluationTables) -> list[Cell]:
    return [
        name, benchmark_name(sheets.info), _option(sheets, "judge"), sheets.labels, len(sheets.types),
        _option(sheets, "seed"), str(sheets.info["status"]),
    ]  # fmt: skip


def _option(sheets: EvaluationTables, name: str) -> str:
    return str(sheets.info["config"].get(name, ""))


__all__ = [
    "CELL_HEADER",
    "RUN_HEADER",
    "SIGNIFICANT",
    "FailedCells",
    "build_comparison_page",
    "build_evaluation_report",
    "cell_rows",
    "differences",
    "find_question_answers",
    "question_answers_text",
    "row_name",
    "run_names",
    "troubles",
    "wrong_rows",
]
