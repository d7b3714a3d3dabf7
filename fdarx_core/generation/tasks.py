"""The tasks of question generation. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import Field

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.llm import CutTo, Name, Quote, Reply, Task, source_digest
from fdarx_core.records import Label, Passage, Section

AnswerKind = Literal["dose", "action", "condition", "reason", "yes_no", "list", "numeric", "factual"]
Difficulty = Literal["direct", "several", "table"]
HopKind = Literal["bridge", "comparison", "computation"]
TwinKind = Literal["near_miss", "absent"]

ReplyT = TypeVar("ReplyT", bound=Reply)

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


class WrittenItem(Reply):
    """A question with its evidence and answer."""

    evidence: Quotes
    question: QuestionText
    answer: AnswerText


class FactualItem(WrittenItem):
    """A question with its evidence and answer; `type` is the kind of its answer."""

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
    heads = [one.table_header.replace('"', "'").replace("\n", " > ") for one in passages]
    return [
        {"section": section_name(one), "table": head, "text": one.text}
        for one, head in zip(passages, heads, strict=True)
    ]


def section_name(place: Passage | Section) -> str:
    """Return the titles of a section, the top one first; the name of its LOINC code where it has no title."""
    path = place.path if isinstance(place, Section) else place.section_path
    return path or SECTION_NAMES.get(place.core_code, "")


def forms_and_routes(label: Label) -> str:
    """Return the dosage forms and routes of a label as prompts show them: "tablet, film coated; oral"."""
    return "; ".join(dict.fromkeys([*label.dosage_forms, *label.routes])).lower()


def writing_task(name: str, reply: type[ReplyT]) -> Task[ReplyT]:
    """Return a task that writes questions, of `prompts/NAME.yaml` or the file at a path that ends in .yaml.

    The baseline replies with the items that its slot `written` has: the questions that the structure of the label gives
    for the passages, see `contexts.make_contexts`. Raises PromptError as `Task.load`.

    Args:
        name: the prompt.
        reply: the class of the reply, whose `items` are the questions.
    """
    return Task.load(name, reply, partial(_written_items, reply))


def _written_items(reply: type[ReplyT], slots: Mapping[str, Any]) -> ReplyT:
    return reply.model_validate({"items": slots["written"]})


GENERATE_FACTUAL = writing_task("generate_factual", FactualReply)
GENERATE_MULTIHOP = writing_task("generate_multihop", MultihopReply)
TASKS: dict[str, Task[Any]] = {task.name: task for task in (GENERATE_FACTUAL, GENERATE_MULTIHOP)}
"""The built-in tasks; `writing.writing_tasks` has those of packages too."""
RULES_VERSION = source_digest("fdarx_core.generation", "fdarx_core.baseline", "fdarx_core.text")
"""A digest of the rules by which the baseline does these tasks, for `Baseline(TASKS, RULES_VERSION)`."""
