"""Accuracy by the judge, by judge and people, and by people alone, of each cell of an evaluation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.grid import Column, Entry, Grid
from fdarx_core.evaluation.tables import TYPE_NAMES
from fdarx_core.records import Figure
from fdarx_core.review.calibration.answers import Answers, answers_of, history, rounds_of, within
from fdarx_core.review.calibration.ppi import FEWEST, PEOPLE, TOO_FEW, Estimate, calibrated, people_alone
from fdarx_core.review.calibration.rounds import Round
from fdarx_core.review.items import Review
from fdarx_core.storage import RunDirectory, read_records

ALL = "all together"
GROUPS = {
    "answerable": ("answerable", tuple(TYPE_NAMES)),
    "factual": ("factual", ("factual",)),
    "multihop": ("multi-hop", ("multihop",)),
}
"""Groups of the evaluation's figures: what they are called here, and the types of their questions."""
COLUMNS = [Column("Accuracy", name) for name in ("judge alone", "calibrated", "people alone")]
WORTH = Column("A label", "is worth")
_SAID_ONCE = (
    "Calibrated: the judge's figure corrected by what people found on the labelled answers (prediction-powered "
    "inference, PPI++).",
    "Intervals at 95 %: the judge's, by bootstrap over labels, takes its verdicts for true; the others hold what "
    "people would find on all these answers.",
    "People's verdict is that of most of them; a tie counts by the share who found the answer correct.",
    "A label is worth as many as people alone would need for an interval as narrow.",
)
"""Of all tables, below the first of them."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """One cell's accuracy on a group of questions: the judge's, with people's corrections, and people's alone."""

    name: str
    judge: Entry
    both: Estimate
    people: Estimate


def calibrated_tables(review: Review, run: RunDirectory, *, blind: bool = False) -> list[Grid]:
    """A Grid for all answerable questions, and one a type, where a cell has enough labels; none without annotations.

    `run` is the evaluation that the review was drawn from. `blind` leaves out votes given with the judge's decision in
    view. Raises ValueError for votes that contradict each other, `StorageError` where the run is no evaluation.
    """
    reviews = history(review)
    answers = answers_of(run, reviews[0])
    rounds = rounds_of(answers, reviews, blind=blind)
    figures = list(read_records(run.file("metrics.parquet"), Figure))
    tables = [_table(group, calibrated_cells(answers, rounds, figures, group)) for group in GROUPS]
    found = [table for table in tables if any(entries[1] for _, entries in table.rows)]
    for table in found[:1]:
        table.notes[:0] = [*_SAID_ONCE, _whose(reviews)]
    return found


def calibrated_cells(
    answers: Answers, rounds: Sequence[Round], figures: Sequence[Figure], group: str
) -> list[Calibrated]:
    """Of each cell that has answers in the group, and of all cells together where there are several."""
    raw = {
        CellKey(one.model, one.setting, one.retriever): one
        for one in figures
        if (one.metric, one.group_by, one.group) == ("accuracy", "type", group)
    }
    cells = answers.cells()
    found = [_calibrated(str(cell), answers, rounds, [cell], group, raw.get(cell)) for cell in cells]
    together = [_calibrated(ALL, answers, rounds, cells, group, None)] if len(cells) > 1 else []
    return [one for one in (*found, *together) if one.both.rows]


def _calibrated(
    name: str, answers: Answers, rounds: Sequence[Round], cells: Collection[CellKey], group: str, raw: Figure | None
) -> Calibrated:
    here = answers.here(cells, GROUPS[group][1])
    judge, seen = answers.judge[here], within(rounds, here)
    value = float(judge.mean()) if len(judge) else 0.0
    bounds = (raw.low, raw.high) if raw else (None, None)
    return Calibrated(name, Entry(value, *bounds), calibrated(judge, seen), people_alone(len(judge), seen))


def _table(group: str, found: Sequence[Calibrated]) -> Grid:
    rows: list[tuple[str, list[Entry | None]]] = [
        (
            f"{one.name} ({one.both.labels} of {one.both.rows:,})",
            [one.judge, _entry(one.both), _entry(one.people), _worth(one)],
        )
        for one in found
    ]
    title = f"Accuracy on {GROUPS[group][0]} questions, calibrated by people's labels"
    return Grid(title, "Answers (labelled of all)", [*COLUMNS, WORTH], rows, _notes(found))


def _entry(one: Estimate) -> Entry | None:
    return None if one.value is None else Entry(one.value, one.low, one.high)


def _worth(one: Calibrated) -> Entry | None:
    """How many labels of people alone would make as narrow an interval as one does with the judge."""
    if one.both.value is None or not one.both.width:
        return None
    return Entry((one.people.width / one.both.width) ** 2)


def _whose(reviews: Sequence[Review]) -> str:
    people = sorted({one.annotator for review in reviews for one in review.annotations()})
    drawn = ", ".join(review.digest for review in reviews)
    return f"Labels: by {', '.join(people)}, of {'reviews' if len(reviews) > 1 else 'review'} {drawn}."


def _notes(found: Sequence[Calibrated]) -> list[str]:
    few = any(one.both.by == TOO_FEW for one in found)
    alone = [one.name for one in found if one.both.by == PEOPLE]
    return [
        *([f"Not calibrated: fewer than {FEWEST} labels."] if few else []),
        *(
            [f"The judge said the same of all labelled answers, so people alone count: {'; '.join(alone)}."]
            if alone
            else []
        ),
    ]
