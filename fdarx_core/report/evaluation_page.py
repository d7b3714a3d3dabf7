"""The page of an evaluation, and the page that compares several evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fdarx_core.evaluation.figures import Mismatch
from fdarx_core.evaluation.tables import (
    added_metrics_table,
    hallucination_table,
    overlap_table,
    retrieval_table,
    settings_table,
)
from fdarx_core.records import Difference, Figure
from fdarx_core.report import evaluation_figures
from fdarx_core.report.answers_page import KINDS, NO_VERDICT, count_answers
from fdarx_core.report.evaluation_figures import benchmark_name, is_graded_file, read_evaluation_tables, subgroups
from fdarx_core.report.figure_limits import REGRADE_COMMAND, limits, missing_verdicts, remedy, ungraded_notes
from fdarx_core.report.page_engine import (
    METRIC_NAMES,
    SIGNIFICANT,
    STATUS_NAMES,
    TableBlock,
    by_significance,
    duration,
    group_name,
    render_page,
    setting_name,
)
from fdarx_core.report.result_sentences import hallucination_sentence, result_sentence
from fdarx_core.report.retention import ordered_types
from fdarx_core.storage import RunDirectory


def differences(comparisons: Sequence[Difference]) -> dict[str, Any]:
    """Return the JSON for the script of the page: `level` of significance and `rows`, the most significant first.

    A row is metric, questions, A, B, difference, low, high, p, p after Holm, number of questions and of labels.
    """
    rows = [
        [
            METRIC_NAMES.get(difference.metric, difference.metric),
            group_name(difference.keys["group"]),
            *(_named(**side) for side in (difference.first, difference.second)),
            *(round(getattr(difference, name) or 0.0, 5) for name in ("value", "low", "high", "p", "p_holm")),
            difference.rows,
            difference.clusters,
        ]
        for difference in by_significance(comparisons)
    ]
    return {"level": SIGNIFICANT, "rows": rows}


def _named(model: str, setting: str, retriever: str) -> str:
    """Return the name of a cell, for example "model · Full label"; for retrieval alone that of the retriever."""
    return f"{model} · {setting_name(setting, retriever)}" if model else retriever


def build_evaluation_report(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> str:
    """Return the page of an evaluation from its stored tables and rows. One part of the run is in memory at a time.

    Args:
        run: the evaluation.
        summary: what `RunDirectory.finish` will add to run.json, for a page that is written before it.
    """
    sheets = read_evaluation_tables(run, summary)
    config = sheets.info["config"]
    unjudged = missing_verdicts(run)
    troubles = defaultdict(list)  # the cells that are not done by model, status and reason
    for cell in sheets.cells:
        if cell.status != "done":
            troubles[cell.model, STATUS_NAMES.get(cell.status, cell.status), cell.reason].append(cell)
    graded_file, asked = is_graded_file(sheets.info), sheets.questions
    types = [(kind, "" if graded_file else group_name(kind), asked[kind]) for kind in ordered_types(asked)]
    panels = [
        evaluation_figures.by_setting(sheets),
        *evaluation_figures.metric_pairs(sheets),
        evaluation_figures.accuracy_and_cost(sheets),
    ]
    distinct = {
        (one.metric, f"{one.first}{one.second}"): replace(one, keys={"group": "all"}) for one in sheets.comparisons
    }
    compared = (
        list(distinct.values()) if graded_file else sheets.comparisons
    )  # its groups of questions are all the same
    tables = [
        *_paper_tables(sheets.figures, config.get("judge", "")),
        TableBlock("hallucinations", hallucination_table(sheets.figures)),
        TableBlock("overlap-table", overlap_table(sheets.figures, sheets.info.get("overlap", "")), rivals=True),
        TableBlock("added-metrics", added_metrics_table(sheets.figures)),
    ]
    counts = count_answers(run, sheets.models, sheets.types)
    return render_page(
        "evaluation.html.j2",
        info=sheets.info,
        took=duration(sheets.info),
        benchmark=benchmark_name(sheets.info),
        graded_file=graded_file,
        judge=config.get("judge", ""),
        sheets=sheets,
        types=types,
        troubles=troubles,
        unjudged=unjudged,
        remedy=remedy(unjudged, "RUN") if unjudged else "",
        limits=limits(run, sheets.cells),
        tables=[table for table in tables if table.table.rows],
        figures=[panel for panel in panels if panel is not None],
        subgroups=subgroups(sheets),
        differences=differences(compared),
        setting_name=setting_name,
        status_names=STATUS_NAMES,
        result=result_sentence(sheets),
        answers=counts,
        kinds={kind: name for kind, name in KINDS.items() if any(kind == counted for _, counted in counts)},
        no_verdict=sum(rows for (_, kind), rows in counts.items() if kind in NO_VERDICT),
    )


def _paper_tables(figures: Sequence[Figure], judge: str) -> list[TableBlock]:
    """Return Tables 1 and 2, strict and, where they have gold passages, under equivalence."""
    first, second = ([settings_table(figures, judge=judge, equivalent=same), retrieval_table(figures, equivalent=same)]
                     for same in (False, True))  # fmt: skip
    cites = any("Cite" in name for _, name in first[0].columns)
    made = zip(("settings-table", "retrieval-table"), first, second if cites else (None, second[1]), strict=True)
    return [TableBlock(name, strict, equivalent, rivals=True) for name, strict, equivalent in made]


def build_comparison_page(
    runs: Sequence[RunDirectory], comparisons: Sequence[Difference] = (), mismatches: Sequence[Mismatch] = ()
) -> str:
    """Return the page with the rows of all runs in Tables 1 and 2, and the differences between cells of two runs.

    In `comparisons` models are named by `row_name`, with the names that `run_names` gives. `mismatches` say which cells
    are not compared, and why.
    """
    names = run_names(runs)
    sheets = [read_evaluation_tables(run) for run in runs]
    figures = [named_figure(name, one) for name, sheet in zip(names, sheets, strict=True) for one in sheet.figures]
    ungraded = ungraded_notes(names, [sheet.figures for sheet in sheets])
    judge = ", ".join(dict.fromkeys(str(sheet.info["config"].get("judge", "")) for sheet in sheets))
    other_questions = "The runs are not on the same questions: rows of different runs cannot be compared directly."
    warnings = [other_questions] if len({frozenset(sheet.types) for sheet in sheets}) > 1 else []
    tables = [*_paper_tables(figures, judge), TableBlock("hallucinations", hallucination_table(figures))]
    return render_page(
        "compare.html.j2",
        names=names,
        newest=max(sheet.info["started"] for sheet in sheets),
        result=hallucination_sentence(comparisons),
        warnings=[*warnings, *mismatch_notes(mismatches), *ungraded],
        runs=list(zip(names, sheets, strict=True)),
        benchmark_name=benchmark_name,
        tables=[one for one in tables if one.table.rows],
        differences=differences(comparisons),
    )


def run_names(runs: Sequence[RunDirectory]) -> list[str]:
    """Return the names of the folders; the whole address where two have the same name."""
    names = [run.root.name for run in runs]
    return [name if names.count(name) == 1 else str(run.root) for name, run in zip(names, runs, strict=True)]


def row_name(run: str, model: str) -> str:
    """Return the name of a model of a run where several runs are compared."""
    return f"{run} · {model}"


def named_figure(run: str, figure: Figure) -> Figure:
    """Return a figure with its model named by `row_name`, or its retriever for retrieval alone, which has no model."""
    name = "model" if figure.keys["model"] else "retriever"
    return replace(figure, keys={**figure.keys, name: row_name(run, figure.keys[name])})


def mismatch_notes(found: Sequence[Mismatch]) -> list[str]:
    """Return in words what is not compared and why, one note for each reason, and how to grade again."""
    groups: dict[tuple[str, str], list[Mismatch]] = defaultdict(list)
    for mismatch in found:
        groups[mismatch.kind, mismatch.reason].append(mismatch)
    notes = []
    for (kind, reason), listed in groups.items():
        first, second = (_named(it.model, it.setting, it.retriever) for it in (listed[0].first, listed[0].second))
        regrade = f" Grade the answers of one run again with the judge of the other: {REGRADE_COMMAND}."
        what, remedy = ("Accuracies", regrade) if kind == "judge" else ("Results", "")
        more = f" and {len(listed) - 1} more {'pair' if len(listed) == 2 else 'pairs'}" if len(listed) > 1 else ""
        notes.append(f"{what} of {first} and {second}{more} are not compared, because {reason}.{remedy}")
    return notes
