"""The tasks by which a model writes questions, their replies, and slots of prompts. Source: FDARxBench §B.2, §B.3."""

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
"""The bound is above that of the rule `answer_length`: a longer answer loses only its question, not the whole reply."""


class Twin(Reply):
    """A question that is worded like another one, but that the label does not answer.

    The label does not name its `entity` (absent; `attribute` is ""), or it names the entity and does not give the
    `attribute` that the question asks for (near miss).
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
    """A factual question with its evidence and answer; `type` is the kind of its answer."""

    type: AnswerKind
    difficulty: Difficulty
    twin: Twin | None


class FactualReply(Reply):
    """The factual questions on a passage; no item if the passage has nothing worth asking."""

    items: Annotated[list[FactualItem], CutTo(12)]


class MultihopItem(Reply):
    """A multi-hop question with its evidence in both passages; the answer has a fact of each and the conclusion."""

    evidence_a: Quotes
    evidence_b: Quotes
    question: QuestionText
    answer: AnswerText
    kind: HopKind
    twin: Twin | None


class MultihopReply(Reply):
    """The multi-hop questions on two passages; no item if nothing sensible links them."""

    items: Annotated[list[MultihopItem], CutTo(4)]


def passage_slots(passages: Sequence[Passage]) -> list[dict[str, str]]:
    """Return passages as prompts show them: the section, the headings of a table that the text begins in, the text."""
    return [
        {
            "section": section_name(passage),
            "table": passage.table_header.replace('"', "'").replace("\n", " > "),
            "text": passage.text,
        }
        for passage in passages
    ]


def section_name(place: Passage | Section) -> str:
    """Return the titles above a place in a label, the top one first, or the name of its LOINC code without titles."""
    path = place.path if isinstance(place, Section) else place.section_path
    return path or SECTION_NAMES.get(place.core_code, "")


def forms_and_routes(label: Label) -> str:
    """Return the dosage forms and routes of a label as prompts show them: "tablet, film coated; oral"."""
    return "; ".join(dict.fromkeys([*label.dosage_forms, *label.routes])).lower()


def writing_task(name: str, reply: type[ReplyT]) -> Task[ReplyT]:
    """Return a task that writes questions.

    The baseline replies with the template questions of the slot `written`, see `contexts.make_contexts`. Raises
    PromptError as `Task.load`.

    Args:
        name: the prompt: a name in `prompts/`, or the path of a file that ends in .yaml.
        reply: the class of the reply, whose `items` are the questions.
    """
    return Task.load(name, reply, partial(_written_items, reply))


def _written_items(reply: type[ReplyT], slots: Mapping[str, Any]) -> ReplyT:
    return reply.model_validate({"items": slots["written"]})


GENERATE_FACTUAL = writing_task("generate_factual", FactualReply)
GENERATE_MULTIHOP = writing_task("generate_multihop", MultihopReply)
RULES_VERSION = source_digest("fdarx_core.generation", "fdarx_core.baseline", "fdarx_core.text")
"""A digest of the rules by which the baseline does these tasks, see `build_steps.baseline`."""
