"""The tasks of the judges: the reply, the baseline's answer, and the decision that follows. Source: FDARxBench §B.4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fdarx_core.baseline.judging import (
    NO_TOPIC,
    both_needed,
    factual_fault,
    multihop_fault,
    passage_headings,
    passages_text,
    relevance,
)
from fdarx_core.labels.loinc import Topic
from fdarx_core.llm import Reply, Task, source_digest
from fdarx_core.verify import TextPair, Verdict, verify

FactualFlag = Literal["answer_leakage", "context_mismatch", "unanswerable", "low_utility", "other"]
MultihopFlag = Literal["one_sided", "hop_mismatch", "leak_from_context", "unanswerable", "other"]


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
    """One topic of drug labels or none, and relevance to bioequivalence review."""

    category: Literal[Topic, "None / Irrelevant"]
    relevance: Literal["relevant", "somewhat", "irrelevant"]


class FactualSupportReply(Reply):
    """Whether the answer is supported, and the least text that shows it."""

    supported: bool
    evidence: str


class MultihopSupportReply(Reply):
    """Whether each passage supports its part, whether both are needed, and the least text that shows it."""

    supported_by_a: bool
    supported_by_b: bool
    both_needed: bool
    evidence_a: str
    evidence_b: str


class RefusalSupportReply(Reply):
    """Whether the label gives no answer, else the least text that gives it."""

    absence_is_right: bool
    contradicting_span: str


class FactualQualityReply(Reply):
    """The faults of a question, none where it is fit, and what is wrong in a sentence."""

    flags: list[FactualFlag]
    note: str


class MultihopQualityReply(Reply):
    """The faults of a question, none where it is fit, and what is wrong in a sentence."""

    flags: list[MultihopFlag]
    note: str


def relevance_by_rules(slots: Mapping[str, Any]) -> RelevanceReply:
    """Return the baseline's reply, as the other functions of this kind do."""
    category, matters = relevance(slots)
    return RelevanceReply(category=category, relevance=matters)


def factual_support_by_rules(slots: Mapping[str, Any]) -> FactualSupportReply:
    pair = TextPair(passages_text(slots), str(slots["answer"]), heading=passage_headings(slots))
    [found] = verify([pair], "rules:support")
    return FactualSupportReply(supported=_supports(found), evidence=found.reason)


def multihop_support_by_rules(slots: Mapping[str, Any]) -> MultihopSupportReply:
    answer, a, b = str(slots["answer"]), str(slots["context_a"]), str(slots["context_b"])
    by_a, by_b = verify([TextPair(a, answer, beside=b), TextPair(b, answer, beside=a)], "rules:support")
    return MultihopSupportReply(
        supported_by_a=_supports(by_a),
        supported_by_b=_supports(by_b),
        both_needed=(_supports(by_a) or _supports(by_b)) and both_needed(answer, a, b),
        evidence_a=by_a.reason,
        evidence_b=by_b.reason,
    )


def refusal_support_by_rules(slots: Mapping[str, Any]) -> RefusalSupportReply:
    [found] = verify([TextPair(passages_text(slots), str(slots["entity"]))], "rules:mention")
    return RefusalSupportReply(absence_is_right=not _supports(found), contradicting_span=found.reason)


def _supports(verdict: Verdict) -> bool:
    return verdict.verdict == "supported"


def factual_quality_by_rules(slots: Mapping[str, Any]) -> FactualQualityReply:
    fault = factual_fault(slots)
    return FactualQualityReply(flags=[fault[0]], note=fault[1]) if fault else FactualQualityReply(flags=[], note="")


def multihop_quality_by_rules(slots: Mapping[str, Any]) -> MultihopQualityReply:
    fault = multihop_fault(slots)
    return MultihopQualityReply(flags=[fault[0]], note=fault[1]) if fault else MultihopQualityReply(flags=[], note="")


def decide_relevance(reply: RelevanceReply) -> Decision:
    """Keep a question that has a topic and is relevant; a somewhat relevant one is dropped too."""
    if reply.category == NO_TOPIC:
        drop = "irrelevant_topic"
    else:
        drop = {"relevant": "", "somewhat": "somewhat_relevant", "irrelevant": "irrelevant"}[reply.relevance]
    return Decision(drop, f"{reply.category}: {reply.relevance}", category=reply.category, relevance=reply.relevance)


def decide_factual_support(reply: FactualSupportReply) -> Decision:
    """Drop a question unless its answer is supported."""
    drop = "" if reply.supported else "unsupported"
    return Decision(drop, quotes=quotes((reply.supported, "passages", reply.evidence)))


def decide_multihop_support(reply: MultihopSupportReply) -> Decision:
    """Keep a question only where both passages support the answer and neither does alone."""
    supports = reply.supported_by_a + reply.supported_by_b
    drop = ("unsupported", "supported_by_one_section", "" if reply.both_needed else "one_section_enough")[supports]
    evidence = quotes(
        (reply.supported_by_a, "context_a", reply.evidence_a), (reply.supported_by_b, "context_b", reply.evidence_b)
    )
    return Decision(drop, quotes=evidence)


def decide_refusal_support(reply: RefusalSupportReply) -> Decision:
    """Drop a question that the label answers after all."""
    drop = "" if reply.absence_is_right else "answer_in_label"
    return Decision(drop, quotes=quotes((not reply.absence_is_right, "passages", reply.contradicting_span)))


def decide_quality(reply: FactualQualityReply | MultihopQualityReply) -> Decision:
    """Drop a question with any flag, for the first one in the judge's order."""
    flags = list(dict.fromkeys(reply.flags))
    if not flags:
        return Decision()
    listed = ", ".join(flags)
    reason = "other_fault" if flags[0] == "other" else flags[0]
    return Decision(reason, f"{listed}: {reply.note}" if reply.note else listed)


JUDGE_RELEVANCE = Task.load("judge_relevance", RelevanceReply, relevance_by_rules)
JUDGE_SUPPORT_FACTUAL = Task.load("judge_support_factual", FactualSupportReply, factual_support_by_rules)
JUDGE_SUPPORT_MULTIHOP = Task.load("judge_support_multihop", MultihopSupportReply, multihop_support_by_rules)
JUDGE_SUPPORT_REFUSAL = Task.load("judge_support_refusal", RefusalSupportReply, refusal_support_by_rules)
JUDGE_QUALITY_FACTUAL = Task.load("judge_quality_factual", FactualQualityReply, factual_quality_by_rules)
JUDGE_QUALITY_MULTIHOP = Task.load("judge_quality_multihop", MultihopQualityReply, multihop_quality_by_rules)
JUDGE_RULES_VERSION = source_digest("fdarx_core.baseline", "fdarx_core.verify")
"""A digest of the rules by which the baseline does these tasks: `Baseline(judge_tasks(), JUDGE_RULES_VERSION)`."""
