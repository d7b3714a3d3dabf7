"""The figures of a build's report, each with the table of its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.labels.topics import TOPICS
from fdarx_core.records import StageCount
from fdarx_core.report import figures
from fdarx_core.report.counts import ANY_TYPE, Counts, quantile
from fdarx_core.report.exhibit import Exhibit, ShadedTable
from fdarx_core.report.retention import TYPE_NAMES, UNITS, Flow, draw_flow, split_stages

SOURCE_NAMES: dict[tuple[str, str], tuple[str, str]] = {
    ("factual", "highlights"): ("Factual, from Highlights", "#2c5f9e"),
    ("factual", "section"): ("Factual, from a section", "#7aa9de"),
    ("multihop", "section_pair"): ("Multi-hop, from two sections", figures.LANE_COLOURS["multihop"]),
    ("refusal", "refusal_template"): ("Refusal", figures.LANE_COLOURS["refusal"]),
}
COMMON = 0.05
"""Sections that fewer than this share of the labels have say little of the benchmark."""

GREY = "Rejected rows are grey, with their reasons."


def retention(stages: Sequence[StageCount], counts: Counts) -> list[Exhibit]:
    """One diagram for each run of stages in which a row stays one row; the last is that of the questions, by type."""
    groups, of_questions = split_stages(stages)
    drawn = [_rows_exhibit(group, counts) for group in groups if any(stage.rejected for stage in group)]
    return [*drawn, _questions_exhibit(of_questions, counts)]


def topics(counts: Counts) -> Exhibit:
    """Questions by label topic, stacked by type and source."""
    kinds = sorted({(kind, source) for kind, source, _ in counts.questions}, key=_kind_order)
    others = sorted({category for _, _, category in counts.questions} - set(TOPICS))
    names = [*TOPICS, *others]
    series = [_topic_series(kind, names, counts) for kind in kinds]
    shown = [name or "No topic" for name in names]
    rows = [(name, *values, sum(values)) for name, *values in zip(shown, *(one.values for one in series), strict=True)]
    return Exhibit(
        "topics",
        "What the questions are about",
        "Questions of the benchmark by label topic, type and source.",
        figures.stacked_bars(shown, series, "questions"),
        ["Topic", *(one.name for one in series), "All"],
        rows,
        legend=[(one.name, one.colour) for one in series],
    )


def coverage(counts: Counts) -> ShadedTable:
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


def passage_lengths(counts: Counts) -> Exhibit:
    """Passages by length in words."""
    bins = _binned(counts.passage_words)
    return Exhibit(
        "passages",
        "How long passages are",
        f"Words in the middle half of the passages: {_spread(counts.passage_words)}. The longest share the last bar.",
        figures.histogram(bins, "words", "passages"),
        ["Words", "Passages"],
        [(one.name, one.rows) for one in bins],
    )


def questions_per_label(counts: Counts) -> Exhibit:
    """Labels by the number of their questions."""
    bins = _binned(counts.questions_per_label)
    return Exhibit(
        "per-label",
        "How many questions a label gave",
        f"Questions from the middle half of the labels: {_spread(counts.questions_per_label)}. "
        f"Labels without a question: {counts.questions_per_label[0]:,}. The largest numbers share the last bar.",
        figures.histogram(bins, "questions", "labels"),
        ["Questions", "Labels"],
        [(one.name, one.rows) for one in bins],
    )


def _topic_series(kind: tuple[str, str], categories: Sequence[str], counts: Counts) -> figures.Series:
    other = (f"{TYPE_NAMES.get(kind[0], kind[0])}, from {kind[1]}", figures.REJECT_COLOUR)
    name, colour = SOURCE_NAMES.get(kind, other)
    return figures.Series(name, colour, [counts.questions[kind[0], kind[1], category] for category in categories])


def _rows_exhibit(stages: Sequence[StageCount], counts: Counts) -> Exhibit:
    unit = UNITS.get(stages[0].stage, "Rows")
    losing = [stage for stage in stages if stage.rejected]
    flow = draw_flow(losing, {"": stages[0].rows_in}, counts.dropped, unit)
    title = f"{unit}: what was kept and why the rest was not"
    note = f"{stages[-1].kept:,} of {stages[0].rows_in:,} were kept{_share(stages)}. {GREY}"
    return _flow_exhibit(f"retention-{stages[0].stage}", title, note, flow)


def _questions_exhibit(stages: Sequence[StageCount], counts: Counts) -> Exhibit:
    lanes = {kind: counts.candidates[kind] for kind in sorted(counts.candidates, key=_type_order)}
    flow = draw_flow(stages, lanes, counts.dropped, "Candidates")
    kept, first = stages[-1].kept, stages[0].rows_in
    note = f"{kept:,} of {first:,} candidates made the benchmark{_share(stages)}. {GREY}"
    return _flow_exhibit("retention-questions", "Questions: what the filters kept, by type", note, flow)


def _share(stages: Sequence[StageCount]) -> str:
    return f" ({stages[-1].kept / stages[0].rows_in:.1%})" if stages[0].rows_in else ""


def _flow_exhibit(name: str, title: str, note: str, flow: Flow) -> Exhibit:
    rows = [(flow.nodes[link.source].label, flow.nodes[link.target].label, link.rows) for link in flow.links]
    return Exhibit(name, title, note, figures.sankey(flow), ["From", "To", "Rows"], rows, wide=True)


def _type_order(kind: str) -> tuple[int, str]:
    return (list(TYPE_NAMES).index(kind) if kind in TYPE_NAMES else len(TYPE_NAMES), kind)


def _kind_order(kind: tuple[str, str]) -> tuple[int, str, str]:
    return (*_type_order(kind[0]), kind[1])


def _binned(lengths: Counter[int], bars: int = 30) -> list[figures.Bin]:
    """Counts in at most `bars` bins of one round width up to the 99th percentile, with all above it in one more."""
    top = quantile(lengths, 0.99)
    width = next(width for width in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, top + 1) if width * bars > top)
    bins = []
    for low in range(0, top + 1, width):
        name = str(low) if width == 1 else f"{low}–{low + width - 1}"
        bins.append(figures.Bin(low, low + width, sum(lengths[value] for value in range(low, low + width)), name))
    end = top // width * width + width
    beyond = lengths.total() - sum(one.rows for one in bins)
    return [*bins, figures.Bin(end, end + width, beyond, f"{end} or more")] if beyond else bins


def _spread(lengths: Counter[int]) -> str:
    low, middle, high = (quantile(lengths, share) for share in (0.25, 0.5, 0.75))
    return f"{low} to {high}; the median is {middle}, the most {max(lengths, default=0):,}"
