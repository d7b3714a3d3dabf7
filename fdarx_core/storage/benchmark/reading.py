"""A run's labels with what belongs to each, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from fdarx_core.records import Label, Passage, QuestionAnswer
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.rundir import RunDirectory
from fdarx_core.storage.tables import read_records


class _OfLabel(Protocol):
    set_id: str


R = TypeVar("R", bound=_OfLabel)


@dataclass(frozen=True, slots=True)
class LabelRows:
    """A label, its passages by doc_chunk_index, and its questions by type and id."""

    label: Label
    passages: dict[int, Passage]
    questions: list[QuestionAnswer]

    def gold(self, question: QuestionAnswer) -> list[Passage]:
        """The question's gold passages. `StorageError` where the label has no such passage."""
        try:
            return [self.passages[index] for index in question.gold_passages]
        except KeyError as missing:
            raise StorageError(
                f"question {question.id} rests on passage {missing} that label {question.set_id} does not have; "
                "delete the run and build it again"
            ) from missing


def read_labels(run: RunDirectory) -> Iterator[LabelRows]:
    """The run's labels in order of set id. What is in memory at a time does not grow with their number.

    Raises `StorageError` where rows stand out of that order, or belong to no label of the run.
    """
    passages = _ByLabel("passages", _rows(run, "passages", Passage))
    questions = _ByLabel("questions", _rows(run, "questions", QuestionAnswer))
    last = ""
    for label in _rows(run, "labels", Label):
        if label.set_id <= last:
            raise StorageError(f"{run.root}/labels: {label.set_id} stands after {last}, but parts go by set id")
        last = label.set_id
        by_index = {passage.doc_chunk_index: passage for passage in passages.take(last)}
        asked = sorted(questions.take(last), key=lambda question: (question.type, question.id))
        yield LabelRows(label, dict(sorted(by_index.items())), asked)
    passages.check_empty()
    questions.check_empty()


def _rows(run: RunDirectory, kind: str, record: type[R]) -> Iterator[R]:
    return (row for location in run.parts(kind) for row in read_records(location, record))


class _ByLabel(Generic[R]):
    """Rows in order of set id, taken label by label."""

    def __init__(self, kind: str, rows: Iterator[R]) -> None:
        self._kind = kind
        self._groups = groupby(rows, key=lambda row: row.set_id)
        self._next = next(self._groups, None)

    def take(self, set_id: str) -> list[R]:
        """The rows of this label; those of labels before it must have been taken."""
        if self._next is None or self._next[0] > set_id:
            return []
        if self._next[0] < set_id:
            self.check_empty()
        found = list(self._next[1])
        self._next = next(self._groups, None)
        return found

    def check_empty(self) -> None:
        if self._next is not None:
            raise StorageError(
                f"{self._kind} of {self._next[0]} belong to no label of the run, or stand out of the order of set ids; "
                "delete the run and build it again"
            )
