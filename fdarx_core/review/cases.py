"""Questions of a build with all that their judges were shown, and what these decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from fdarx_core.filters.judges import Judge
from fdarx_core.records import Label, Passage, QuestionAnswer, Verdict
from fdarx_core.review.tasks import ReviewTask
from fdarx_core.storage import RunDirectory, StorageError, read_where


@dataclass(frozen=True, slots=True)
class Case:
    """A question of a build, its label, and all passages of that in document order: what a judge's slots come from."""

    question: QuestionAnswer
    label: Label
    passages: list[Passage]

    def slots(self, judge: Judge) -> dict[str, Any]:
        """What the judge is shown. StorageError where the question rests on a passage that the run does not have."""
        try:
            return judge.slots(self.question, self.label, self.passages)
        except (KeyError, IndexError) as missing:
            raise _incomplete(self.question) from missing


def cases_of(run: RunDirectory, part: str, wanted: Collection[str]) -> dict[str, Case]:
    """Those of the questions that a part of a build holds, by id. StorageError where it lacks the label of one."""
    questions = list(read_where(run.file(f"candidates/{part}"), "id", wanted, QuestionAnswer))
    if not questions:
        return {}
    owners = {one.set_id for one in questions}
    labels = {one.set_id: one for one in read_where(run.file(f"labels/{part}"), "set_id", owners, Label)}
    passages = passages_by_label(read_where(run.file(f"passages/{part}"), "set_id", owners, Passage))
    for one in questions:
        if one.set_id not in labels:
            raise _incomplete(one)
    return {one.id: Case(one, labels[one.set_id], passages.get(one.set_id, [])) for one in questions}


def decided(task: ReviewTask, verdict: Verdict) -> str:
    """A build's verdict in the words of the task, "" where none was reached."""
    if verdict.outcome == "unscored":
        return ""
    if task.name in ("relevance", "category"):
        return verdict.relevance if task.name == "relevance" else verdict.category
    positive, negative = task.choices
    return positive if verdict.outcome == "kept" else negative


def passages_by_label(rows: Iterable[Passage]) -> dict[str, list[Passage]]:
    """By set id, in document order."""
    found: dict[str, list[Passage]] = defaultdict(list)
    for row in rows:
        found[row.set_id].append(row)
    return {set_id: sorted(rows, key=lambda row: row.doc_chunk_index) for set_id, rows in found.items()}


def _incomplete(question: QuestionAnswer) -> StorageError:
    return StorageError(
        f"question {question.id} rests on a label or passage that the run does not have; delete the run and build it "
        "again"
    )
