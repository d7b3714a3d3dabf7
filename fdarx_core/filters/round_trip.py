"""The round trip: a model that does not know the gold answers answers every question, and the answers are compared.

A question is answered from its gold passages, from the whole label, from nothing, and a multi-hop question from each of
its passages alone; a refusal question from the whole label. A question is kept where the answer from the gold passages
is the writer's, the whole label says nothing else, and no single passage is enough. A question that the model answers
from nothing is marked as known without the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from fdarx_core.filters.label_excerpt import LabelExcerpts
from fdarx_core.filters.quotations import is_quoted
from fdarx_core.generation.tasks import passage_slots
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.llm import CutTo, Name, Note, Quote, Reply, Task, Unparsable
from fdarx_core.records import Label, Passage, QuestionAnswer, Response
from fdarx_core.records.question_types import QUESTION_TYPES, RoundTripSetting

STAGE = "round_trip"
Relation = Literal["same", "adds", "lacks", "contradicts", "other"]


class RoundTripReply(Reply):
    """An answer with the quotations that it rests on, and the numbers of their passages."""

    quotes: Annotated[list[Quote], CutTo(40)]
    passages: Annotated[list[int], CutTo(40)]
    answerable: bool
    answer: Annotated[str, Field(max_length=4000)]


class Comparison(Reply):
    """How an answer differs from the writer's, and its relation to it."""

    name: Name
    difference: Note
    relation: Relation


class CompareReply(Reply):
    """One comparison for each answer, in order."""

    comparisons: Annotated[list[Comparison], CutTo(8)]


ROUND_TRIP_ANSWER = Task.load("round_trip_answer", RoundTripReply)
COMPARE_ANSWERS = Task.load("compare_answers", CompareReply)


def settings_of(question: QuestionAnswer) -> tuple[RoundTripSetting, ...]:
    """Return the settings in which a question is answered, in order."""
    return QUESTION_TYPES[question.type].round_trip


def answer_slots(
    question: QuestionAnswer,
    setting: RoundTripSetting,
    label: Label,
    passages: Sequence[Passage],
    excerpts: LabelExcerpts | None = None,
) -> dict[str, Any]:
    """Return the slots of round_trip_answer; `excerpts` are those of the label, None for the whole label."""
    gold = question.gold_passages
    indices: Sequence[int]
    if setting == "label":
        indices = range(len(passages)) if excerpts is None else excerpts.for_question(question)
    else:
        indices = {"passages": gold, "closed_book": [], "first": gold[:1], "second": gold[1:]}[setting]
    shown = [passages[index] for index in indices]
    return {
        "drug": product_name(label),
        "question": question.question,
        "passages": [
            {"number": one.doc_chunk_index, **slots} for one, slots in zip(shown, passage_slots(shown), strict=True)
        ],
    }


def compare_slots(
    question: QuestionAnswer, replies: Mapping[RoundTripSetting, RoundTripReply | Unparsable]
) -> dict[str, Any] | None:
    """Return the slots of compare_answers; None where no reply has an answer to compare."""
    usable = {setting: one for setting, one in replies.items() if isinstance(one, RoundTripReply)}
    answers = [{"name": setting, "text": one.answer} for setting, one in usable.items() if one.answerable]
    return {"question": question.question, "gold": question.answer, "answers": answers} if answers else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from the round trip of a question.

    Attributes:
        outcome: kept, dropped, or unscored where an answer or the comparison is unusable.
        reason: why it is dropped or unscored, a fixed name to count by; "" for a question that is kept.
        detail: an explanation for people.
        more_passages: the numbers of passages that hold the answer too.
        known: whether the reader gave the writer's answer without any passage.
    """

    outcome: Literal["kept", "dropped", "unscored"]
    reason: str = ""
    detail: str = ""
    more_passages: tuple[int, ...] = ()
    known: bool = False


_DROPS: dict[tuple[RoundTripSetting, Relation], str] = {
    ("passages", "adds"): "incomplete_gold",
    ("passages", "lacks"): "unsupported",
    ("passages", "contradicts"): "contradicted",
    ("passages", "other"): "ambiguous",
    ("label", "adds"): "incomplete_gold",
    ("label", "contradicts"): "contradicted",
    ("label", "other"): "answer_elsewhere",
    ("first", "same"): "one_hop_enough",
    ("first", "adds"): "one_hop_enough",
    ("second", "same"): "one_hop_enough",
    ("second", "adds"): "one_hop_enough",
}


def read_reply(slots: Mapping[str, Any], response: Response) -> RoundTripReply | Unparsable:
    """Return the reply in a response, or why there is none; a quotation must be in one of the passages shown."""
    try:
        reply = ROUND_TRIP_ANSWER.parse(response)
    except Unparsable as error:
        return error
    texts = [f"{one['table']}\n{one['text']}" for one in slots["passages"]]
    for quote in reply.quotes:
        if not any(is_quoted(quote, text) for text in texts):
            return Unparsable("evidence_not_in_passage", f"not in the passages: {quote!r}")
    return reply


def outcome(
    question: QuestionAnswer, replies: Mapping[RoundTripSetting, RoundTripReply | Unparsable], compared: Response | None
) -> Outcome:
    """Return what follows from the answers to a question, and from the comparison with the writer's answer.

    Passages of the label from which the same answer was given become gold passages of a question that needs one. An
    unusable reply is no verdict: the question is unscored, unless another reply drops it.
    """
    parsed = {setting: reply for setting, reply in replies.items() if isinstance(reply, RoundTripReply)}
    faults = [
        (f"{name}: {fault.detail}", fault.reason) for name, fault in replies.items() if isinstance(fault, Unparsable)
    ]
    unusable = faults[0] if faults else None
    whole = parsed.get("label")
    if not question.answerable:
        if whole is not None and whole.answerable:
            return Outcome("dropped", "answer_in_label", whole.answer)
        return Outcome("kept") if unusable is None else Outcome("unscored", unusable[1], unusable[0])
    for setting in ("passages", "label"):
        if setting in parsed and not parsed[setting].answerable:
            return Outcome("dropped", "unanswerable", f"{setting}: no answer was found")
    relations: dict[str, Comparison] = {}
    try:
        if compared is not None:
            relations = {row.name: row for row in COMPARE_ANSWERS.parse(compared).comparisons}
    except Unparsable as error:
        unusable = unusable or (error.detail, error.reason)
    known = False
    for setting, reply in parsed.items():
        if reply.answerable:
            comparison = relations.get(setting)
            if comparison is None:
                unusable = unusable or (f"the answer from {setting} was not compared", "wrong_shape")
            elif drop := _DROPS.get((setting, comparison.relation)):
                return Outcome("dropped", drop, f"{setting}: {comparison.difference or reply.answer}")
            elif setting == "closed_book":
                known = comparison.relation in ("same", "adds")
    if unusable is not None:
        return Outcome("unscored", unusable[1], unusable[0], known=known)
    more = tuple(whole.passages) if whole is not None and QUESTION_TYPES[question.type].passages == 1 else ()
    return Outcome("kept", more_passages=more, known=known)


def with_passages(question: QuestionAnswer, more: Sequence[int], passages: Sequence[Passage]) -> QuestionAnswer:
    """Return a question with more gold passages; numbers that are no passage of the label are left out."""
    added = [number for number in more if number not in question.gold_passages and 0 <= number < len(passages)]
    if not added:
        return question
    has_answer = dict(zip(question.gold_passages, question.gold_has_answer, strict=True)) | dict.fromkeys(added, True)
    gold = sorted(has_answer)
    return replace(
        question,
        gold_passages=gold,
        gold_codes=[passages[index].section_code for index in gold],
        gold_has_answer=[has_answer[index] for index in gold],
    )
