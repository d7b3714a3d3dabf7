"""The judges asked again about items of a review, by whatever criteria they now follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.filters.judges import Judge
from fdarx_core.llm import HttpEndpoint
from fdarx_core.records import Request, Response
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.cases import Case, cases_of, decided
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.storage import RunDirectory, StorageError


def find_cases(run: RunDirectory, items: Iterable[ReviewItem]) -> dict[str, Case]:
    """The cases of the items' questions, by question id. StorageError where the run has lost one."""
    wanted = {item.subject for item in items}
    found: dict[str, Case] = {}
    for part in run.parts("candidates") if wanted else []:
        found |= cases_of(run, part.name, wanted)
    if missing := sorted(wanted - found.keys()):
        raise StorageError(f"{run.root} has no question {missing[0]} of the review; give the run that was reviewed")
    return found


@dataclass(frozen=True, slots=True)
class Bench:
    """Judges who sit over items, and where their requests go."""

    judges: Sequence[Judge]
    endpoint: HttpEndpoint

    def request(self, item: ReviewItem, case: Case) -> Request:
        """What the item's judge is asked. KeyError for an item that no judge of a build decides."""
        judge = self._judge(item)
        task = judge.by_type[case.question.type].task
        return task.request(case.slots(judge), endpoint=self.endpoint.name, sampling=self.endpoint.sampling)

    def said(self, item: ReviewItem, case: Case, request: Request, response: Response) -> tuple[str, str]:
        """What the judge decides, in the words of the item's choices, and why; "" with the reason where it did not."""
        verdict = self._judge(item).read(case.question, request.slots, response)
        if verdict.outcome == "unscored":
            return "", f"{verdict.reason}: {verdict.detail}"
        return decided(REVIEW_TASKS[item.task], verdict), verdict.detail or verdict.reason

    def _judge(self, item: ReviewItem) -> Judge:
        return {judge.stage: judge for judge in self.judges}[REVIEW_TASKS[item.task].stage]
