"""An evaluation as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.grid import Grid
from fdarx_core.evaluation.tables import table_1, table_2, table_8
from fdarx_core.report.environment import duration, environment
from fdarx_core.report.evaluation import exhibits
from fdarx_core.report.evaluation.calibrated import calibrated_parts
from fdarx_core.report.evaluation.differences import differences
from fdarx_core.report.evaluation.dossier import Dossier
from fdarx_core.report.evaluation.grids import paper_table
from fdarx_core.report.evaluation.overview import CELL_HEADER, cell_rows, troubles, wrong_rows
from fdarx_core.report.evaluation.sheets import Sheets, benchmark_name, read_sheets
from fdarx_core.report.evaluation.sources import read_sources
from fdarx_core.report.evaluation.subgroups import subgroups
from fdarx_core.report.evaluation.wording import GROUP_NAMES
from fdarx_core.report.evaluation.wrong import NO_VERDICT, WrongAnswers, collect_wrong
from fdarx_core.storage import RunDirectory


def build_evaluation_report(
    run: RunDirectory, summary: Mapping[str, Any] | None = None, calibrated: Sequence[Grid] = ()
) -> str:
    """The page for an evaluation whose tables and rows are all on disk. Memory is bounded by one part of the run.

    `summary` is what `RunDirectory.finish` will add to run.json, for a page that is written before it; `calibrated` are
    the tables that `calibrated_tables` makes of a review.
    """
    sheets = read_sheets(run, summary)
    found = collect_wrong(run, sheets.models, sheets.types, sheets.info["config"].get("seed", 0))
    content = {**_head(sheets), **_results(sheets), **calibrated_parts(calibrated), **_wrong(run, found)}
    return environment().get_template("evaluation.html.j2").render(content)


def _head(sheets: Sheets) -> dict[str, Any]:
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


def _results(sheets: Sheets) -> dict[str, Any]:
    rows, judge = sheets.figures, sheets.info["config"].get("judge", "")
    tables = [
        paper_table("table-1", *(table_1(rows, judge=judge, equivalent=same) for same in (False, True))),
        paper_table("table-2", *(table_2(rows, equivalent=same) for same in (False, True))),
        paper_table("table-8", table_8(rows)),
    ]
    figures = [
        exhibits.by_setting(sheets),
        exhibits.answers_and_citations(sheets),
        exhibits.refusals(sheets),
        exhibits.accuracy_and_cost(sheets),
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
    dossier = Dossier(read_sources(run, [one.prediction for one in found.picked]))
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
