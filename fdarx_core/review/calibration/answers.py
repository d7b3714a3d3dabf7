"""The graded answers of an evaluation, and what the people of a review said of some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.aggregates import Columns, Mask, Numbers
from fdarx_core.evaluation.aggregates.aggregate import answerable_questions
from fdarx_core.evaluation.aggregates.answers import graded
from fdarx_core.evaluation.cell import CellKey
from fdarx_core.records import Cell, Prediction
from fdarx_core.review.agreement import collect
from fdarx_core.review.calibration.answered import GRADE, RIGHT, round_of
from fdarx_core.review.calibration.rounds import Round
from fdarx_core.review.items import Review, open_review
from fdarx_core.review.making import answer_of
from fdarx_core.storage import RunDirectory, StorageError, read_records, read_table, read_where

_READ = ["prediction_id", "question_id", "set_id", "setting", "retriever", "type", "outcome", "grade"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a verdict, to an answerable question. `verdict` is the judge's; `part` names the run's file."""

    id: str
    question_id: str
    cell: CellKey
    type: str
    verdict: str
    part: str


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows that accuracy is of. `judge` is 1 where the judge found the answer correct, else 0."""

    rows: list[Answer]
    judge: Numbers = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "judge", np.array([float(one.verdict == RIGHT) for one in self.rows]))

    def cells(self) -> list[CellKey]:
        """In the order of the evaluation."""
        return list(dict.fromkeys(one.cell for one in self.rows))

    def here(self, cells: Collection[CellKey], types: Collection[str]) -> Mask:
        """The rows of these cells on questions of these types."""
        return np.array([one.cell in cells and one.type in types for one in self.rows], dtype=np.bool_)


def answers_of(run: RunDirectory, review: Review) -> Answers:
    """Of the models and settings that the review was drawn from.

    `StorageError` where the run is no evaluation, or not the one whose answers the review holds.
    """
    if run.info()["job"] != "evaluate":
        raise StorageError(f"{run.root} is a run of {run.info()['job']}, not of evaluate: it has no graded answers")
    _check_held(review, run)
    models, settings = review.info["models"], review.info["settings"]
    cells = [CellKey(one.model, one.setting, one.retriever) for one in read_records(run.file("cells.parquet"), Cell)]
    wanted = [one for one in cells if (not models or one.model in models) and (not settings or one.setting in settings)]
    found = [answer for model in dict.fromkeys(one.model for one in wanted) for answer in _graded(run, model)]
    order = {cell: at for at, cell in enumerate(wanted)}
    return Answers(sorted((one for one in found if one.cell in order), key=lambda one: order[one.cell]))


def history(review: Review) -> list[Review]:
    """The review and those that it goes on from, the oldest first."""
    found = [review]
    while earlier := found[0].info.get("of"):
        found.insert(0, open_review(earlier))
    return found


def rounds_of(answers: Answers, reviews: Sequence[Review], *, blind: bool = False) -> list[Round]:
    """What people said of the answers, a round a review.

    `blind` leaves out votes given with the judge's decision in view. Raises ValueError as `collect` does.
    """
    row = {one.id: at for at, one in enumerate(answers.rows)}
    rounds: list[Round] = []
    for review in reviews:
        items = {item.id: item for item in review.items() if item.task == GRADE}
        votes = [one for one in review.annotations() if one.item_id in items]
        rounds.append(round_of(collect(items.values(), votes, blind=blind), row))
    return rounds


def within(rounds: Sequence[Round], rows: Mask) -> list[Round]:
    """The rounds as of these rows alone, in their numbers."""
    number = np.cumsum(rows) - 1
    kept = [(one, rows[one.rows], rows[one.unjudged]) for one in rounds]
    return [
        Round(number[one.rows[here]], one.people[here], one.chances[here], number[one.unjudged[there]])
        for one, here, there in kept
    ]


def _check_held(review: Review, run: RunDirectory) -> None:
    """That people were shown these very answers; what a judge says of them may have changed since."""
    items = {item.subject: item for item in review.items() if item.task == GRADE}
    if not items:
        raise StorageError(f"{review.root} is a review of {review.info['run']}, on which nobody is asked about answers")
    parts = (
        part for model in sorted({one.model for one in items.values()}) for part in run.parts(f"predictions/{model}")
    )
    said = {row.id: answer_of(row) for part in parts for row in read_where(part, "id", items, Prediction)}
    if other := sum(said.get(name) != item.answer for name, item in items.items()):
        raise StorageError(
            f"{review.root} was drawn from {review.info['run']} as it stood then: {other} of its {len(items)} answers "
            f"are not in {run.root}, or read otherwise; give the evaluation that it was drawn from"
        )


def _graded(run: RunDirectory, model: str) -> Iterable[Answer]:
    for part in run.parts(f"scores/{model}"):
        table = read_table(part, _READ)
        columns = Columns(table.append_column("model", pa.array([model] * len(table), pa.string())))
        read = (columns.strings(name).tolist() for name in (*_READ[:2], "model", *_READ[3:6], "grade"))
        counted = graded(columns) & answerable_questions(columns)
        for (id_, question, *cell, type_, verdict), counts in zip(zip(*read, strict=True), counted, strict=True):
            if counts:
                yield Answer(id_, question, CellKey(*cell), type_, verdict, part.name)
