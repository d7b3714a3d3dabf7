"""The few rows that a report shows whole, picked by a seeded hash of their ids so that any machine picks the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.records import Passage, QuestionAnswer, Reject, from_table
from fdarx_core.report.parts import Part
from fdarx_core.report.picks import Picks

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Example:
    """A benchmark question with the text of its gold passages."""

    question: QuestionAnswer
    passages: list[Passage]


@dataclass(frozen=True, slots=True)
class DroppedExample:
    """A rejected row; `question` and `answer` are the candidate's, "" where the row was no question yet."""

    reject: Reject
    question: str
    answer: str


class Samples:
    """Eight questions of each type and three rejects of each stage and reason."""

    def __init__(self, seed: int) -> None:
        self._questions: Picks[Example] = Picks(8, seed)
        self._rejects: Picks[DroppedExample] = Picks(3, seed)

    def add(self, part: Part) -> None:
        """Offer the rows of one part."""
        _offer_all(self._questions, part.questions, ["type"], lambda row: _example(part, row))
        _offer_all(self._rejects, part.rejects, ["stage", "reason"], lambda row: _dropped(part, row))

    def questions(self, question_type: str) -> list[Example]:
        """The picked questions of a type."""
        return self._questions.of(question_type)

    def rejects(self, stage: str, reason: str) -> list[DroppedExample]:
        """The picked rejects of a stage and reason."""
        return self._rejects.of(_group((stage, reason)))


def _group(values: Iterable[str]) -> str:
    return "\x1f".join(values)


def _offer_all(picks: Picks[Item], table: pa.Table, groups: list[str], make: Callable[[int], Item]) -> None:
    columns = [table[name].to_pylist() for name in groups]
    for row, (row_id, *values) in enumerate(zip(table["id"].to_pylist(), *columns, strict=True)):
        picks.offer(_group(values), row_id, lambda row=row: make(row))  # type: ignore[misc]


def _example(part: Part, row: int) -> Example:
    question = next(from_table(part.questions.slice(row, 1), QuestionAnswer))
    mine = part.passages.filter(
        pc.and_(
            pc.equal(part.passages["set_id"], question.set_id),
            pc.is_in(part.passages["doc_chunk_index"], pa.array(question.gold_passages, pa.int64())),
        )
    )
    found = {passage.doc_chunk_index: passage for passage in from_table(mine, Passage)}
    return Example(question, [found[index] for index in question.gold_passages if index in found])


def _dropped(part: Part, row: int) -> DroppedExample:
    reject = next(from_table(part.rejects.slice(row, 1), Reject))
    found = part.candidates.filter(pc.equal(part.candidates["id"], reject.id)).slice(0, 1).to_pylist()
    candidate = found[0] if found else {"question": "", "answer": ""}
    return DroppedExample(reject, candidate["question"], candidate["answer"])
