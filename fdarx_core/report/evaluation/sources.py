"""What a few answers rest on: their questions, the passages these need, and which passages state the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fdarx_core.evaluation.places import Place, gold_places, places
from fdarx_core.records import Equivalence, Passage, Prediction, QuestionAnswer
from fdarx_core.storage import RunDirectory, read_where

Record = TypeVar("Record")


@dataclass(slots=True)
class Sources:
    """Questions by id; passages by label and index; for each question the gold passage that another stands for, why."""

    questions: dict[str, QuestionAnswer] = field(default_factory=dict)
    passages: dict[Place, Passage] = field(default_factory=dict)
    equivalents: dict[str, dict[int, tuple[int, str]]] = field(default_factory=lambda: defaultdict(dict))

    def stands_for(self, question: QuestionAnswer, place: Place) -> tuple[int, str] | None:
        """The gold passage that states the same as this one, and why that is held."""
        return self.equivalents.get(question.id, {}).get(place[1]) if place[0] == question.set_id else None


def read_sources(run: RunDirectory, predictions: Sequence[Prediction]) -> Sources:
    """Reads the run part by part and keeps what these predictions need."""
    sources = Sources()
    asked = {one.question_id for one in predictions}
    for question in _kept(run, "questions", "id", asked, QuestionAnswer):
        sources.questions[question.id] = question
    for one in _kept(run, "equivalences", "question_id", asked, Equivalence):
        for gold, member, why in zip(one.gold, one.members, one.why, strict=True):
            sources.equivalents[one.question_id].setdefault(member, (gold, why))
    needed = {place for one in predictions for place in cited_places(one)}
    needed |= {place for question in sources.questions.values() for place in gold_places(question)}
    for passage in _kept(run, "passages", "set_id", {set_id for set_id, _ in needed}, Passage):
        place = (passage.set_id, passage.doc_chunk_index)
        if place in needed:
            sources.passages[place] = passage
    return sources


def cited_places(prediction: Prediction) -> list[Place]:
    """The cited passages, in the order of their naming."""
    return places(prediction.set_id, prediction.cited, prediction.cited_set_ids)


def shown_places(prediction: Prediction) -> list[Place]:
    """The passages that stood in the prompt, in its order."""
    return places(prediction.set_id, prediction.shown, prediction.shown_set_ids)


def _kept(run: RunDirectory, kind: str, column: str, wanted: Collection[str], record: type[Record]) -> Iterator[Record]:
    for part in run.parts(kind):
        yield from read_where(part, column, wanted, record)
