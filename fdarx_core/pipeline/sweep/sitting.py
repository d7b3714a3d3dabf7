"""One label's questions as one model sits them: the unit that goes through a sweep, and its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.evaluation.answers import predict, read_given
from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.grading import grade_without_judge, grading_slots, read_grade
from fdarx_core.evaluation.settings import Room, Shown, shown
from fdarx_core.evaluation.tasks import ANSWER_TASKS, GRADE_ANSWER
from fdarx_core.llm import Prices
from fdarx_core.pipeline.stepping import Address, Asked
from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer, Ranking, Request
from fdarx_core.storage.benchmark import Examined
from fdarx_core.storage.predictions_file import GivenAnswer


@dataclass(slots=True)
class Sitting:
    """What is known of the label and its questions, and what one model has made of them so far.

    `rankings` go by retriever and question id; `elsewhere` holds the passages of other labels that they name, by set
    id and index. `due` are the questions of each cell. `ended` says what ended asking before the sitting was over.
    """

    examined: Examined
    equivalences: dict[str, Equivalence]
    rankings: dict[tuple[str, str], Ranking]
    elsewhere: dict[tuple[str, int], Passage]
    due: dict[CellKey, list[QuestionAnswer]]
    put: list[tuple[CellKey, QuestionAnswer, Shown]] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    grades: list[Grade] = field(default_factory=list)
    ended: str = ""

    def ranked(self, retriever: str, question: QuestionAnswer, top_k: int) -> list[Passage]:
        """The passages that the retriever puts first; none in settings without one."""
        if not retriever:
            return []
        ranking = self.rankings[retriever, question.id]
        own = {passage.doc_chunk_index: passage for passage in self.examined.passages}
        if not ranking.ranked_set_ids:
            return [own[index] for index in ranking.ranked[:top_k]]
        pairs = list(zip(ranking.ranked_set_ids, ranking.ranked, strict=True))[:top_k]
        return [own[index] if set_id == question.set_id else self.elsewhere[set_id, index] for set_id, index in pairs]


@dataclass(frozen=True, slots=True)
class AnswerAll:
    """Questions → predictions of one model, cell by cell, so that what shares a prefix is asked in a row."""

    address: Address
    room: Room
    top_k: int
    prices: Prices | None = None

    @property
    def endpoints(self) -> frozenset[str]:
        return frozenset((self.address.name,))

    def requests(self, sitting: Sitting) -> list[Request]:
        sitting.put = [
            (cell, question, self._shown(sitting, cell, question))
            for cell, questions in sitting.due.items()
            for question in questions
        ]
        return _sharing_text([self._request(cell, view) for cell, _, view in sitting.put])

    def _request(self, cell: CellKey, view: Shown) -> Request:
        task = ANSWER_TASKS[cell.setting]
        return task.request(view.slots, endpoint=self.address.name, sampling=self.address.sampling)

    def _shown(self, sitting: Sitting, cell: CellKey, question: QuestionAnswer) -> Shown:
        ranked = sitting.ranked(cell.retriever, question, self.top_k)
        return shown(cell.setting, question, sitting.examined.passages, ranked, self.room)

    def take(self, sitting: Sitting, asked: Sequence[Asked]) -> None:
        for (cell, question, view), (_, response) in zip(sitting.put, asked, strict=True):
            cost = self.prices.cost(response) if self.prices else None
            task = ANSWER_TASKS[cell.setting]
            sitting.predictions.append(predict(cell, question, view, task, response, cost))
        sitting.put = []


@dataclass(frozen=True, slots=True)
class TakeGiven:
    """Answers made elsewhere → predictions. `answers` go by question id and cell."""

    answers: Mapping[tuple[str, CellKey], GivenAnswer]

    def __call__(self, sitting: Sitting) -> None:
        for cell, questions in sitting.due.items():
            for question in questions:
                given = self.answers[question.id, cell]
                sitting.predictions.append(read_given(question, sitting.examined.passages, given))


@dataclass(frozen=True, slots=True)
class GradeAll:
    """Predictions → grades. A rule grades what needs no judgement, the judge the rest."""

    address: Address

    @property
    def endpoints(self) -> frozenset[str]:
        return frozenset((self.address.name,))

    def requests(self, sitting: Sitting) -> list[Request]:
        return [
            GRADE_ANSWER.request(
                grading_slots(question, prediction), endpoint=self.address.name, sampling=self.address.sampling
            )
            for question, prediction, grade in self._each(sitting)
            if grade is None
        ]

    def take(self, sitting: Sitting, asked: Sequence[Asked]) -> None:
        waiting = iter(asked)
        for question, prediction, grade in self._each(sitting):
            sitting.grades.append(grade or read_grade(question, prediction, next(waiting)[1]))

    def _each(self, sitting: Sitting) -> list[tuple[QuestionAnswer, Prediction, Grade | None]]:
        questions = {question.id: question for question in sitting.examined.questions}
        pairs = [(questions[prediction.question_id], prediction) for prediction in sitting.predictions]
        return [(question, prediction, grade_without_judge(question, prediction)) for question, prediction in pairs]


def _sharing_text(requests: list[Request]) -> list[Request]:
    """The same requests, whose equal messages are one string: forty questions on a label hold its text once."""
    held: dict[str, str] = {}
    for request in requests:
        for message in request.messages:
            message["content"] = held.setdefault(message["content"], message["content"])
    return requests
