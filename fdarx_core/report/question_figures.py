"""The counts of a build, part by part, and charts of its questions by drug, section, wording, answer and difficulty.

The figures also have who wrote and judged the questions.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from fdarx_core.labels.drugs import drug_of
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Product, QuestionAnswer, from_table
from fdarx_core.records.question_types import type_title
from fdarx_core.report import charts
from fdarx_core.report.page_engine import PAGE_WORDS, Cell, FigurePanel, listed, readable
from fdarx_core.report.retention import Dropped, ordered_types
from fdarx_core.report.samples import RunPart

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


def by_drug(counts: BuildCounts) -> FigurePanel:
    """Return the questions by the active moieties of their label and by type."""
    return _ranked("by-drug", "Drug", counts.drugs, "other drugs", drugs=f"{len(counts.named):,}")


def by_wording(counts: BuildCounts) -> FigurePanel:
    """Return the questions by template or opening words, and by type."""
    found = totals(counts.wordings)
    shares = [number / max(found.total(), 1) for _, number in found.most_common()]
    most, shown = max(shares, default=0.0), sum(shares[:SHOWN])
    return _ranked("by-wording", "Wording", counts.wordings, wordings=f"{len(found):,}", most=most, shown=shown)


def by_kind(counts: BuildCounts) -> FigurePanel:
    """Return the questions by the kind of their answer and by type."""
    return _ranked("by-kind", "Answer", _named(counts.kinds, KIND_NAMES))


def by_difficulty(counts: BuildCounts) -> FigurePanel:
    """Return the questions by difficulty and by type."""
    return _ranked("by-difficulty", "Difficulty", _named(counts.difficulties, DIFFICULTY_NAMES))


def _named(counted: Mapping[tuple[str, str], int], names: Mapping[str, str]) -> Counter[tuple[str, str]]:
    named: Counter[tuple[str, str]] = Counter()
    for (kind, type), number in counted.items():
        named[names.get(kind, readable(kind)), type] += number
    return named


def by_section(counts: BuildCounts) -> FigurePanel:
    """Return each section's share of the words of all labels, and its share of the questions with gold passages."""
    words, asked = Counter[str](), defaultdict[str, float](float)
    all_words, all_asked = max(counts.words.total(), 1), max(sum(counts.asked.values()), 1.0)
    for code in {*counts.words, *counts.asked}:
        most = max(counts.words[code] / all_words, counts.asked.get(code, 0.0) / all_asked)
        name = SECTION_NAMES[code] if code in SECTION_NAMES and most >= LEAST_SHARE else OTHER
        words[name] += counts.words[code]
        asked[name] += counts.asked.get(code, 0.0)
    names = sorted(words, key=lambda name: (name == OTHER, -words[name], name))
    of_words = [words[name] / all_words for name in names]
    of_asked = [asked[name] / all_asked for name in names]
    series = [
        charts.Series("Share of the words of all labels", charts.REJECT_COLOR, of_words),
        charts.Series("Share of the questions with gold passages", charts.type_color("factual"), of_asked),
    ]
    rows: list[tuple[Cell, ...]] = []
    rare: list[str] = []
    for name, own, got in zip(names, of_words, of_asked, strict=True):
        ratio = f"{got / own:.2f}" if own else "–"
        rows.append((name, words[name], f"{own:.1%}", f"{asked[name]:,.0f}", f"{got:.1%}", ratio))
        if name != OTHER and got < UNDER_ASKED * own:
            rare.append(name)
    few = f"These have less than half of the questions that their share of the words would give them: {listed(rare)}."
    none = "No section has less than half of the questions that its share of words would give it."
    return FigurePanel.worded(
        "by-section",
        charts.bars(names, series, "shares"),
        ["Section", "Words", "Share of words", "Questions", "Share of questions", "Questions ÷ words"],
        rows,
        legend=[(one.name, one.color) for one in series],
        rare=few if rare else none,
    )


def totals(counted: Mapping[tuple[str, str], int]) -> Counter[str]:
    """Return the sums of counts by the first part of their keys."""
    found = Counter[str]()
    for (name, _), number in counted.items():
        found[name] += number
    return found


def _ranked(
    panel: str, stub: str, counted: Mapping[tuple[str, str], int], others: str = "", **about: Any
) -> FigurePanel:
    """Return bars of the most frequent names, and one bar for the others if they have a name."""
    sums = totals(counted)
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    shown = ranked if len(ranked) <= SHOWN + 1 else ranked[:SHOWN]
    rest = ranked[len(shown) :] if others else []
    bars = {name or "Not named": [name] for name in shown} | ({f"{len(rest):,} {others}": rest} if rest else {})
    return bars_by_type(panel, stub, bars, counted, share_of=max(sums.total(), 1), **about)


def bars_by_type(
    panel: str,
    stub: str,
    bars: Mapping[str, Sequence[str]],
    counted: Mapping[tuple[str, str], int],
    share_of: int = 0,
    **about: Any,
) -> FigurePanel:
    """Return bars of questions that are stacked by type.

    Args:
        panel: the name of the chart.
        stub: the header of the names of bars.
        bars: for the name of each bar, the names that it counts.
        counted: the questions by name and type.
        share_of: the number of questions of which the table has shares, 0 for a table without shares.
        about: what fills in the title and the note of the chart.
    """
    series = [
        charts.Series(
            type_title(kind),
            charts.type_color(kind, charts.REJECT_COLOR),
            [sum(counted.get((name, kind), 0) for name in names) for names in bars.values()],
        )
        for kind in ordered_types({kind for _, kind in counted})
    ]
    rows: list[list[Cell]] = []
    for at, name in enumerate(bars):
        values = [one.values[at] for one in series]
        rows.append([name, *values, sum(values), *([f"{sum(values) / share_of:.1%}"] if share_of else [])])
    return FigurePanel.worded(
        panel,
        charts.bars(list(bars), series, "counts", "questions"),
        [stub, *(one.name for one in series), "All", *(["Share"] if share_of else [])],
        rows,
        legend=[(one.name, one.color) for one in series],
        **about,
    )


OPENING_WORDS = 4
"""Words of a question without a template that stand for its wording."""


ANY_TYPE = "any"
"""All question types together in `BuildCounts.asked_labels`."""


@dataclass(slots=True)
class BuildCounts:
    """Counts of a run; their size depends on the kinds of rows, not on the number of rows.

    Attributes:
        questions, drugs, wordings, kinds, difficulties: questions by (type, category), (active moieties, type),
            (wording, type), (answer kind, type) and (difficulty, type).
        questions_per_label: labels by number of questions, 0 included.
        candidates, dropped: rows before the filters, by type; rejects, as `Dropped`.
        passage_words, words: passages by length in words; words of all passages by core code.
        sections: by core code, the labels with text in that section.
        asked_labels: by (core code, type or `ANY_TYPE`), the labels with a question whose gold passages are there.
        asked: by core code, the questions with gold passages, of which each passage has an equal part.
        named: the drugs of the labels, with or without questions.
    """

    labels: int = 0
    passages: int = 0
    questions: Counter[tuple[str, str]] = field(default_factory=Counter)
    drugs: Counter[tuple[str, str]] = field(default_factory=Counter)
    wordings: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    difficulties: Counter[tuple[str, str]] = field(default_factory=Counter)
    questions_per_label: Counter[int] = field(default_factory=Counter)
    candidates: Counter[str] = field(default_factory=Counter)
    dropped: Dropped = field(default_factory=Counter)
    passage_words: Counter[int] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    sections: Counter[str] = field(default_factory=Counter)
    asked_labels: Counter[tuple[str, str]] = field(default_factory=Counter)
    asked: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    named: set[str] = field(default_factory=set)

    def add(self, part: RunPart) -> None:
        """Add the rows of a part; all rows of a label must be in one part."""
        drugs = drug_names(part)
        self.named |= set(drugs.values())
        self.labels += len(drugs)
        ids, types = (part["candidates"][name].to_pylist() for name in ("id", "type"))
        self.candidates.update(types)
        type_of = dict(zip(ids, types, strict=True))
        for row in part["rejects"].select(["stage", "reason", "id"]).to_pylist():
            # the type is "" for rows that were no questions yet
            self.dropped[row["stage"], row["reason"], type_of.get(row["id"], "")] += 1
        names, at = (part["passages"][name].to_pylist() for name in ("set_id", "doc_chunk_index"))
        lengths = pc.count_substring_regex(part["passages"]["text"], r"\S+").to_pylist()
        codes = part["passages"]["core_code"].to_pylist()
        self.passages += len(codes)
        self.passage_words.update(lengths)
        for code, words in zip(codes, lengths, strict=True):
            self.words[code] += words
        self.sections.update(code for code, _ in set(zip(codes, names, strict=True)))
        code_of = dict(zip(zip(names, at, strict=True), codes, strict=True))
        of_label: Counter[str] = Counter()
        asked = set[tuple[str, str, str]]()
        for question in from_table(part["questions"], QuestionAnswer):
            of_label[question.set_id] += 1
            self.questions[question.type, question.category] += 1
            self.drugs[drugs.get(question.set_id, question.drug_name), question.type] += 1
            self.wordings[wording_of(question), question.type] += 1
            self.kinds[question.answer_kind, question.type] += 1
            self.difficulties[question.difficulty, question.type] += 1
            for place in (gold := [(question.set_id, index) for index in question.gold_passages]):
                self.asked[code_of.get(place, "")] += 1 / len(gold)
                if place in code_of:
                    asked |= {(code_of[place], kind, question.set_id) for kind in (question.type, ANY_TYPE)}
        self.asked_labels.update((code, kind) for code, kind, _ in asked)
        self.questions_per_label.update(of_label.values())
        if without := len(drugs) - len(of_label):
            self.questions_per_label[0] += without


def drug_names(part: RunPart) -> dict[str, str]:
    """Return for each label, by set id, the names of its active moieties, or its printed name if it lists none."""
    columns = (part["labels"][name].to_pylist() for name in ("set_id", "drug_name", "products"))
    names: dict[str, str] = {}
    for set_id, printed, products in zip(*columns, strict=True):
        moieties = drug_of(*(Product(**product) for product in products or ())).moieties
        names[set_id] = " + ".join(sorted(moieties)).capitalize() or printed
    return names


def wording_of(question: QuestionAnswer) -> str:
    """Return the template of a question, or its opening words with {drug} for the name of the drug."""
    if question.template:
        return question.template
    text = question.question
    if question.drug_name:
        text = re.sub(re.escape(question.drug_name), "{drug}", text, flags=re.IGNORECASE)
    words = text.split()
    return " ".join(words[:OPENING_WORDS]) + ("\N{NO-BREAK SPACE}…" if len(words) > OPENING_WORDS else "")
