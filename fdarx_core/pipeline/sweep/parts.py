"""The part files of an evaluation's run: how a sitting is put together from them, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, TypeAlias

from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.scoring import describe, score
from fdarx_core.llm import TRANSIENT, source_digest
from fdarx_core.pipeline.parted.files import PartFiles
from fdarx_core.pipeline.sweep.sitting import Sitting
from fdarx_core.pipeline.sweep.what import Sweep
from fdarx_core.records import (
    Cell,
    Equivalence,
    Grade,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    Score,
    Subject,
)
from fdarx_core.storage.benchmark import Examined
from fdarx_core.storage.predictions_file import GivenAnswer

LABELS_A_PART = 8
UNDERSTOOD_BY = source_digest("fdarx_core.evaluation", "fdarx_core.retrieval", "fdarx_core.filters.text")
"""The state of all that ranks, reads, grades and scores: what another left is made anew, from the same replies."""

Given: TypeAlias = Mapping[tuple[str, CellKey], GivenAnswer]
"""Answers made elsewhere, by question id and cell."""


@dataclass(frozen=True, slots=True)
class Parts(PartFiles):
    """Reads and writes the parts of one run."""

    understood_by: ClassVar[str] = UNDERSTOOD_BY

    def examined(self, part: int) -> list[Examined]:
        """The labels of a part, in order of set id."""
        passages = _by_label(self.read("passages", part, Passage))
        questions = _by_label(self.read("questions", part, QuestionAnswer))
        return [
            Examined(subject, passages.get(subject.set_id, []), questions.get(subject.set_id, []))
            for subject in self.read("subjects", part, Subject)
        ]

    def write_examined(self, part: int, labels: Sequence[Examined], equal: Sequence[Equivalence]) -> None:
        self.write("subjects", part, [one.subject for one in labels], Subject)
        self.write("passages", part, [row for one in labels for row in one.passages], Passage)
        self.write("questions", part, [row for one in labels for row in one.questions], QuestionAnswer)
        self.write("equivalences", part, equal, Equivalence)
        self.mark("intake", part)

    def equivalences(self, part: int) -> dict[str, Equivalence]:
        """By question id."""
        return {row.question_id: row for row in self.read("equivalences", part, Equivalence)}

    def sittings(self, sweep: Sweep, model: str, part: int, given: Given | None = None) -> list[Sitting]:
        """What a model is to sit, from the rows that earlier stages wrote; of `given` answers, what they answer."""
        equal = self.equivalences(part)
        cells = sweep.cells(model)
        rankings, elsewhere = self._rankings(() if given else {cell.retriever for cell in cells}, part)

        def due(cell: CellKey, question: QuestionAnswer, subject: Subject) -> bool:
            return sweep.is_due(cell.setting, question, subject) if given is None else (question.id, cell) in given

        return [
            Sitting(
                examined,
                {row.id: equal[row.id] for row in examined.questions if row.id in equal},
                {key: row for key, row in rankings.items() if row.set_id == examined.subject.set_id},
                elsewhere,
                {cell: [row for row in examined.questions if due(cell, row, examined.subject)] for cell in cells},
            )
            for examined in self.examined(part)
        ]

    def write_sittings(self, sweep: Sweep, model: str, part: int, sittings: Sequence[Sitting]) -> None:
        """Predictions, grades and scores; last, how far each cell came in this part."""
        predictions = [row for sitting in sittings for row in sitting.predictions]
        grades = [row for sitting in sittings for row in sitting.grades]
        self.write(f"predictions/{model}", part, predictions, Prediction)
        self.write(f"grades/{model}", part, grades, Grade)
        self.write(
            f"scores/{model}", part, [row for one in sittings for row in scores(one, sweep.citing(model))], Score
        )
        self.mark(f"sat/{model}", part, [how_far(cell, sittings) for cell in sweep.cells(model)], Cell)

    def sat(self, model: str, part: int) -> list[Cell]:
        """How far the cells of a model came in a part that is marked."""
        return self.read(self.done(f"sat/{model}"), part, Cell)

    def _rankings(
        self, retrievers: Iterable[str], part: int
    ) -> tuple[dict[tuple[str, str], Ranking], dict[tuple[str, int], Passage]]:
        rankings: dict[tuple[str, str], Ranking] = {}
        elsewhere: dict[tuple[str, int], Passage] = {}
        for name in filter(None, retrievers):
            if not self.run.part(f"rankings/{name}", part).exists():
                continue  # no label is whole, so nothing is due
            rankings |= {(name, row.question_id): row for row in self.read(f"rankings/{name}", part, Ranking)}
            if self.run.part(f"elsewhere/{name}", part).exists():
                found = self.read(f"elsewhere/{name}", part, Passage)
                elsewhere |= {(row.set_id, row.doc_chunk_index): row for row in found}
        return rankings, elsewhere


def scores(sitting: Sitting, citing: Collection[str]) -> list[Score]:
    """A row a prediction; in the settings `citing`, citations are scored."""
    examined = sitting.examined
    passages = {passage.doc_chunk_index: passage for passage in examined.passages}
    questions = {question.id: question for question in examined.questions}
    described = {one.id: describe(one, examined.subject, passages) for one in examined.questions}
    grades: Mapping[str, Grade] = {grade.prediction_id: grade for grade in sitting.grades}
    return [
        score(
            described[row.question_id],
            questions[row.question_id],
            row,
            grades.get(row.id),
            sitting.equivalences.get(row.question_id),
            citing,
        )
        for row in sitting.predictions
    ]


def how_far(cell: CellKey, sittings: Sequence[Sitting]) -> Cell:
    """Whether the cell is done in these sittings. What failed for now makes it incomplete, and is asked again."""
    mine = {
        row.id: row for one in sittings for row in one.predictions if (row.model, row.setting, row.retriever) == cell
    }
    passing = [row.reason for row in mine.values() if row.reason.startswith(TRANSIENT)]
    grades = [row for one in sittings for row in one.grades if row.prediction_id in mine]
    passing += [row.detail for row in grades if row.outcome == "unscored" and row.detail.startswith(TRANSIENT)]
    due = sum(len(one.due.get(cell, ())) for one in sittings)
    if not passing:
        lost = [row.reason for row in mine.values() if row.outcome == "failed"]
        return Cell(*cell, status="done", reason=lost[0] if lost else "", due=due)
    first = passing[0].removeprefix(TRANSIENT).split(":")[0]
    return Cell(*cell, status="incomplete", reason=f"{len(passing)} requests failed for now ({first})", due=due)


def _by_label(rows: Iterable[Any]) -> dict[str, list[Any]]:
    return {set_id: list(group) for set_id, group in groupby(rows, key=lambda row: row.set_id)}
