"""The charts of the questions of a build: by drug, section, wording, answer kind and difficulty; and who wrote and
judged them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.report import charts
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import FigurePanel, listed, plural, readable
from fdarx_core.report.question_counts import QuestionCounts
from fdarx_core.report.retention import TYPE_NAMES

SHOWN = 20
"""Drugs and wordings with a bar of their own; the others share the last bar."""
LEAST_SHARE = 0.02
"""The least share of words or questions with which a section has bars of its own."""
UNDER_ASKED = 0.5
"""A section is named as rarely asked if its share of the questions is below this part of its share of the words."""

OTHER = "Other sections"
KIND_NAMES = PAGE_WORDS["answer_kinds"]
DIFFICULTY_NAMES = PAGE_WORDS["difficulties"]


def writer_name(endpoint: str) -> str:
    """Return the name of an endpoint that wrote or judged questions, with words for the baseline and for no model."""
    return PAGE_WORDS["writers"].get(endpoint, endpoint)


def result_sentence(counts: QuestionCounts, labels: int) -> str:
    """Return the sentence with the numbers of questions, labels and drugs, and who wrote and judged the questions."""
    by_type, writers = Counter[str](), Counter[str]()
    for (kind, endpoint), number in counts.writers.items():
        by_type[kind] += number
        writers[endpoint] += number
    total = by_type.total()
    sources = f"{plural(labels, 'label')} of {plural(len(counts.named), 'drug')}"
    if not total:
        return f"This build made no questions from {sources}."
    kinds = [*(kind for kind in TYPE_NAMES if kind in by_type), *sorted(set(by_type) - set(TYPE_NAMES))]
    named = [f"{by_type[kind]:,} {TYPE_NAMES.get(kind, kind).lower()}" for kind in kinds]
    wrote = _numbered(writers, total)
    judged = _numbered(Counter({name: number for name, number in counts.judges.items() if name}), total)
    judges = f"judged by {judged}" if judged else "judged by no model"
    return f"This build has {listed(named)} questions from {sources}, written by {wrote} and {judges}."


def first_lines(counts: QuestionCounts, without_questions: Sequence[str]) -> list[str]:
    """Return what a reader should know first, as sentences: the concentration on few drugs, and what is missing.

    Args:
        counts: the counts of the questions.
        without_questions: the names of sections that many labels have and no question is about.
    """
    drugs = _totals(counts.drugs)
    if not drugs:
        return []
    most = drugs.most_common(_MOST_DRUGS)
    share = sum(number for _, number in most) / drugs.total()
    names = listed([name for name, _ in most])
    lines = [f"{plural(len(drugs), 'drug')} have questions; {share:.0%} of the questions are on {names}."]
    if without_questions:
        lines.append(f"No question is about {listed(list(without_questions))}.")
    return lines


_MOST_DRUGS = 3
"""The drugs that are named as those with most questions."""


def _numbered(counted: Counter[str], total: int) -> str:
    """Return the names of endpoints, the most frequent first, with their numbers where they are several."""
    if len(counted) == 1 and counted.total() == total:
        return writer_name(next(iter(counted)))
    return listed([f"{writer_name(name)} ({number:,})" for name, number in counted.most_common()])


def by_drug(counts: QuestionCounts) -> FigurePanel:
    """Return the questions by the active moieties of their label and by type."""
    return _ranked("by-drug", "Drug", counts.drugs, "other drugs", drugs=f"{len(counts.named):,}")


def by_wording(counts: QuestionCounts) -> FigurePanel:
    """Return the questions by template or opening words, and by type."""
    totals = _totals(counts.wordings)
    shares = [number / max(totals.total(), 1) for _, number in totals.most_common()]
    most, shown = max(shares, default=0.0), sum(shares[:SHOWN])
    return _ranked("by-wording", "Wording", counts.wordings, wordings=f"{len(totals):,}", most=most, shown=shown)


def by_kind(counts: QuestionCounts) -> FigurePanel:
    """Return the questions by the kind of their answer and by type."""
    return _ranked("by-kind", "Answer", _named(counts.kinds, KIND_NAMES))


def by_difficulty(counts: QuestionCounts) -> FigurePanel:
    """Return the questions by difficulty and by type."""
    return _ranked("by-difficulty", "Difficulty", _named(counts.difficulties, DIFFICULTY_NAMES))


def _named(counted: Mapping[tuple[str, str], int], names: Mapping[str, str]) -> Counter[tuple[str, str]]:
    named: Counter[tuple[str, str]] = Counter()
    for (kind, type), number in counted.items():
        named[names.get(kind, readable(kind)), type] += number
    return named


def by_section(counts: QuestionCounts) -> FigurePanel:
    """Return each section's share of the words of all labels, and its share of the questions with gold passages."""
    words, asked = Counter[str](), defaultdict[str, float](float)
    all_words, all_asked = max(counts.words.total(), 1), max(sum(counts.asked.values()), 1.0)
    for code in {*counts.words, *counts.asked}:
        shares = counts.words[code] / all_words, counts.asked.get(code, 0.0) / all_asked
        name = SECTION_NAMES[code] if code in SECTION_NAMES and max(shares) >= LEAST_SHARE else OTHER
        words[name] += counts.words[code]
        asked[name] += counts.asked.get(code, 0.0)
    names = sorted(words, key=lambda name: (name == OTHER, -words[name], name))
    of_words = [words[name] / all_words for name in names]
    of_asked = [asked[name] / all_asked for name in names]
    series = [
        charts.Series("Share of the words of all labels", charts.REJECT_COLOR, of_words),
        charts.Series("Share of the questions with gold passages", charts.TYPE_COLORS["factual"], of_asked),
    ]
    rows = [
        (name, words[name], f"{own:.1%}", f"{asked[name]:,.0f}", f"{got:.1%}", f"{got / own:.2f}" if own else "–")
        for name, own, got in zip(names, of_words, of_asked, strict=True)
    ]
    rare = [
        name for name, own, got in zip(names, of_words, of_asked, strict=True)
        if name != OTHER and got < UNDER_ASKED * own
    ]  # fmt: skip
    return FigurePanel.worded(
        "by-section",
        charts.compared_shares(names, series),
        ["Section", "Words", "Share of words", "Questions", "Share of questions", "Questions ÷ words"],
        rows,
        legend=[(one.name, one.color) for one in series],
        rare=_rare(rare),
    )


def _rare(names: Sequence[str]) -> str:
    if not names:
        return "No section has less than half of the questions that its share of words would give it."
    return f"These have less than half of the questions that their share of the words would give them: {listed(names)}."


def _totals(counted: Mapping[tuple[str, str], int]) -> Counter[str]:
    totals = Counter[str]()
    for (name, _), number in counted.items():
        totals[name] += number
    return totals


def _ranked(
    panel: str, stub: str, counted: Mapping[tuple[str, str], int], others: str = "", **about: Any
) -> FigurePanel:
    """Return bars of the most frequent names, stacked by type, and one bar for the others if they have a name."""
    totals = _totals(counted)
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    shown = ranked if len(ranked) <= SHOWN + 1 else ranked[:SHOWN]
    rest = ranked[len(shown) :] if others else []
    present = {type for _, type in counted}
    types = [*(type for type in TYPE_NAMES if type in present), *sorted(present - set(TYPE_NAMES))]
    names = [name or "Not named" for name in shown] + ([f"{len(rest):,} {others}"] if rest else [])
    series = []
    for type in types:
        values = [counted.get((name, type), 0) for name in shown]
        values += [sum(counted.get((name, type), 0) for name in rest)] if rest else []
        color = charts.TYPE_COLORS.get(type, charts.REJECT_COLOR)
        series.append(charts.Series(TYPE_NAMES.get(type, type), color, values))
    total = max(totals.total(), 1)
    sums = [sum(one.values[at] for one in series) for at in range(len(names))]
    rows = [
        (name, *(one.values[at] for one in series), sums[at], f"{sums[at] / total:.1%}")
        for at, name in enumerate(names)
    ]
    return FigurePanel.worded(
        panel,
        charts.stacked_bars(names, series, "questions"),
        [stub, *(one.name for one in series), "All", "Share"],
        rows,
        legend=[(one.name, one.color) for one in series],
        **about,
    )
