"""The judges asked again about items of a review, by whatever criteria they now follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.filters.judges import Judge
from fdarx_core.llm import HttpEndpoint
from fdarx_core.records import Label, Passage, QuestionAnswer, Request, Response, Verdict
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.making import rows_where
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.storage import Location, RunDirectory, StorageError


@dataclass(frozen=True, slots=True)
class Case:
    """A question of a build, its label, and all passages of that in document order: what a judge's slots come from."""

    question: QuestionAnswer
    label: Label
    passages: list[Passage]


def find_cases(run: RunDirectory, items: Iterable[ReviewItem]) -> dict[str, Case]:
    """The cases of the items' questions, by question id. StorageError where the run has lost one."""
    wanted = {item.subject for item in items}
    found: dict[str, Case] = {}
    for part in run.parts("candidates") if wanted else []:
        if questions := list(rows_where(part, "id", wanted, QuestionAnswer)):
            found |= _cases(run, part, questions)
    if missing := sorted(wanted - found.keys()):
        raise StorageError(f"{run.root} has no question {missing[0]} of the review; give the run that was reviewed")
    return found


def _cases(run: RunDirectory, part: Location, questions: Sequence[QuestionAnswer]) -> dict[str, Case]:
    owners = {question.set_id for question in questions}
    labels = {one.set_id: one for one in rows_where(run.file(f"labels/{part.name}"), "set_id", owners, Label)}
    passages: dict[str, list[Passage]] = {set_id: [] for set_id in owners}
    for passage in rows_where(run.file(f"passages/{part.name}"), "set_id", owners, Passage):
        passages[passage.set_id].append(passage)
    for rows in passages.values():
        rows.sort(key=lambda row: row.doc_chunk_index)
    return {one.id: Case(one, labels[one.set_id], passages[one.set_id]) for one in questions}


@dataclass(frozen=True, slots=True)
class Bench:
    """Judges who sit over items, and where their requests go."""

    judges: Sequence[Judge]
    endpoint: HttpEndpoint

    def request(self, item: ReviewItem, case: Case) -> Request:
        """What the item's judge is asked. KeyError for an item that no judge of a build decides."""
        judge = self._judge(item)
        task = judge.by_type[case.question.type].task
        slots = judge.slots(case.question, case.label, case.passages)
        return task.request(slots, endpoint=self.endpoint.name, sampling=self.endpoint.sampling)

    def said(self, item: ReviewItem, case: Case, request: Request, response: Response) -> tuple[str, str]:
        """What the judge decides, in the words of the item's choices, and why; "" with the reason where it did not."""
        verdict = self._judge(item).read(case.question, request.slots, response)
        if verdict.outcome == "unscored":
            return "", f"{verdict.reason}: {verdict.detail}"
        return _in_words(item.task, verdict), verdict.detail or verdict.reason

    def _judge(self, item: ReviewItem) -> Judge:
        return {judge.stage: judge for judge in self.judges}[REVIEW_TASKS[item.task].stage]


def _in_words(task: str, verdict: Verdict) -> str:
    if task in ("relevance", "category"):
        return verdict.relevance if task == "relevance" else verdict.category
    positive, negative = REVIEW_TASKS[task].choices
    return positive if verdict.outcome == "kept" else negative
