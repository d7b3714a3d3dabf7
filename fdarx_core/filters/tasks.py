"""The tasks of the judges: the reply, the baseline's answer, and the decision that follows.

The baseline judges without a model: relevance, support by exact matching, and plain faults. Source: FDARxBench §B.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

from fdarx_core.baseline.numbers import find_intervals, find_quantities, number_strings
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import contains_entity, content_words, vocabulary
from fdarx_core.filters.quotations import calculated_numbers, calculation_error, is_quoted
from fdarx_core.labels.loinc import Topic, topic_of
from fdarx_core.llm import CutTo, Note, Quote, Reply, Task, Undecided, source_digest
from fdarx_core.verify import TextPair, Verdict, verify

FactualFlag = Literal["answer_leakage", "context_mismatch", "unanswerable", "low_utility", "other"]
MultihopFlag = Literal["one_sided", "hop_mismatch", "leak_from_context", "unanswerable", "other"]
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


def relevance_by_rules(slots: Mapping[str, Any]) -> RelevanceReply:
    """Return the baseline's reply, as the other functions of this kind do; they raise Undecided without one."""
    category, matters = relevance(slots)
    return RelevanceReply.model_validate({"reason": "", "category": category, "relevance": matters})


def factual_support_by_rules(slots: Mapping[str, Any]) -> FactualSupportReply:
    found = support(*_answer(slots), [_passages_text(slots)])
    return FactualSupportReply(evidence=found.evidence[0], fault="", supported=not found.contradicted)


def multihop_support_by_rules(slots: Mapping[str, Any]) -> MultihopSupportReply:
    found = support(*_answer(slots), [str(slots["context_a"]), str(slots["context_b"])])
    a, b = found.evidence
    return MultihopSupportReply(
        evidence_a=a,
        evidence_b=b,
        fault="",
        supported_by_a=bool(a),
        supported_by_b=bool(b),
        both_needed=not (found.alone or found.contradicted),
    )


def refusal_support_by_rules(slots: Mapping[str, Any]) -> RefusalSupportReply:
    found = sentence_naming(str(slots["entity"]), _passages_text(slots))
    return RefusalSupportReply(closest_text=found, label_answers=bool(found))


def factual_quality_by_rules(slots: Mapping[str, Any]) -> FactualQualityReply:
    fault = question_fault(slots, [_passages_text(slots), *(str(one["section"]) for one in slots["passages"])])
    if fault is None:
        return FactualQualityReply(note="", flags=[])
    flags: dict[str, FactualFlag] = {
        "vague": "low_utility", "leaked": "answer_leakage", "foreign_number": "context_mismatch"
    }  # fmt: skip
    return FactualQualityReply(note=fault[1], flags=[flags.get(fault[0], "other")])


def multihop_quality_by_rules(slots: Mapping[str, Any]) -> MultihopQualityReply:
    fault = question_fault(slots, [str(slots[name]) for name in ("section_a", "context_a", "section_b", "context_b")])
    if fault is None:
        return MultihopQualityReply(note="", flags=[])
    flags: dict[str, MultihopFlag] = {"leaked": "leak_from_context", "foreign_number": "unanswerable"}
    return MultihopQualityReply(note=fault[1], flags=[flags.get(fault[0], "other")])


def refusal_quality_by_rules(slots: Mapping[str, Any]) -> RefusalQualityReply:
    """Return the faults of wording alone: no rule can tell whether a question is plausible or its premise is true."""
    fault = wording_fault(str(slots["question"]))
    if fault is None:
        return RefusalQualityReply(note="", flags=[])
    return RefusalQualityReply(note=fault[1], flags=["garbled" if fault[0] == "garbled" else "other"])


def _answer(slots: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(slots["answer"]), str(slots["question"]), str(slots["drug"])


def _passages_text(slots: Mapping[str, Any]) -> str:
    return "\n".join(str(passage["text"]) for passage in slots["passages"])


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


JUDGE_RELEVANCE = Task.load("judge_relevance", RelevanceReply, relevance_by_rules)
JUDGE_SUPPORT_FACTUAL = Task.load("judge_support_factual", FactualSupportReply, factual_support_by_rules)
JUDGE_SUPPORT_MULTIHOP = Task.load("judge_support_multihop", MultihopSupportReply, multihop_support_by_rules)
JUDGE_SUPPORT_REFUSAL = Task.load("judge_support_refusal", RefusalSupportReply, refusal_support_by_rules)
JUDGE_QUALITY_FACTUAL = Task.load("judge_quality_factual", FactualQualityReply, factual_quality_by_rules)
JUDGE_QUALITY_MULTIHOP = Task.load("judge_quality_multihop", MultihopQualityReply, multihop_quality_by_rules)
JUDGE_QUALITY_REFUSAL = Task.load("judge_quality_refusal", RefusalQualityReply, refusal_quality_by_rules)
JUDGE_RULES_VERSION = source_digest("fdarx_core.filters", "fdarx_core.baseline", "fdarx_core.verify")
"""A digest of the rules by which the baseline does these tasks: `Baseline(judge_tasks(), JUDGE_RULES_VERSION)`."""


NO_TOPIC: Final = "None / Irrelevant"

_LABELER = re.compile(r"\([^()]*\)")
"""The name of a labeler, which follows the name of a product."""
_TOPICS: list[tuple[Topic, re.Pattern[str]]] = [
    (topic, re.compile(rf"\b(?:{words})")) for topic, words in vocabulary()["asked_topics"].items()
]
_WORDS = vocabulary("fdarx_core.filters")
_OUTSIDE, _WEAK = re.compile(_WORDS["outside_topics"]), re.compile(_WORDS["of_little_use"])


def relevance(slots: Mapping[str, Any]) -> tuple[Topic | Literal["None / Irrelevant"], str]:
    """Return the topic of a question and its relevance: relevant, somewhat or irrelevant.

    The topic is that of the sections that it was written from, or its twin was; of several, one that its words match. A
    question that was written from no section has the most specific topic that its words match.
    """
    asked = _LABELER.sub(" ", str(slots["question"])).lower().replace(str(slots["drug"]).lower(), " ")
    matched = [topic for topic, words in _TOPICS if words.search(asked)]
    written_from = [topic for topic in (*map(topic_of, slots["section_codes"]), slots["category"]) if topic]
    topics = [topic for topic in written_from if topic in matched] or written_from or matched
    if not topics or _OUTSIDE.search(asked):
        return NO_TOPIC, "irrelevant"
    return topics[0], "somewhat" if _WEAK.search(asked) else "relevant"


class Support(NamedTuple):
    """The support of several texts for an answer: for each text, its sentences that support sentences of the answer.

    `contradicted` is whether a text contradicts the answer, `alone` whether one text supports the whole answer.
    """

    evidence: list[str]
    contradicted: bool
    alone: bool


def support(answer: str, question: str, drug: str, texts: Sequence[str]) -> Support:
    """Return the support of texts for an answer. Raises Undecided if a sentence is in no text and none contradicts it.

    The label need not contain a title in front of a sentence ("After overdose: …").
    """
    evidence: list[list[str]] = [[] for _ in texts]
    supports = [True] * len(texts)
    sentences = split_sentences(answer)
    for sentence in sentences:
        if (error := calculation_error(sentence)) is not None:
            if error:
                return Support(["" for _ in texts], True, False)
            _support_numbers(sentence, texts, supports)
            continue
        spans = [_supporting(text, sentence, question, drug) for text in texts]
        if not any(spans):
            if any(_verdict(text, sentence, question, drug).verdict == "contradicted" for text in texts):
                return Support(["" for _ in texts], True, False)
            raise Undecided(f"no passage has these words in this order: {sentence}")
        for place, span in enumerate(spans):
            supports[place] &= bool(span)
            if span:
                evidence[place].append(span)
    if not sentences:
        raise Undecided("the answer has no sentence")
    return Support([" … ".join(dict.fromkeys(one)) for one in evidence], False, any(supports))


def _supporting(text: str, sentence: str, question: str, drug: str) -> str:
    """Return the words of a text that support a sentence, "" for none."""
    if is_quoted(sentence, text):
        return sentence
    verdict = _verdict(text, sentence, question, drug)
    return text[slice(*verdict.span)] if verdict.verdict == "supported" and verdict.span else ""


def _support_numbers(sentence: str, texts: Sequence[str], supports: list[bool]) -> None:
    """Note which texts have all numbers of a calculation; raise Undecided where one is in none of them."""
    numbers = calculated_numbers(sentence)
    held = [_numbers_in(text) for text in texts]
    for number in numbers:
        if not any(number in one for one in held):
            raise Undecided(f"no passage has the number {number}")
    for place, one in enumerate(held):
        supports[place] &= all(number in one for number in numbers)


def _numbers_in(text: str) -> frozenset[str]:
    """Return the numbers of a text, also those of durations and dosing intervals in hours."""
    lowered = text.lower()
    hours = [value for _, _, values in find_intervals(lowered) for value in values]
    hours += [one.value for _, _, one in find_quantities(lowered)]
    return number_strings(text) | {f"{value:g}" for value in hours}


def _verdict(text: str, sentence: str, question: str, drug: str) -> Verdict:
    title, colon, rest = sentence.partition(": ")
    [verdict] = verify([TextPair(text, sentence, drug)])
    if colon and verdict.verdict == "undecided" and content_words(title) <= content_words(f"{question} {text}"):
        [verdict] = verify([TextPair(text, rest, drug)])
    return verdict


def sentence_naming(entity: str, text: str) -> str:
    """Return the first sentence that names the entity, "" for none. A text without the entity is not split."""
    if not contains_entity(entity, text):
        return ""
    return next((sentence for sentence in split_sentences(text) if contains_entity(entity, sentence)), "")


_POINTS = re.compile(_WORDS["places"])
_POINTER = re.compile(r"(?:see|refer to|please see)\b.{0,120}|.{0,30}\bsee full prescribing information\b.{0,20}", re.S)
_SAYS_NOTHING = re.compile(r"(?:yes|no|true|false|not applicable|none)\b\W*")
_SPACED_OUT = re.compile(r"(?<![\w.])(?:[A-Za-z] ){3,}[A-Za-z]")


_NAME_WITH_NUMBER = re.compile(r"\b[A-Za-z][\w-]*\d[\w-]*")


def question_fault(slots: Mapping[str, Any], texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the first fault that rules can find, with its explanation; None if there is none.

    Faults: garbled (single letters between spaces), vague (the question refers to a place in the text, or the answer
    has no content), leaked (the question has all words of the answer, in order), foreign_number (the passages lack a
    number of the question).
    """
    question, answer = str(slots["question"]), str(slots["answer"])
    if fault := wording_fault(question, answer):
        return fault
    lower = answer.strip().lower()
    if _SAYS_NOTHING.fullmatch(lower) or _POINTER.fullmatch(lower):
        return "vague", "the answer says nothing by itself"
    drug = str(slots["drug"])
    if verify([TextPair(question, answer, drug)])[0].verdict == "supported" or contains_entity(answer, question):
        return "leaked", "the question holds all that the answer says"
    asked = _LABELER.sub(" ", _NAME_WITH_NUMBER.sub(" ", question)).lower().replace(drug.lower(), " ")
    foreign = number_strings(asked) - frozenset().union(*(number_strings(one.lower()) for one in texts))
    return ("foreign_number", f"the passages do not speak of {', '.join(sorted(foreign))}") if foreign else None


def wording_fault(question: str, answer: str = "") -> tuple[str, str] | None:
    """Return the fault garbled or vague of `question_fault` that the wording shows, with its explanation."""
    if garbled := _SPACED_OUT.search(f"{question}\n{answer}"):
        return "garbled", f"letters apart: {garbled[0]!r}"
    if found := _POINTS.search(question.lower()):
        return "vague", f"the question points at a place: {found[0]!r}"
    return None
