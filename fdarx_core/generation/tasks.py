"""The tasks of question generation. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from fdarx_core.llm import Criteria, CutTo, Name, Quote, Reply, Task, source_digest

AnswerKind = Literal["factual", "list", "numeric"]
Difficulty = Literal["direct", "several", "table"]
HopKind = Literal["bridge", "comparison", "computation"]
DIFFICULTIES: tuple[Difficulty, ...] = ("direct", "several", "table")


Quotes: TypeAlias = Annotated[list[Quote], CutTo(30)]
QuestionText: TypeAlias = Annotated[str, Field(max_length=500)]
AnswerText: TypeAlias = Annotated[str, Field(max_length=2000)]
"""Longer than a rule allows, so that one long answer costs its question only (`answer_length`), not the whole reply."""


class Twin(Reply):
    """The same question with one thing changed to what the label does not say; `changed` is that thing."""

    question: QuestionText
    changed: Name


class FactualItem(Reply):
    """A question with its evidence and answer; `type` is the kind of its answer."""

    evidence: Quotes
    question: QuestionText
    answer: AnswerText
    type: AnswerKind
    difficulty: Difficulty
    twin: Twin | None


class FactualReply(Reply):
    """No item where the passages hold nothing worth asking."""

    items: Annotated[list[FactualItem], CutTo(12)]


class MultihopItem(Reply):
    """A question with its evidence in both passages; its answer holds the conclusion and a fact of each passage."""

    evidence_a: Quotes
    evidence_b: Quotes
    question: QuestionText
    answer: AnswerText
    kind: HopKind
    twin: Twin | None


class MultihopReply(Reply):
    """No item where nothing sensible links the two passages."""

    items: Annotated[list[MultihopItem], CutTo(4)]


def baseline_factual(slots: Mapping[str, Any]) -> FactualReply:
    """Return the questions that the structure of the label gives for these passages, see `contexts.make_contexts`."""
    return FactualReply.model_validate({"items": slots["written"]})


def baseline_multihop(slots: Mapping[str, Any]) -> MultihopReply:
    """Return the questions that the structure of the label gives for these two passages."""
    return MultihopReply.model_validate({"items": slots["written"]})


GENERATE_FACTUAL = Task.load("generate_factual", FactualReply, baseline_factual)
GENERATE_MULTIHOP = Task.load("generate_multihop", MultihopReply, baseline_multihop)
TASKS: dict[str, Task[Any]] = {task.name: task for task in (GENERATE_FACTUAL, GENERATE_MULTIHOP)}
RULES_VERSION = source_digest("fdarx_core.generation", "fdarx_core.baseline")
"""A digest of the rules by which the baseline does these tasks, for `Baseline(TASKS, RULES_VERSION)`."""


def tasks_by(criteria: Criteria | None) -> dict[str, Task[Any]]:
    """Return the tasks by name, with prompts that include these criteria.

    A task to which none of the criteria apply keeps the project's own; None for the project's own criteria.
    """
    if criteria is None:
        return TASKS
    return {name: task.with_criteria(criteria) if criteria.for_task(name) else task for name, task in TASKS.items()}
