"""Several evaluations side by side, as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fdarx_core.evaluation.tables import table_1, table_2
from fdarx_core.records import Comparison, Figure
from fdarx_core.report.environment import environment
from fdarx_core.report.evaluation.differences import differences
from fdarx_core.report.evaluation.grids import paper_table
from fdarx_core.report.evaluation.sheets import Sheets, benchmark_name, read_sheets
from fdarx_core.report.exhibit import Cell
from fdarx_core.storage import RunDirectory

RUN_HEADER = ("Run", "Benchmark", "Judge", "Labels", "Questions", "Seed", "Status")


def build_comparison_page(runs: Sequence[RunDirectory], comparisons: Sequence[Comparison] = ()) -> str:
    """Tables 1 and 2 with the rows of all runs, and the differences between cells of two runs.

    In `comparisons` models are named by `row_name`, with the names that `run_names` gives.
    """
    names = run_names(runs)
    sheets = [read_sheets(run) for run in runs]
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
            runs=[_row(name, sheet) for name, sheet in zip(names, sheets, strict=True)],
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


def _renamed(name: str, sheets: Sheets) -> list[Figure]:
    """Retrieval has no model: there the retriever's name says which run it is."""
    return [
        replace(one, model=row_name(name, one.model))
        if one.model
        else replace(one, retriever=row_name(name, one.retriever))
        for one in sheets.figures
    ]


def _warnings(sheets: Sequence[Sheets]) -> list[str]:
    found = []
    if len({frozenset(sheet.types) for sheet in sheets}) > 1:
        found.append("The runs are not on the same questions: rows of different runs are not on an equal footing.")
    if len({_option(sheet, "judge") for sheet in sheets}) > 1:
        found.append("The runs were graded by different judges: their accuracies can't be set against each other.")
    return found


def _row(name: str, sheets: Sheets) -> list[Cell]:
    return [
        name, benchmark_name(sheets.info), _option(sheets, "judge"), sheets.labels, len(sheets.types),
        _option(sheets, "seed"), str(sheets.info["status"]),
    ]  # fmt: skip


def _option(sheets: Sheets, name: str) -> str:
    return str(sheets.info["config"].get(name, ""))
