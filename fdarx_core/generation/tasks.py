"""The tasks of question generation. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.llm import Criteria, CutTo, Name, Quote, Reply, Task, source_digest
from fdarx_core.records import Label, Passage, Section

AnswerKind = Literal["dose", "action", "condition", "reason", "yes_no", "list", "numeric", "factual"]
Difficulty = Literal["direct", "several", "table"]
HopKind = Literal["bridge", "comparison", "computation"]
TwinKind = Literal["near_miss", "absent"]
DIFFICULTIES: tuple[Difficulty, ...] = ("direct", "several", "table")


Quotes: TypeAlias = Annotated[list[Quote], CutTo(30)]
QuestionText: TypeAlias = Annotated[str, Field(max_length=500)]
AnswerText: TypeAlias = Annotated[str, Field(max_length=2000)]
"""Longer than a rule allows, so that one long answer costs its question only (`answer_length`), not the whole reply."""


class Twin(Reply):
    """A question in the words of another that the label does not answer.

    Either its `entity` is absent from the label, or the label names it and is silent on the `attribute` that is asked
    for (a near miss); `attribute` is "" for the former.
    """

    kind: TwinKind
    entity: Name
    attribute: Name
    question: QuestionText


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


def passage_slots(passages: Sequence[Passage]) -> list[dict[str, str]]:
    """Return passages as prompts show them: the titles of the section, the head of the table it begins in, the text."""
    return [{"section": section_name(one), "table": _on_a_line(one.table_header), "text": one.text} for one in passages]


def section_name(one: Passage | Section) -> str:
    """Return the titles of a section, the top one first; the name of its LOINC code where it has no title."""
    path = one.path if isinstance(one, Section) else one.section_path
    return path or SECTION_NAMES.get(one.core_code, "")


def forms_and_routes(label: Label) -> str:
    """Return the dosage forms and routes of a label as prompts show them: "tablet, film coated; oral"."""
    return "; ".join(dict.fromkeys([*label.dosage_forms, *label.routes])).lower()


def _on_a_line(header: str) -> str:
    return " > ".join(header.replace('"', "'").split("\n")) if header else ""


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
