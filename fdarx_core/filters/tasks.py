"""The tasks of the judges: the reply of a model, and the decision that follows. Source: FDARxBench §B.4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fdarx_core.labels.loinc import Topic
from fdarx_core.llm import CutTo, Note, Quote, Reply, Task

FactualFlag = Literal["answer_leakage", "context_mismatch", "unanswerable", "low_utility", "other"]
MultihopFlag = Literal["one_sided", "hop_mismatch", "leak_from_context", "unanswerable", "other"]
NO_TOPIC: Final = "None / Irrelevant"
RefusalFlag = Literal["implausible", "unnatural", "false_premise", "garbled", "other"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision that follows from the reply of a judge.

    Attributes:
        drop: the reason to drop the question, a fixed name to count by; "" keeps it.
        detail: an explanation for people.
        quotes: the evidence, as (slot that it was copied from, text); required evidence that is missing has no text.
        category: the topic of the question.
        relevance: how relevant it is.
    """

    drop: str = ""
    detail: str = ""
    quotes: tuple[tuple[str, str], ...] = ()
    category: str = ""
    relevance: str = ""


def quotes(*claims: tuple[bool, str, str]) -> tuple[tuple[str, str], ...]:
    """Return the evidence for `Decision`, from (whether it is required, the slot, the text quoted from it)."""
    return tuple((slot, text) for required, slot, text in claims if required or text)


class RelevanceReply(Reply):
    """A short reason, then one topic of drug labels or none, and relevance to bioequivalence review.

    In this and the other replies the fields that a verdict rests on come before it, because models generate the fields
    in the order of the schema.
    """

    reason: Note
    category: Literal[Topic, "None / Irrelevant"]
    relevance: Literal["relevant", "somewhat", "irrelevant"]


class FactualSupportReply(Reply):
    """The least text that decides, what the answer says otherwise, and then whether the answer is supported."""

    evidence: Quote
    fault: Note
    supported: bool


class MultihopSupportReply(Reply):
    """The least text of each passage that shows its part of the answer, what the answer says otherwise, and then
    whether each passage supports its part and whether both are needed."""

    evidence_a: Quote
    evidence_b: Quote
    fault: Note
    supported_by_a: bool
    supported_by_b: bool
    both_needed: bool


class RefusalSupportReply(Reply):
    """The text of the label that comes closest to an answer, and then whether the label answers the question."""

    closest_text: Quote
    label_answers: bool


class FactualQualityReply(Reply):
    """A sentence on the question, and then its faults, none where it is fit."""

    note: Note
    flags: Annotated[list[FactualFlag], CutTo(5)]


class MultihopQualityReply(Reply):
    """A sentence on the question, and then its faults, none where it is fit."""

    note: Note
    flags: Annotated[list[MultihopFlag], CutTo(5)]


class RefusalQualityReply(Reply):
    """A sentence on the question, and then its faults, none where it is fit."""

    note: Note
    flags: Annotated[list[RefusalFlag], CutTo(5)]


def decide_relevance(reply: RelevanceReply) -> Decision:
    """Keep a question that has a topic and is relevant; a somewhat relevant one is dropped too."""
    if reply.category == NO_TOPIC:
        drop = "irrelevant_topic"
    else:
        drop = {"relevant": "", "somewhat": "somewhat_relevant", "irrelevant": "irrelevant"}[reply.relevance]
    detail = ": ".join(filter(None, (reply.category, reply.relevance, reply.reason)))
    return Decision(drop, detail, category=reply.category, relevance=reply.relevance)


def decide_factual_support(reply: FactualSupportReply) -> Decision:
    """Drop a question unless its answer is supported."""
    drop = "" if reply.supported else "unsupported"
    return Decision(drop, reply.fault if drop else "", quotes((reply.supported, "passages", reply.evidence)))


def decide_multihop_support(reply: MultihopSupportReply) -> Decision:
    """Keep a question only where both passages support the answer and neither does alone."""
    supports = reply.supported_by_a + reply.supported_by_b
    drop = ("unsupported", "supported_by_one_section", "" if reply.both_needed else "one_section_enough")[supports]
    evidence = quotes(
        (reply.supported_by_a, "context_a", reply.evidence_a), (reply.supported_by_b, "context_b", reply.evidence_b)
    )
    return Decision(drop, reply.fault if drop else "", evidence)


def decide_refusal_support(reply: RefusalSupportReply) -> Decision:
    """Drop a question that the label answers after all."""
    drop = "answer_in_label" if reply.label_answers else ""
    return Decision(drop, quotes=quotes((reply.label_answers, "passages", reply.closest_text)))


def decide_quality(reply: FactualQualityReply | MultihopQualityReply | RefusalQualityReply) -> Decision:
    """Drop a question with any flag, for the first one in the judge's order."""
    flags = list(dict.fromkeys(reply.flags))
    if not flags:
        return Decision()
    listed = ", ".join(flags)
    reason = "other_fault" if flags[0] == "other" else flags[0]
    return Decision(reason, f"{listed}: {reply.note}" if reply.note else listed)


JUDGE_RELEVANCE = Task.load("judge_relevance", RelevanceReply)
JUDGE_SUPPORT_FACTUAL = Task.load("judge_support_factual", FactualSupportReply)
JUDGE_SUPPORT_MULTIHOP = Task.load("judge_support_multihop", MultihopSupportReply)
JUDGE_SUPPORT_REFUSAL = Task.load("judge_support_refusal", RefusalSupportReply)
JUDGE_QUALITY_FACTUAL = Task.load("judge_quality_factual", FactualQualityReply)
JUDGE_QUALITY_MULTIHOP = Task.load("judge_quality_multihop", MultihopQualityReply)
JUDGE_QUALITY_REFUSAL = Task.load("judge_quality_refusal", RefusalQualityReply)
