"""The paper's tables of agreement, in its layout, with intervals. Source: FDARxBench Tables 3, 4 and 5."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.grid import Column, Entry, Grid
from fdarx_core.review.agreement.figures import ALL, AgreementFigure
from fdarx_core.review.agreement.measuring import Agreement
from fdarx_core.review.agreement.notes import notes

TASK_NAMES = {
    "relevance": "Relevance",
    "category": "Category",
    "correctness": "QA correctness",
    "quality": "Question quality",
    "grade": "Answer grade",
}
OF_QUESTIONS = ("relevance", "category")
TYPE_NAMES = {"factual": "factual", "multihop": "multi-hop", "refusal": "refusal", ALL: "all types"}
COEFFICIENTS = (("Acc.", "accuracy"), ("F1", "f1"), ("Prec.", "precision"), ("Rec.", "recall"), ("κ", "kappa"))
RANGES = (
    ("Judge, acc.", "annotator", "accuracy"),
    ("Judge, F1", "annotator", "f1"),
    ("Judge, prec.", "annotator", "precision"),
    ("Judge, rec.", "annotator", "recall"),
    ("Pairs, match", "pair", "accuracy"),
    ("Pairs, F1", "pair", "f1"),
    ("Pairs, κ", "pair", "kappa"),
)
TOGETHER = (("Consensus", "consensus"), ("Unanimous", "unanimous"))
MACRO = {"f1": "macro_f1"}
"""What stands in a column where a row has several equal values."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The figures of one task, scale, judge and question type, by what they are between and their metric."""

    name: str
    figures: dict[tuple[str, str], list[AgreementFigure]]

    def of(self, between: str, metric: str) -> list[AgreementFigure]:
        return self.figures.get((between, metric)) or self.figures.get((between, MACRO.get(metric, metric)), [])

    def items(self, between: str) -> int:
        return sum(one.items for one in self.of(between, "accuracy"))

    def entry(self, between: str, metric: str) -> Entry | None:
        known = [one for one in self.of(between, metric) if one.value is not None]
        return Entry(known[0].value or 0.0, known[0].low, known[0].high) if known else None

    def ends(self, between: str, metric: str) -> list[Entry | None]:
        """The lowest and the highest value."""
        known = [one.value for one in self.of(between, metric) if one.value is not None]
        return [Entry(min(known)), Entry(max(known))] if known else [None, None]


def table_3(found: Agreement) -> Grid:
    """The judge against people on relevance and category, all types together. Source: FDARxBench Table 3."""
    figures = [one for one in found.figures if one.task in OF_QUESTIONS and one.type == ALL]
    return _against_people("Table 3. Relevance and category of questions: judge and people", figures, found)


def table_4(found: Agreement) -> Grid:
    """Each judge against people on questions and answers, by question type. Source: FDARxBench Table 4."""
    figures = [one for one in found.figures if one.task not in OF_QUESTIONS and _by_type(one)]
    return _against_people("Table 4. Correctness and quality: judge and people", figures, found)


def table_5(found: Agreement) -> Grid:
    """The lowest and highest of the annotators, against the judge and against each other, and Krippendorff's α of all.

    No rows where no two of them judged the same item. Source: FDARxBench Table 5.
    """
    judges = _judges(found.figures)
    figures = [one for one in found.figures if _by_type(one) and (one.judge == ALL or len(judges[one.task]) == 1)]
    rows = [row for row in _rows(figures) if row.items("pair")]
    columns = [Column(group, end) for group, _, _ in RANGES for end in ("low", "high")]
    return Grid(
        "Table 5. Annotators: each against the judge and against each other",
        "Task",
        [*columns, Column("All", "α")],
        [
            (row.name, [*(end for _, *what in RANGES for end in row.ends(*what)), row.entry("annotators", "alpha")])
            for row in rows
        ],
        [
            "Judge: with one annotator at a time as the reference. Pairs: two annotators, on the items that both "
            "judged. Low and high are of different people.",
            "α: Krippendorff's, for nominal values, over all votes.",
            *notes(found, figures),
        ],
    )


def _by_type(one: AgreementFigure) -> bool:
    """Question types have rows of their own where the paper's have, in tasks that keep or drop by type."""
    return one.type == ALL or (bool(one.positive) and one.task not in OF_QUESTIONS)


def _judges(figures: Sequence[AgreementFigure]) -> dict[str, set[str]]:
    """The judges of each task, with `ALL` where there are several."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in figures:
        found[one.task].add(one.judge)
    return found


def _against_people(title: str, figures: Sequence[AgreementFigure], found: Agreement) -> Grid:
    return Grid(
        title,
        "Task",
        [Column(group, name) for group, _ in TOGETHER for name, _ in COEFFICIENTS],
        [
            (
                f"{row.name}, {row.items('consensus')}/{row.items('unanimous')}",
                [row.entry(between, metric) for _, between in TOGETHER for _, metric in COEFFICIENTS],
            )
            for row in _rows(figures)
        ],
        [
            "The judge predicts, people are the reference. Behind each name: items with a consensus / items on which "
            "two people or more agree and none differs.",
            *notes(found, figures),
        ],
    )


def _rows(figures: Sequence[AgreementFigure]) -> list[_Row]:
    """In the order of the figures."""
    by_row: dict[tuple[str, str, str, str], _Row] = {}
    for one in figures:
        place = (one.task, one.positive, one.judge, one.type)
        if place not in by_row:
            by_row[place] = _Row(_name(one, [other for other in figures if other.task == one.task]), {})
        by_row[place].figures.setdefault((one.between, one.metric), []).append(one)
    return list(by_row.values())


def _name(one: AgreementFigure, alike: Sequence[AgreementFigure]) -> str:
    """Type and judge are named where there are several; no judge's name is that of all."""
    parts = [TASK_NAMES[one.task]]
    if any(other.positive != one.positive for other in alike) and not one.positive:
        parts.append(f"{len(one.values)} values")
    elif len({other.type for other in alike}) > 1:
        parts.append(TYPE_NAMES.get(one.type, one.type))
    if one.judge != ALL and len({other.judge for other in alike}) > 1:
        parts.append(one.judge)
    return ", ".join(parts)
