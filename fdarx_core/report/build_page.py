"""The page of a build: its result, charts of the questions, retention, sample questions and rejects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fdarx_core.evaluation.tables import ResultTable, build_table
from fdarx_core.labels.loinc import SECTION_NAMES, TOPICS
from fdarx_core.records import Estimate, StageCount
from fdarx_core.records.question_types import ANSWERABLE_TYPES, QUESTION_TYPES, type_title
from fdarx_core.report import charts
from fdarx_core.report.page_engine import PAGE_WORDS, FigurePanel, duration, listed, plural, render_page
from fdarx_core.report.question_figures import (
    ANY_TYPE,
    BuildCounts,
    bars_by_type,
    by_difficulty,
    by_drug,
    by_kind,
    by_section,
    by_wording,
    totals,
    writer_name,
)
from fdarx_core.report.retention import (
    UNITS,
    SankeyDiagram,
    build_sentence,
    check_accounts,
    draw_flow,
    heavy_loss_lines,
    main_reasons,
    missing_lines,
    ordered_types,
    split_stages,
    unusable_lines,
    why_rejected,
)
from fdarx_core.report.samples import DroppedExample, Example, SeededSample, offer_rows, read_parts
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.dataset_card import audit_row
from fdarx_core.storage.splits import Splits


def quantile(lengths: Counter[int], share: float) -> int:
    """Return the smallest value that at least `share` of the rows do not exceed; 0 for no rows."""
    counts = list(lengths.values())
    return int(np.quantile(list(lengths), share, weights=counts, method="inverted_cdf")) if counts else 0


SAMPLES = 20
"""Sample questions of each type."""
COMMON = 0.05
"""Share of the labels that must have a section for it to be shown."""

_BARS = 30
_MOST_DRUGS = 3
"""The drugs that are named as those with most questions."""


def retention(stages: Sequence[StageCount], counts: BuildCounts) -> list[FigurePanel]:
    """Return a diagram for each sequence of stages in which a row stays one row; the last is of questions, by type."""
    groups, of_questions = split_stages(stages)
    panels = []
    for group in groups:
        losing = [stage for stage in group if stage.rejected]
        if losing:
            unit = UNITS.get(group[0].stage, "Rows")
            flow = draw_flow(losing, {"": group[0].rows_in}, counts.dropped, unit)
            title = f"{unit}: rows kept and rejected"
            panels.append(_flow_panel(f"retention-{group[0].stage}", title, group, "were kept", flow))
    by_type = {kind: counts.candidates[kind] for kind in ordered_types(counts.candidates)}
    flow = draw_flow(of_questions, by_type, counts.dropped, "Candidates")
    title = "Questions: candidates kept and rejected by the filters, by type"
    made = "candidates made the benchmark"
    return [*panels, _flow_panel("retention-questions", title, of_questions, made, flow)]


def topics(counts: BuildCounts) -> FigurePanel:
    """Return the questions by label topic and type."""
    others = sorted({category for _, category in counts.questions} - set(TOPICS))
    bars = {name or "No topic": [name] for name in (*TOPICS, *others)}
    counted = {(category, kind): number for (kind, category), number in counts.questions.items()}
    return bars_by_type("topics", "Topic", bars, counted)


def coverage(counts: BuildCounts) -> ResultTable:
    """Return for each core section the share of its labels that have a question with gold passages there."""
    least = max(COMMON * counts.labels, 1)
    common = [(code, name, counts.sections[code]) for code, name in SECTION_NAMES.items()]
    types = {**{name: QUESTION_TYPES[name].title for name in ANSWERABLE_TYPES}, ANY_TYPE: "Any"}
    cells = [
        (name, kind, Estimate(counts.asked_labels[code, kind] / has, rows=has))
        for code, name, has in common
        if has >= least
        for kind in types
    ]
    columns = [("", name, kind) for kind, name in types.items()]
    table = build_table("Sections with questions", "Section", columns, cells)
    table.notes.append(
        "Of the labels that have text in the section, the share in which at least one question has a gold passage "
        f"there. Refusal questions have none. Sections that less than {COMMON:.0%} of the labels have are left out."
    )
    return table


def length_bars(name: str, lengths: Counter[int], unit: str, rows: str) -> FigurePanel:
    """Return rows by a length or a number of parts, as bars; `lengths` counts the rows by their length.

    The bars are at most 30 of a round width, up to the 99th percentile, and one more for all above.
    """
    top = quantile(lengths, 0.99)
    width = next(width for width in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, top + 1) if width * _BARS > top)
    bins: list[charts.Bin] = []
    for low in range(0, top + 1, width):
        title = str(low) if width == 1 else f"{low}–{low + width - 1}"
        bins.append((low, low + width, sum(lengths[value] for value in range(low, low + width)), title))
    end = top // width * width + width
    if beyond := lengths.total() - sum(count for _, _, count, _ in bins):
        bins.append((end, end + width, beyond, f"{end} or more"))
    rest = f" The last bar has all {rows} with {end:,} {unit} or more." * bool(beyond)
    low, middle, high = (quantile(lengths, share) for share in (0.25, 0.5, 0.75))
    spread = f"{low} to {high}; the median is {middle}, the most {max(lengths, default=0):,}"
    numbers = [(title, count) for _, _, count, title in bins]
    header = [unit.capitalize(), rows.capitalize()]
    return FigurePanel.worded(
        name, charts.histogram(bins, unit, rows), header, numbers, spread=spread, without=lengths[0], rest=rest
    )


def _flow_panel(name: str, title: str, stages: Sequence[StageCount], what: str, flow: SankeyDiagram) -> FigurePanel:
    kept, first = stages[-1].kept, stages[0].rows_in
    share = f" ({kept / first:.1%})" if first else ""
    note = f"{kept:,} of {first:,} {what}{share}. Rejected rows are grey, with their reasons."
    if any(stage.stage == "twins" for stage in stages):
        note += " A twin is the answerable question with which a refusal question was written."
    rows = [(flow.nodes[source].label, flow.nodes[target].label, rows) for source, target, rows in flow.links]
    return FigurePanel(name, title, note, charts.sankey(flow), ["From", "To", "Rows"], rows, wide=True)


def first_lines(info: Mapping[str, Any], counts: BuildCounts) -> list[str]:
    """Return what a reader should know first, as sentences: losses, the concentration on few drugs, what is missing."""
    lines = [*unusable_lines(info), *heavy_loss_lines(info), *missing_lines(info)]
    if effective := sum(info.get("effective_size", {}).values()):
        lines.append(f"There are {effective:,} distinct combinations of drug, topic and gold answer.")
    if drugs := totals(counts.drugs):
        most = drugs.most_common(_MOST_DRUGS)
        share = sum(number for _, number in most) / drugs.total()
        names = listed([name for name, _ in most])
        lines.append(f"{plural(len(drugs), 'drug')} have questions; {share:.0%} of the questions are on {names}.")
        least = max(COMMON * counts.labels, 1)
        unasked = [
            name
            for code, name in SECTION_NAMES.items()
            if counts.sections[code] >= least and not counts.asked_labels[code, ANY_TYPE]
        ]
        if unasked:
            lines.append(f"No question has a gold passage in {listed(unasked)}. Refusal questions have none at all.")
    return lines


def build_report(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> str:
    """Return the page of a build from its stored rows. One part of the run is in memory at a time.

    Args:
        run: the build.
        summary: what `RunDirectory.finish` will add to run.json, for a page that is written before it.

    Raises:
        ValueError: where the stage counts in run.json and the stored rows disagree.
    """
    info = {**run.info(), **(summary or {})}
    counts, seed = BuildCounts(), info["config"].get("seed", 0)
    questions, rejects = SeededSample[Example](SAMPLES, seed), SeededSample[DroppedExample](3, seed)
    for part in read_parts(run):
        counts.add(part)
        offer_rows(part, questions, rejects)
    stages = [StageCount(**stage) for stage in info["stages"]]
    check_accounts(stages, counts.dropped)
    entered = {stage.stage: stage.rows_in for stage in stages}
    lost = defaultdict[str, Counter[str]](Counter)
    for (stage, reason, _), number in sorted(counts.dropped.items()):
        lost[stage][reason] += number
    asked = totals(counts.questions)
    return render_page(
        "build.html.j2",
        info=info,
        counts=counts,
        took=duration(info),
        total=asked.total(),
        steps=[
            ("label files", entered["read"]),
            ("labels", counts.labels),
            ("passages", counts.passages),
            ("contexts", entered["generate"]),
            ("candidates", counts.candidates.total()),
            ("questions", stages[-1].kept),
        ],
        types={kind: type_title(kind) for kind in ordered_types({*QUESTION_TYPES.builtin, *asked})},
        asked=asked,
        samples=questions,
        retention=retention(stages, counts),
        main_reasons=main_reasons(info),
        result=build_sentence(asked, counts.labels, info["config"]),
        first_lines=first_lines(info, counts),
        figures=[figure(counts) for figure in (by_drug, by_section, topics, by_wording, by_kind, by_difficulty)],
        writer_name=writer_name,
        source_names=PAGE_WORDS["question_sources"],
        coverage=coverage(counts),
        passages=length_bars("passages", counts.passage_words, "words", "passages"),
        audit=audit_panel(info.get("audit")),
        splits=Splits.of_run(info),
        per_label=length_bars("per-label", counts.questions_per_label, "questions", "labels"),
        stages=stages,
        lost=lost,
        dropped_samples=rejects,
        stage_notes=PAGE_WORDS["stage_notes"],
        why_rejected=why_rejected,
    )


_AUDIT_METRICS = {"classifiers": "refusal_", "recurrence": "recurring"}
"""How the names of the metrics of each table begin."""


def audit_panel(audit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the content of the audit on the page, from run.json; None for a run without one, or without a question.

    `failed` are the messages on exceeded bounds. `tables` are of the figures that are measured, each row with whether
    the audit fails by it. `note` says how many questions are audited, "" where it is all of them. `unmeasured` counts
    the figures that are left out, the first of them for `reason`.
    """
    if not audit or not audit["figures"]:
        return None
    tables = []
    for name, begins in _AUDIT_METRICS.items():
        rows = [(audit_row(one), one["failed"]) for one in audit["figures"] if one["metric"].startswith(begins)]
        if measured := [(row, failed) for row, failed in rows if row["value"]]:
            title, note = (PAGE_WORDS[table][name] for table in ("audit_titles", "audit_notes"))
            tables.append({"name": name, "title": title, "note": note, "rows": measured})
    missing = [row["reason"] for row in map(audit_row, audit["figures"]) if not row["value"]]
    return {
        "failed": audit["failed"],
        "tables": tables,
        "note": audit.get("note", ""),
        "unmeasured": len(missing),
        "reason": (missing or [""])[0],
    }
