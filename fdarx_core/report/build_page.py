"""The page of a build: counts, retention, figures, rejects and sample questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.labels.loinc import SECTION_NAMES, TOPICS
from fdarx_core.records import StageCount
from fdarx_core.report import charts
from fdarx_core.report.page_engine import FigurePanel, ShadedTable, duration, environment
from fdarx_core.report.retention import TYPE_NAMES, UNITS, Dropped, Flow, check_accounts, draw_flow, split_stages
from fdarx_core.report.samples import BuildSamples, DroppedExample, Example, RunPart, read_parts
from fdarx_core.storage import RunDirectory

ANY_TYPE = "any"
"""Stands for all question types together in `BuildCounts.asked`."""


@dataclass(slots=True)
class BuildCounts:
    """Aggregates of a run; their size depends on the kinds of rows, not on how many there are.

    `questions` by (type, source, category); `candidates` by type, before filters; `sections` by LOINC code: labels in
    which that core section has text; `asked` by (LOINC code, type or `ANY_TYPE`): labels in which a question's gold
    passages lie there; `passage_words` by length in words; `questions_per_label` by number of questions, 0 included.
    """

    labels: int = 0
    passages: int = 0
    questions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    candidates: Counter[str] = field(default_factory=Counter)
    dropped: Dropped = field(default_factory=Counter)
    sections: Counter[str] = field(default_factory=Counter)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    passage_words: Counter[int] = field(default_factory=Counter)
    questions_per_label: Counter[int] = field(default_factory=Counter)

    def add(self, part: RunPart) -> None:
        """Count one part in. Labels must not be spread over parts."""
        self.labels += part.labels.num_rows
        self.passages += part.passages.num_rows
        self.questions.update(_tally(part.questions, ["type", "source", "category"]))
        self.candidates.update(_single(_tally(part.candidates, ["type"])))
        self.dropped.update(_tally(_typed_rejects(part), ["stage", "reason", "type"]))
        self.passage_words.update(_word_counts(part.passages["text"]))
        self.questions_per_label.update(_questions_per_label(part))
        self._add_coverage(part)

    def _add_coverage(self, part: RunPart) -> None:
        sections = _distinct(part.passages, ["core_code", "set_id"])
        self.sections.update(_single(_tally(sections, ["core_code"])))
        asked = _asked_sections(part)
        self.asked.update(_tally(_distinct(asked, ["core_code", "type", "set_id"]), ["core_code", "type"]))
        either = _tally(_distinct(asked, ["core_code", "set_id"]), ["core_code"])
        self.asked.update({(code, ANY_TYPE): labels for (code,), labels in either.items()})


def quantile(lengths: Counter[int], share: float) -> int:
    """The smallest value that at least `share` of the counted rows don't exceed; 0 where nothing was counted."""
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
    """Rejects with the type of the candidate they were, "" for rows that were no questions yet."""
    found = pc.index_in(part.rejects["id"], value_set=part.candidates["id"].combine_chunks())
    types = pc.fill_null(part.candidates["type"].take(found), "")
    return part.rejects.append_column("type", types)


def _word_counts(texts: pa.ChunkedArray) -> dict[int, int]:
    counted = pc.value_counts(pc.count_substring_regex(texts, r"\S+"))
    return {row["values"]: row["counts"] for row in counted.to_pylist()}


def _questions_per_label(part: RunPart) -> Counter[int]:
    asked = _tally(part.questions, ["set_id"])
    spread = Counter(asked.values())
    spread[0] += part.labels.num_rows - len(asked)
    return +spread


def _asked_sections(part: RunPart) -> pa.Table:
    """One row for each gold passage of each question: its label, its core section, the question's type."""
    questions = part.questions.combine_chunks()
    gold = questions["gold_passages"].combine_chunks()
    asking = questions.select(["set_id", "type"]).take(pc.list_parent_indices(gold))
    asking = asking.append_column("doc_chunk_index", pc.list_flatten(gold))
    places = part.passages.select(["set_id", "doc_chunk_index", "core_code"])
    return asking.join(places, keys=["set_id", "doc_chunk_index"], join_type="inner")


SOURCE_NAMES: dict[tuple[str, str], tuple[str, str]] = {
    ("factual", "highlights"): ("Factual, from Highlights", "#2c5f9e"),
    ("factual", "section"): ("Factual, from a section", "#7aa9de"),
    ("multihop", "section_pair"): ("Multi-hop, from two sections", charts.LANE_COLOURS["multihop"]),
    ("refusal", "refusal_template"): ("Refusal", charts.LANE_COLOURS["refusal"]),
}
COMMON = 0.05
"""Sections that fewer than this share of the labels have say little of the benchmark."""

GREY = "Rejected rows are grey, with their reasons."


def retention(stages: Sequence[StageCount], counts: BuildCounts) -> list[FigurePanel]:
    """One diagram for each run of stages in which a row stays one row; the last is that of the questions, by type."""
    groups, of_questions = split_stages(stages)
    drawn = [_rows_exhibit(group, counts) for group in groups if any(stage.rejected for stage in group)]
    return [*drawn, _questions_exhibit(of_questions, counts)]


def topics(counts: BuildCounts) -> FigurePanel:
    """Questions by label topic, stacked by type and source."""
    kinds = sorted({(kind, source) for kind, source, _ in counts.questions}, key=_kind_order)
    others = sorted({category for _, _, category in counts.questions} - set(TOPICS))
    names = [*TOPICS, *others]
    series = [_topic_series(kind, names, counts) for kind in kinds]
    shown = [name or "No topic" for name in names]
    rows = [(name, *values, sum(values)) for name, *values in zip(shown, *(one.values for one in series), strict=True)]
    return FigurePanel(
        "topics",
        "What the questions are about",
        "Questions of the benchmark by label topic, type and source.",
        charts.stacked_bars(shown, series, "questions"),
        ["Topic", *(one.name for one in series), "All"],
        rows,
        legend=[(one.name, one.colour) for one in series],
    )


def coverage(counts: BuildCounts) -> ShadedTable:
    """For each core section, the share of the labels that have it in which a question's gold passages lie there."""
    least = max(COMMON * counts.labels, 1)
    common = [(code, name, counts.sections[code]) for code, name in SECTION_NAMES.items()]
    types = ("factual", "multihop", ANY_TYPE)
    return ShadedTable(
        "coverage",
        "Which sections are asked about",
        "Of the labels that have text in the section, the share in which at least one question has a gold passage "
        f"there. Refusal questions have none. Sections that less than {COMMON:.0%} of the labels have are left out.",
        ["Section", "Labels", "Factual", "Multi-hop", "Any"],
        [(name, has, [counts.asked[code, kind] / has for kind in types]) for code, name, has in common if has >= least],
    )


def passage_lengths(counts: BuildCounts) -> FigurePanel:
    """Passages by length in words."""
    bins = _binned(counts.passage_words)
    return FigurePanel(
        "passages",
        "How long passages are",
        f"Words in the middle half of the passages: {_spread(counts.passage_words)}. The longest share the last bar.",
        charts.histogram(bins, "words", "passages"),
        ["Words", "Passages"],
        [(one.name, one.rows) for one in bins],
    )


def questions_per_label(counts: BuildCounts) -> FigurePanel:
    """Labels by the number of their questions."""
    bins = _binned(counts.questions_per_label)
    return FigurePanel(
        "per-label",
        "How many questions a label gave",
        f"Questions from the middle half of the labels: {_spread(counts.questions_per_label)}. "
        f"Labels without a question: {counts.questions_per_label[0]:,}. The largest numbers share the last bar.",
        charts.histogram(bins, "questions", "labels"),
        ["Questions", "Labels"],
        [(one.name, one.rows) for one in bins],
    )


def _topic_series(kind: tuple[str, str], categories: Sequence[str], counts: BuildCounts) -> charts.Series:
    other = (f"{TYPE_NAMES.get(kind[0], kind[0])}, from {kind[1]}", charts.REJECT_COLOUR)
    name, colour = SOURCE_NAMES.get(kind, other)
    return charts.Series(name, colour, [counts.questions[kind[0], kind[1], category] for category in categories])


def _rows_exhibit(stages: Sequence[StageCount], counts: BuildCounts) -> FigurePanel:
    unit = UNITS.get(stages[0].stage, "Rows")
    losing = [stage for stage in stages if stage.rejected]
    flow = draw_flow(losing, {"": stages[0].rows_in}, counts.dropped, unit)
    title = f"{unit}: what was kept and why the rest was not"
    note = f"{stages[-1].kept:,} of {stages[0].rows_in:,} were kept{_share(stages)}. {GREY}"
    return _flow_exhibit(f"retention-{stages[0].stage}", title, note, flow)


def _questions_exhibit(stages: Sequence[StageCount], counts: BuildCounts) -> FigurePanel:
    lanes = {kind: counts.candidates[kind] for kind in sorted(counts.candidates, key=_type_order)}
    flow = draw_flow(stages, lanes, counts.dropped, "Candidates")
    kept, first = stages[-1].kept, stages[0].rows_in
    note = f"{kept:,} of {first:,} candidates made the benchmark{_share(stages)}. {GREY}"
    return _flow_exhibit("retention-questions", "Questions: what the filters kept, by type", note, flow)


def _share(stages: Sequence[StageCount]) -> str:
    return f" ({stages[-1].kept / stages[0].rows_in:.1%})" if stages[0].rows_in else ""


def _flow_exhibit(name: str, title: str, note: str, flow: Flow) -> FigurePanel:
    rows = [(flow.nodes[link.source].label, flow.nodes[link.target].label, link.rows) for link in flow.links]
    return FigurePanel(name, title, note, charts.sankey(flow), ["From", "To", "Rows"], rows, wide=True)


def _type_order(kind: str) -> tuple[int, str]:
    return (list(TYPE_NAMES).index(kind) if kind in TYPE_NAMES else len(TYPE_NAMES), kind)


def _kind_order(kind: tuple[str, str]) -> tuple[int, str, str]:
    return (*_type_order(kind[0]), kind[1])


def _binned(lengths: Counter[int], bars: int = 30) -> list[charts.Bin]:
    """Counts in at most `bars` bins of one round width up to the 99th percentile, with all above it in one more."""
    top = quantile(lengths, 0.99)
    width = next(width for width in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, top + 1) if width * bars > top)
    bins = []
    for low in range(0, top + 1, width):
        name = str(low) if width == 1 else f"{low}–{low + width - 1}"
        bins.append(charts.Bin(low, low + width, sum(lengths[value] for value in range(low, low + width)), name))
    end = top // width * width + width
    beyond = lengths.total() - sum(one.rows for one in bins)
    return [*bins, charts.Bin(end, end + width, beyond, f"{end} or more")] if beyond else bins


def _spread(lengths: Counter[int]) -> str:
    low, middle, high = (quantile(lengths, share) for share in (0.25, 0.5, 0.75))
    return f"{low} to {high}; the median is {middle}, the most {max(lengths, default=0):,}"


@dataclass(frozen=True, slots=True)
class RejectGroup:
    """One reason of a stage; `share` is of the rows that came into the stage."""

    reason: str
    rows: int
    share: float
    examples: list[DroppedExample]


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """The benchmark's questions of one type: how many, and those that the page shows."""

    kind: str
    name: str
    rows: int
    share: float
    examples: list[Example]


def build_report(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> str:
    """The page for a build whose rows are all on disk. Memory is bounded by one part of the run.

    `summary` is what `RunDirectory.finish` will add to run.json, for a page that is written before it.
    Raises ValueError where the stage counts in run.json and the rows on disk disagree.
    """
    info = {**run.info(), **(summary or {})}
    counts, samples = BuildCounts(), BuildSamples(info["config"].get("seed", 0))
    for part in read_parts(run):
        counts.add(part)
        samples.add(part)
    stages = [StageCount(**stage) for stage in info["stages"]]
    check_accounts(stages, counts.dropped)
    return environment().get_template("build.html.j2").render(_content(info, stages, counts, samples))


def _content(
    info: Mapping[str, Any], stages: list[StageCount], counts: BuildCounts, samples: BuildSamples
) -> dict[str, Any]:
    by_stage = {stage.stage: stage for stage in stages}
    return {
        "info": info,
        "counts": counts,
        "took": duration(info),
        "total": sum(counts.questions.values()),
        "steps": _steps(stages, by_stage, counts),
        "types": _types(counts, samples),
        "retention": retention(stages, counts),
        "topics": topics(counts),
        "coverage": coverage(counts),
        "passages": passage_lengths(counts),
        "per_label": questions_per_label(counts),
        "rejects": _rejects(by_stage, counts, samples),
        "accounts": [list(asdict(stage).values()) for stage in stages],
    }


def _steps(stages: list[StageCount], by_stage: Mapping[str, StageCount], counts: BuildCounts) -> list[tuple[str, int]]:
    return [
        ("label files", by_stage["read"].rows_in),
        ("labels", counts.labels),
        ("passages", counts.passages),
        ("contexts", by_stage["generate"].rows_in),
        ("candidates", counts.candidates.total()),
        ("questions", stages[-1].kept),
    ]


def _types(counts: BuildCounts, samples: BuildSamples) -> list[TypeGroup]:
    rows: Counter[str] = Counter()
    for (kind, _, _), number in counts.questions.items():
        rows[kind] += number
    kinds = [*TYPE_NAMES, *sorted(set(rows) - set(TYPE_NAMES))]
    total = max(rows.total(), 1)
    return [
        TypeGroup(kind, TYPE_NAMES.get(kind, kind), rows[kind], rows[kind] / total, samples.questions(kind))
        for kind in kinds
    ]


def _rejects(
    by_stage: Mapping[str, StageCount], counts: BuildCounts, samples: BuildSamples
) -> dict[str, list[RejectGroup]]:
    """Stages that rejected rows, in the order of the flow, each with its reasons, most frequent first."""
    rows: Counter[tuple[str, str]] = Counter()
    for (stage, reason, _), number in counts.dropped.items():
        rows[stage, reason] += number
    groups: dict[str, list[RejectGroup]] = {stage: [] for stage in by_stage}
    for (stage, reason), number in sorted(rows.items(), key=lambda item: (-item[1], item[0])):
        share = number / by_stage[stage].rows_in
        groups[stage].append(RejectGroup(reason, number, share, samples.rejects(stage, reason)))
    return {stage: found for stage, found in groups.items() if found}
