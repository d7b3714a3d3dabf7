"""The page of a build: its result, charts of the questions, retention, sample questions and rejects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.tables import ResultTable, build_table
from fdarx_core.labels.loinc import SECTION_NAMES, TOPICS
from fdarx_core.records import Estimate, StageCount
from fdarx_core.report import charts
from fdarx_core.report.audit_panel import audit_panel
from fdarx_core.report.build_losses import heavy_loss_lines, main_reasons, missing_lines, unusable_lines, why_rejected
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import FigurePanel, duration, render_page
from fdarx_core.report.question_counts import QuestionCounts
from fdarx_core.report.question_figures import (
    by_difficulty,
    by_drug,
    by_kind,
    by_section,
    by_wording,
    first_lines,
    result_sentence,
    writer_name,
)
from fdarx_core.report.retention import TYPE_NAMES, UNITS, Dropped, Flow, check_accounts, draw_flow, split_stages
from fdarx_core.report.samples import DroppedExample, Example, RunPart, SeededSample, offer_rows, read_parts
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.dataset_card import who_judged
from fdarx_core.storage.splits import Splits

ANY_TYPE = "any"
"""All question types together in `BuildCounts.asked`."""


@dataclass(slots=True)
class BuildCounts:
    """Counts of a run; their size depends on the kinds of rows, not on the number of rows.

    `questions` are counted by (type, category), `candidates` by type, before filters. `sections` counts by
    LOINC code the labels with text in that core section; `asked` counts by (LOINC code, type or `ANY_TYPE`) the labels
    with a question whose gold passages are there. `passage_words` counts passages by length in words,
    `questions_per_label` labels by number of questions, 0 included.
    """

    labels: int = 0
    passages: int = 0
    questions: Counter[tuple[str, str]] = field(default_factory=Counter)
    candidates: Counter[str] = field(default_factory=Counter)
    dropped: Dropped = field(default_factory=Counter)
    sections: Counter[str] = field(default_factory=Counter)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    passage_words: Counter[int] = field(default_factory=Counter)
    questions_per_label: Counter[int] = field(default_factory=Counter)

    def add(self, part: RunPart) -> None:
        """Add the rows of a part; all rows of a label must be in one part."""
        self.labels += part["labels"].num_rows
        self.passages += part["passages"].num_rows
        self.questions.update(_tally(part["questions"], ["type", "category"]))
        self.candidates.update(_single(_tally(part["candidates"], ["type"])))
        self.dropped.update(_tally(_typed_rejects(part), ["stage", "reason", "type"]))
        words = pc.value_counts(pc.count_substring_regex(part["passages"]["text"], r"\S+"))
        self.passage_words.update({row["values"]: row["counts"] for row in words.to_pylist()})
        self.questions_per_label.update(_questions_per_label(part))
        self._add_coverage(part)

    def _add_coverage(self, part: RunPart) -> None:
        sections = _distinct(part["passages"], ["core_code", "set_id"])
        self.sections.update(_single(_tally(sections, ["core_code"])))
        asked = _asked_sections(part)
        self.asked.update(_tally(_distinct(asked, ["core_code", "type", "set_id"]), ["core_code", "type"]))
        either = _tally(_distinct(asked, ["core_code", "set_id"]), ["core_code"])
        self.asked.update({(code, ANY_TYPE): labels for (code,), labels in either.items()})


def quantile(lengths: Counter[int], share: float) -> int:
    """Return the smallest value that at least `share` of the rows do not exceed; 0 for no rows."""
    left = share * lengths.total()
    for value in sorted(lengths):
        left -= lengths[value]
        if left <= 0:
            return value
    return 0


def _tally(table: pa.Table, names: Sequence[str]) -> Counter[Any]:
    grouped = table.select(list(names)).group_by(list(names)).aggregate([([], "count_all")])
    keys = zip(*(grouped[name].to_pylist() for name in names), strict=True)
    return Counter(dict(zip(keys, grouped["count_all"].to_pylist(), strict=True)))


def _single(tally: Counter[Any]) -> dict[str, int]:
    return {key: rows for (key,), rows in tally.items()}


def _distinct(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.select(list(names)).group_by(list(names)).aggregate([])


def _typed_rejects(part: RunPart) -> pa.Table:
    """Return the rejects with the type of their candidate, "" for rows that were no questions yet."""
    found = pc.index_in(part["rejects"]["id"], value_set=part["candidates"]["id"].combine_chunks())
    types = pc.fill_null(part["candidates"]["type"].take(found), "")
    return part["rejects"].append_column("type", types)


def _questions_per_label(part: RunPart) -> Counter[int]:
    asked = _tally(part["questions"], ["set_id"])
    spread = Counter(asked.values())
    spread[0] += part["labels"].num_rows - len(asked)
    return +spread


def _asked_sections(part: RunPart) -> pa.Table:
    """Return label, core section and question type of each gold passage of each question."""
    questions = part["questions"].combine_chunks()
    gold = questions["gold_passages"].combine_chunks()
    asking = questions.select(["set_id", "type"]).take(pc.list_parent_indices(gold))
    asking = asking.append_column("doc_chunk_index", pc.list_flatten(gold))
    places = part["passages"].select(["set_id", "doc_chunk_index", "core_code"])
    return asking.join(places, keys=["set_id", "doc_chunk_index"], join_type="inner")


SAMPLES = 20
"""Sample questions of each type."""
COMMON = 0.05
"""Share of the labels that must have a section for it to be shown."""

GREY = "Rejected rows are grey, with their reasons."


def retention(stages: Sequence[StageCount], counts: BuildCounts) -> list[FigurePanel]:
    """Return a diagram for each sequence of stages in which a row stays one row; the last is of questions, by type."""
    groups, of_questions = split_stages(stages)
    drawn = [_rows_panel(group, counts) for group in groups if any(stage.rejected for stage in group)]
    return [*drawn, _questions_panel(of_questions, counts)]


def topics(counts: BuildCounts) -> FigurePanel:
    """Return the questions by label topic and type."""
    kinds = sorted({kind for kind, _ in counts.questions}, key=_type_order)
    others = sorted({category for _, category in counts.questions} - set(TOPICS))
    names = [*TOPICS, *others]
    series = [_topic_series(kind, names, counts) for kind in kinds]
    shown = [name or "No topic" for name in names]
    rows = [(name, *values, sum(values)) for name, *values in zip(shown, *(one.values for one in series), strict=True)]
    return FigurePanel.worded(
        "topics",
        charts.stacked_bars(shown, series, "questions"),
        ["Topic", *(one.name for one in series), "All"],
        rows,
        legend=[(one.name, one.color) for one in series],
    )


def coverage(counts: BuildCounts) -> ResultTable:
    """Return for each core section the share of its labels that have a question with gold passages there."""
    least = max(COMMON * counts.labels, 1)
    common = [(code, name, counts.sections[code]) for code, name in SECTION_NAMES.items()]
    types = {"factual": "Factual", "multihop": "Multi-hop", ANY_TYPE: "Any"}
    cells = [
        (name, kind, Estimate(counts.asked[code, kind] / has, rows=has))
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


def sections_without_questions(counts: BuildCounts) -> list[str]:
    """Return the names of the core sections that many labels have and in which no question has a gold passage."""
    least = max(COMMON * counts.labels, 1)
    return [
        name
        for code, name in SECTION_NAMES.items()
        if counts.sections[code] >= least and not counts.asked[code, ANY_TYPE]
    ]


def passage_lengths(counts: BuildCounts) -> FigurePanel:
    """Return the passages by length in words."""
    return _histogram("passages", counts.passage_words, "words", "passages")


def questions_per_label(counts: BuildCounts) -> FigurePanel:
    """Return the labels by the number of their questions."""
    return _histogram("per-label", counts.questions_per_label, "questions", "labels")


def _histogram(name: str, lengths: Counter[int], unit: str, rows: str) -> FigurePanel:
    bins = _binned(lengths)
    numbers = [(name, count) for _, _, count, name in bins]
    header = [unit.capitalize(), rows.capitalize()]
    figure = charts.histogram(bins, unit, rows)
    return FigurePanel.worded(name, figure, header, numbers, spread=_spread(lengths), without=lengths[0])


def _topic_series(kind: str, categories: Sequence[str], counts: BuildCounts) -> charts.Series:
    color = charts.TYPE_COLORS.get(kind, charts.REJECT_COLOR)
    return charts.Series(
        TYPE_NAMES.get(kind, kind), color, [counts.questions[kind, category] for category in categories]
    )


def _rows_panel(stages: Sequence[StageCount], counts: BuildCounts) -> FigurePanel:
    unit = UNITS.get(stages[0].stage, "Rows")
    losing = [stage for stage in stages if stage.rejected]
    flow = draw_flow(losing, {"": stages[0].rows_in}, counts.dropped, unit)
    title = f"{unit}: rows kept and rejected"
    note = f"{stages[-1].kept:,} of {stages[0].rows_in:,} were kept{_share(stages)}. {GREY}"
    return _flow_panel(f"retention-{stages[0].stage}", title, note, flow)


def _questions_panel(stages: Sequence[StageCount], counts: BuildCounts) -> FigurePanel:
    by_type = {kind: counts.candidates[kind] for kind in sorted(counts.candidates, key=_type_order)}
    flow = draw_flow(stages, by_type, counts.dropped, "Candidates")
    kept, first = stages[-1].kept, stages[0].rows_in
    note = f"{kept:,} of {first:,} candidates made the benchmark{_share(stages)}. {GREY}"
    return _flow_panel(
        "retention-questions", "Questions: candidates kept and rejected by the filters, by type", note, flow
    )


def _share(stages: Sequence[StageCount]) -> str:
    return f" ({stages[-1].kept / stages[0].rows_in:.1%})" if stages[0].rows_in else ""


def _flow_panel(name: str, title: str, note: str, flow: Flow) -> FigurePanel:
    rows = [(flow.nodes[source].label, flow.nodes[target].label, rows) for source, target, rows in flow.links]
    return FigurePanel(name, title, note, charts.sankey(flow), ["From", "To", "Rows"], rows, wide=True)


def _type_order(kind: str) -> tuple[int, str]:
    return (list(TYPE_NAMES).index(kind) if kind in TYPE_NAMES else len(TYPE_NAMES), kind)


def _binned(lengths: Counter[int], bars: int = 30) -> list[charts.Bin]:
    """Return counts in at most `bars` bins of a round width up to the 99th percentile, and all above in one more."""
    top = quantile(lengths, 0.99)
    width = next(width for width in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, top + 1) if width * bars > top)
    bins: list[charts.Bin] = []
    for low in range(0, top + 1, width):
        name = str(low) if width == 1 else f"{low}–{low + width - 1}"
        bins.append((low, low + width, sum(lengths[value] for value in range(low, low + width)), name))
    end = top // width * width + width
    beyond = lengths.total() - sum(rows for _, _, rows, _ in bins)
    return [*bins, (end, end + width, beyond, f"{end} or more")] if beyond else bins


def _spread(lengths: Counter[int]) -> str:
    low, middle, high = (quantile(lengths, share) for share in (0.25, 0.5, 0.75))
    return f"{low} to {high}; the median is {middle}, the most {max(lengths, default=0):,}"


def build_report(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> str:
    """Return the page of a build from its stored rows. One part of the run is in memory at a time.

    Args:
        run: the build.
        summary: what `RunDirectory.finish` will add to run.json, for a page that is written before it.

    Raises:
        ValueError: where the stage counts in run.json and the stored rows disagree.
    """
    info = {**run.info(), **(summary or {})}
    counts, asked_about, seed = BuildCounts(), QuestionCounts(), info["config"].get("seed", 0)
    questions, rejects = SeededSample[Example](SAMPLES, seed), SeededSample[DroppedExample](3, seed)
    for part in read_parts(run):
        counts.add(part)
        asked_about.add(part)
        offer_rows(part, questions, rejects)
    stages = [StageCount(**stage) for stage in info["stages"]]
    check_accounts(stages, counts.dropped)
    by_stage = {stage.stage: stage for stage in stages}
    asked, lost = _asked_and_lost(counts)
    return render_page(
        "build.html.j2",
        info=info,
        counts=counts,
        took=duration(info),
        who_judged=who_judged(info["config"]),
        total=asked.total(),
        steps=[
            ("label files", by_stage["read"].rows_in),
            ("labels", counts.labels),
            ("passages", counts.passages),
            ("contexts", by_stage["generate"].rows_in),
            ("candidates", counts.candidates.total()),
            ("questions", stages[-1].kept),
        ],
        types={kind: TYPE_NAMES.get(kind, kind) for kind in (*TYPE_NAMES, *sorted(set(asked) - set(TYPE_NAMES)))},
        asked=asked,
        samples=questions,
        retention=retention(stages, counts),
        main_reasons=main_reasons(info),
        result=result_sentence(asked_about, counts.labels),
        first_lines=[
            *unusable_lines(info),
            *heavy_loss_lines(info),
            *missing_lines(info),
            *_effective_line(info),
            *first_lines(asked_about, sections_without_questions(counts)),
        ],
        figures=[
            by_drug(asked_about),
            by_section(asked_about),
            topics(counts),
            by_wording(asked_about),
            by_kind(asked_about),
            by_difficulty(asked_about),
        ],
        writer_name=writer_name,
        source_names=PAGE_WORDS["question_sources"],
        coverage=coverage(counts),
        passages=passage_lengths(counts),
        audit=audit_panel(info.get("audit")),
        splits=Splits.of_run(info),
        per_label=questions_per_label(counts),
        stages=stages,
        lost=lost,
        dropped_samples=rejects,
        stage_notes=PAGE_WORDS["stage_notes"],
        why_rejected=why_rejected,
    )


def _effective_line(info: Mapping[str, Any]) -> list[str]:
    size = sum(info.get("effective_size", {}).values())
    return [f"There are {size:,} distinct combinations of drug, topic and gold answer."] if size else []


def _asked_and_lost(counts: BuildCounts) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Return the questions by type, and the rejects by stage and reason."""
    asked, lost = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for (kind, _), number in counts.questions.items():
        asked[kind] += number
    for (stage_name, reason, _), number in sorted(counts.dropped.items()):
        lost[stage_name][reason] += number
    return asked, lost
