"""The judges of stage 2: who asks what about which questions, and what a response decides. Source: FDARxBench §B.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.filters import tasks
from fdarx_core.filters.decision import Decision, Quote
from fdarx_core.filters.quotes import is_quoted
from fdarx_core.filters.shown import factual_slots, multihop_slots, refusal_slots, relevance_slots
from fdarx_core.filters.tasks import (
    JUDGE_RULES_VERSION,
    JUDGE_TASKS,
    judge_quality_factual,
    judge_quality_multihop,
    judge_relevance,
    judge_support_factual,
    judge_support_multihop,
    judge_support_refusal,
)
from fdarx_core.llm import Task, Unparsable
from fdarx_core.plugins import load_plugins
from fdarx_core.records import Label, Passage, QuestionAnswer, Response, Verdict

__all__ = ["JUDGES", "JUDGE_RULES_VERSION", "JUDGE_TASKS", "Judge", "Judging"]

Slots = Callable[[QuestionAnswer, Label, Sequence[Passage]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Judging:
    """How one type of question is judged: the task, what it is shown, and what its reply decides."""

    task: Task[Any]
    slots: Slots
    decide: Callable[[Any], Decision]


@dataclass(frozen=True, slots=True)
class Judge:
    """One stage of judgement, over the types of question in `by_type`; others pass it unjudged."""

    stage: str
    by_type: Mapping[str, Judging]

    def task(self, question: QuestionAnswer) -> Task[Any] | None:
        """What to ask about the question; None where this judge does not judge its type: it is kept, no verdict."""
        how = self.by_type.get(question.type)
        return how.task if how else None

    def slots(self, question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
        """The task's slots; `passages` are all of the label's, in document order. KeyError for a type not judged."""
        return self.by_type[question.type].slots(question, label, passages)

    def read(self, question: QuestionAnswer, slots: Mapping[str, Any], response: Response) -> Verdict:
        """What the response to these slots decides.

        Unscored, with the reason: a reply that can't be parsed (that of `Unparsable`), evidence that is due and
        missing (no_evidence), a quotation that is not in what was shown (evidence_not_in_passage).
        """
        how = self.by_type[question.type]
        try:
            decision = how.decide(how.task.parse(response))
        except Unparsable as error:
            return self._verdict(question, response, "unscored", error.reason, error.detail)
        evidence = [quote.text for quote in decision.quotes if quote.text]
        outcome, reason, detail = "dropped" if decision.drop else "kept", decision.drop, decision.detail
        if fault := _unfounded(decision.quotes, slots):
            outcome, (reason, detail) = "unscored", fault
        verdict = self._verdict(question, response, outcome, reason, detail, evidence)
        verdict.category, verdict.relevance = decision.category, decision.relevance
        return verdict

    def _verdict(
        self,
        question: QuestionAnswer,
        response: Response,
        outcome: str,
        reason: str,
        detail: str,
        evidence: Sequence[str] = (),
    ) -> Verdict:
        return Verdict(
            question_id=question.id,
            set_id=question.set_id,
            stage=self.stage,
            outcome=outcome,
            reason=reason,
            detail=detail,
            evidence=list(evidence),
            task=response.task,
            task_version=response.task_version,
            endpoint=response.endpoint,
            response_key=response.key,
        )


def _unfounded(quotes: Sequence[Quote], slots: Mapping[str, Any]) -> tuple[str, str] | None:
    for quote in quotes:
        if not quote.text:
            return "no_evidence", f"nothing is quoted from {quote.slot}"
        shown = slots[quote.slot]
        text = shown if isinstance(shown, str) else "\n".join(passage["text"] for passage in shown)
        if not is_quoted(quote.text, text):
            return "evidence_not_in_passage", f"not in {quote.slot}: {quote.text!r}"
    return None


_RELEVANCE = Judging(tasks.JUDGE_RELEVANCE, relevance_slots, judge_relevance.decide)

_BUILT_IN = (
    Judge("relevance", {"factual": _RELEVANCE, "multihop": _RELEVANCE, "refusal": _RELEVANCE}),
    Judge(
        "support",
        {
            "factual": Judging(tasks.JUDGE_SUPPORT_FACTUAL, factual_slots, judge_support_factual.decide),
            "multihop": Judging(tasks.JUDGE_SUPPORT_MULTIHOP, multihop_slots, judge_support_multihop.decide),
            "refusal": Judging(tasks.JUDGE_SUPPORT_REFUSAL, refusal_slots, judge_support_refusal.decide),
        },
    ),
    # Refusal questions have no quality judge: the paper flags faults of factual and multi-hop questions only, and the
    # templates they are made from were written once, by people.
    Judge(
        "quality",
        {
            "factual": Judging(tasks.JUDGE_QUALITY_FACTUAL, factual_slots, judge_quality_factual.decide),
            "multihop": Judging(tasks.JUDGE_QUALITY_MULTIHOP, multihop_slots, judge_quality_multihop.decide),
        },
    ),
)
_ADDED: tuple[Judge, ...] = tuple(load_plugins("fdarx.judges").values())
JUDGES: tuple[Judge, ...] = (*_BUILT_IN, *_ADDED)
"""In the order in which questions pass them; judges of other packages (entry point group fdarx.judges) come last.

Source: FDARxBench, figure of retention; §B.4, stage 2.
"""
for _judge in _ADDED:
    JUDGE_TASKS.update({how.task.name: how.task for how in _judge.by_type.values()})
