"""The round trip: every question is answered by somebody who did not write it, and the answers are compared.

A question is answered from its gold passages, from the whole label, from nothing, and a multi-hop question from each of
its passages alone; a refusal question from the whole label. A question is kept where the answer from the gold passages
is the writer's, the whole label says nothing else, its wording does not give it away, and no single passage is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from fdarx_core.filters.quotations import is_quoted
from fdarx_core.generation.label_reader import cached_reader, substance_count, text_beside_passages
from fdarx_core.generation.question_reader import UndecidedQuestion, answer_question
from fdarx_core.generation.tasks import passage_slots
from fdarx_core.generation.terminology import fold
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.llm import CutTo, Name, Note, Quote, Reply, Task, Undecided, Unparsable
from fdarx_core.records import Label, Passage, QuestionAnswer, Response
from fdarx_core.verify import TextPair, verify

STAGE = "round_trip"
Relation = Literal["same", "adds", "lacks", "contradicts", "other"]
Setting = Literal["passages", "label", "closed_book", "first", "second"]
_SETTINGS: dict[str, tuple[Setting, ...]] = {
    "factual": ("passages", "label", "closed_book"),
    "multihop": ("passages", "label", "closed_book", "first", "second"),
    "refusal": ("label",),
}


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


def answer_by_rules(slots: Mapping[str, Any]) -> RoundTripReply:
    """Return the baseline's answer, by exact reading. Raises Undecided as `answer_question`."""
    if not slots["passages"]:
        return RoundTripReply(quotes=[], passages=[], answerable=False, answer="")
    keys = tuple(
        (one["number"], code, one["section"], title, one["text"], header)
        for one, (code, title, header) in zip(slots["passages"], slots["codes"], strict=True)
    )
    reader = cached_reader(tuple(slots["names"]), slots["substances"], slots["about"], keys)
    try:
        answer = answer_question(reader, slots["question"], whole=bool(slots["about"]))
    except UndecidedQuestion as error:
        raise Undecided(str(error)) from None
    if answer is None:
        return RoundTripReply(quotes=[], passages=[], answerable=False, answer="")
    quotes = [one.text for one in answer.statements]
    return RoundTripReply(quotes=quotes, passages=answer.passages, answerable=True, answer=answer.text)


def compare_by_rules(slots: Mapping[str, Any]) -> CompareReply:
    """Return the baseline's comparison: which text contains which, else exact matching. Raises Undecided."""
    gold = str(slots["gold"])
    return CompareReply(
        comparisons=[
            Comparison(name=one["name"], difference="", relation=_relation(gold, one["text"], slots["question"]))
            for one in slots["answers"]
        ]
    )


def _relation(gold: str, other: str, question: str) -> Relation:
    one, two = fold(gold), fold(other)
    if one == two:
        return "same"
    if one in two:
        return "adds"
    if two in one:
        return "lacks"
    forward, back = verify([TextPair(other, gold, ""), TextPair(gold, other, "")])
    if "contradicted" in (forward.verdict, back.verdict):
        return "contradicts"
    if forward.verdict == back.verdict == "supported":
        return "same"
    if forward.verdict == "supported":
        return "adds"
    if back.verdict == "supported":
        return "lacks"
    raise Undecided(f"exact matching cannot compare the answers to: {question}")


ROUND_TRIP_ANSWER = Task.load("round_trip_answer", RoundTripReply, answer_by_rules)
COMPARE_ANSWERS = Task.load("compare_answers", CompareReply, compare_by_rules)
ROUND_TRIP_TASKS: dict[str, Task[Any]] = {task.name: task for task in (ROUND_TRIP_ANSWER, COMPARE_ANSWERS)}


def settings_of(question: QuestionAnswer) -> tuple[Setting, ...]:
    """Return the settings in which a question is answered, in order."""
    return _SETTINGS[question.type]


def answer_slots(
    question: QuestionAnswer, setting: Setting, label: Label, passages: Sequence[Passage]
) -> dict[str, Any]:
    """Return the slots of round_trip_answer."""
    gold = question.gold_passages
    indices = {
        "passages": gold, "label": range(len(passages)), "closed_book": (), "first": gold[:1], "second": gold[1:]
    }[setting]  # fmt: skip
    shown = [passages[index] for index in indices]
    return {
        "drug": product_name(label),
        "question": question.question,
        "passages": [
            {"number": one.doc_chunk_index, **slots} for one, slots in zip(shown, passage_slots(shown), strict=True)
        ],
        "names": label.aliases,
        "substances": substance_count(label),
        "about": text_beside_passages(label) if setting == "label" else "",
        "codes": [[one.core_code, one.section_title, one.table_header] for one in shown],
    }


def compare_slots(question: QuestionAnswer, replies: Mapping[Setting, RoundTripReply]) -> dict[str, Any] | None:
    """Return the slots of compare_answers; None where no reply has an answer to compare."""
    answers = [{"name": setting, "text": one.answer} for setting, one in replies.items() if one.answerable]
    return {"question": question.question, "gold": question.answer, "answers": answers} if answers else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from the round trip of a question: the reason to drop it, "" to keep it, and passages to add.

    `known_without_label`: the answer from nothing is the gold answer, from memory or by the question's wording. It is
    no reason to drop a question.
    """

    drop: str
    detail: str = ""
    more_passages: tuple[int, ...] = ()
    known_without_label: bool = False


_DROPS: dict[tuple[Setting, Relation], str] = {
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
    question: QuestionAnswer, replies: Mapping[Setting, RoundTripReply | Unparsable], compared: Response | None
) -> Outcome:
    """Return what follows from the answers to a question, and from the comparison with the writer's answer.

    Passages of the label from which the same answer was given become gold passages of a factual question. A reply that
    cannot be read is no verdict: the question is unscored.
    """
    given: dict[Setting, RoundTripReply] = {}
    for setting, reply in replies.items():
        if isinstance(reply, Unparsable):
            return Outcome(f"unscored_{reply.reason}", f"{setting}: {reply.detail}")
        given[setting] = reply
    whole = given["label"]
    if question.type == "refusal":
        return Outcome("answer_in_label", whole.answer) if whole.answerable else Outcome("")
    for setting, shown in (("passages", given["passages"]), ("label", whole)):
        if not shown.answerable:
            return Outcome("unanswerable", f"{setting}: no answer was found")
    if compared is None:
        return Outcome("unscored_wrong_shape", "the answers were not compared")
    try:
        relations = {one.name: one for one in COMPARE_ANSWERS.parse(compared).comparisons}
    except Unparsable as error:
        return Outcome(f"unscored_{error.reason}", error.detail)
    for setting, reply in given.items():
        if reply.answerable:
            one = relations.get(setting)
            if one is None:
                return Outcome("unscored_wrong_shape", f"the answer from {setting} was not compared")
            if drop := _DROPS.get((setting, one.relation)):
                return Outcome(drop, f"{setting}: {one.difference or reply.answer}")
    known = "closed_book" in relations and relations["closed_book"].relation in ("same", "adds")
    return Outcome("", "", tuple(whole.passages) if question.type == "factual" else (), known)


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
