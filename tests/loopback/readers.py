"""Loopback models that answer questions from the passages of their prompt, compare answers, and judge questions.

The reader answers with the sentences that have the words of the question, and declines where too many are missing. The
comparer compares answers sentence by sentence. The judges keep a question unless it has an evident fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache

from fdarx_core.filters.round_trip import CompareReply, Comparison, Relation, RoundTripReply
from fdarx_core.filters.tasks import (
    FactualQualityReply,
    FactualSupportReply,
    MultihopQualityReply,
    MultihopSupportReply,
    RefusalQualityReply,
    RefusalSupportReply,
    RelevanceReply,
)
from fdarx_core.llm import Reply
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.stems import terms
from fdarx_core.text.tokens import contains_entity, contains_name, normalize_words
from tests.loopback.prompts import ShownPrompt, ShownSentence

THRESHOLD = 0.85
"""The share of a question's terms that must be in the sentences of an answer."""
_LEAST_GAIN = 2
"""Terms that a further sentence of an answer must add."""
_MOST_SENTENCES = 4
_LONGEST_ANSWER = 4000
"""The most characters of an answer in a reply, as its schema has them."""
_LEAKED = 0.9
"""The share of the answer's terms in a question that gives it away."""
_OVER_TWO = re.compile(r"\bbear on\b|\bwhat follows for\b|\bWhat links\b|\bwhy does .* matter\b")
"""The wordings of questions over two passages, see `writer.MULTIHOP`."""
_CATEGORY = re.compile(r"- \"([^\"]+)\": (.*?)(?=\n *- \"|\n\n|\n[A-Z])", re.S)
_POINTS = ("this section", "the passage", "the table", "this drug")


def answer_again(prompt: ShownPrompt) -> Reply:
    """Answer from the passages of the prompt alone."""
    found = answering_sentences(prompt.asked_terms(), readable_together(prompt))
    if not found:
        return RoundTripReply(quotes=[], passages=[], answerable=False, answer="")
    quotes = [one.text for one in found]
    numbers = list(dict.fromkeys(one.number for one in found))
    return RoundTripReply(quotes=quotes, passages=numbers, answerable=True, answer=" ".join(quotes)[:_LONGEST_ANSWER])


def readable_together(prompt: ShownPrompt) -> Sequence[ShownSentence]:
    """Return the sentences that may answer the question of a prompt.

    A question over two passages may be answered from sentences anywhere. Another one is answered where two neighbouring
    sentences have enough of its terms: the label that names both things of a near miss says nothing of them together.
    """
    shown, asked = prompt.sentences, prompt.asked_terms()
    if _OVER_TWO.search(prompt.line("Question")):
        return shown
    kept: dict[int, ShownSentence] = {}
    for at, one in enumerate(shown):
        pair = [each for each in shown[at : at + 2] if each.passage == one.passage]
        if len(asked - frozenset().union(*(each.terms for each in pair))) <= (1 - THRESHOLD) * len(asked):
            kept |= {at + place: each for place, each in enumerate(pair)}
    return list(kept.values())


def answering_sentences(asked: Collection[str], shown: Sequence[ShownSentence]) -> list[ShownSentence]:
    """Return the sentences that have the asked terms, in the order of the passages; none where too many are missing.

    They are all the sentences with most of the terms, then those that add more.
    """
    missing = set(asked)
    chosen: list[ShownSentence] = []
    least = 1
    while missing and len(chosen) < _MOST_SENTENCES:
        gains = [len(one.terms & missing) for one in shown]
        most = max(gains, default=0)
        if most < least:
            break
        best = [one for one, gain in zip(shown, gains, strict=True) if gain == most]
        kept = {normalize_words(one.text): one for one in reversed(best)}  # a repeated sentence once
        chosen += list(kept.values())[::-1] if not chosen else best[:1]
        missing -= best[0].terms
        least = _LEAST_GAIN
    if not asked or len(missing) > (1 - THRESHOLD) * len(asked):
        return []
    return [one for one in shown if any(one is other for other in chosen)]


def compare(prompt: ShownPrompt) -> Reply:
    gold = prompt.line("Writer's answer")
    return CompareReply(
        comparisons=[
            Comparison(name=name, difference="", relation=relation(gold, text)) for name, text in prompt.answers
        ]
    )


def relation(gold: str, other: str) -> Relation:
    """Return how an answer relates to the gold answer, by which sentences of one are in the other."""
    has_all, adds_nothing = _has_sentences(other, gold), _has_sentences(gold, other)
    if has_all:
        return "same" if adds_nothing else "adds"
    return "lacks" if adds_nothing else "other"


def _has_sentences(text: str, other: str) -> bool:
    whole = normalize_words(text)
    return all(normalize_words(one) in whole for one in split_sentences(other))


def judge_relevance(prompt: ShownPrompt) -> Reply:
    """Choose the topic whose description has most words of the question and its sections."""
    asked = terms(f"{prompt.line('Question')} {prompt.line('Written from')}")
    categories = _categories(prompt.system)
    best = max(categories, key=lambda name: len(asked & categories[name]))
    return RelevanceReply.model_validate({"reason": "It asks about use.", "category": best, "relevance": "relevant"})


@cache
def _categories(system: str) -> dict[str, frozenset[str]]:
    found = {name: terms(f"{name} {text}") for name, text in _CATEGORY.findall(system)}
    return {name: words for name, words in found.items() if not name.startswith("None")}


def judge_support_factual(prompt: ShownPrompt) -> Reply:
    evidence = _quoted(prompt.line("Answer"), prompt.passages)
    return FactualSupportReply(evidence=evidence, fault="", supported=bool(evidence))


def judge_support_multihop(prompt: ShownPrompt) -> Reply:
    answer = split_sentences(prompt.line("Answer"))
    a, b = ([one for one in answer if _quoted(one, [text])] for text in prompt.passages)
    return MultihopSupportReply(
        evidence_a=" … ".join(a),
        evidence_b=" … ".join(b),
        fault="",
        supported_by_a=bool(a),
        supported_by_b=bool(b),
        both_needed=len(a) < len(answer) and len(b) < len(answer),
    )


def judge_support_refusal(prompt: ShownPrompt) -> Reply:
    """Say that the label answers where it names the thing, or has a sentence with the question's words."""
    entity = prompt.line("Key term").partition(" (")[0]
    found = [one.text for one in answering_sentences(prompt.asked_terms(), readable_together(prompt))]
    if "(not found" in prompt.line("Key term"):
        found += [one.text for one in prompt.sentences if contains_entity(entity, one.text)]
    return RefusalSupportReply(closest_text=found[0] if found else "", label_answers=bool(found))


def judge_quality_factual(prompt: ShownPrompt) -> Reply:
    faulty, leaks = _is_faulty(prompt), _is_leaked(prompt)
    return FactualQualityReply(note="", flags=["low_utility"] if faulty else ["answer_leakage"] if leaks else [])


def judge_quality_multihop(prompt: ShownPrompt) -> Reply:
    faulty, leaks = _is_faulty(prompt), _is_leaked(prompt)
    return MultihopQualityReply(note="", flags=["other"] if faulty else ["leak_from_context"] if leaks else [])


def judge_quality_refusal(prompt: ShownPrompt) -> Reply:
    return RefusalQualityReply(note="", flags=["unnatural"] if _is_faulty(prompt) else [])


def _is_faulty(prompt: ShownPrompt) -> bool:
    question = prompt.line("Question")
    named = contains_name(question, prompt.drug.partition(" (")[0])
    return not named or any(one in question.lower() for one in _POINTS)


def _is_leaked(prompt: ShownPrompt) -> bool:
    answer = terms(prompt.line("Answer"))
    return len(answer & terms(prompt.line("Question"))) >= _LEAKED * len(answer)


def _quoted(answer: str, texts: Iterable[str]) -> str:
    """Return the sentences of the answer, with an ellipsis between them, if the texts have all of them, else ""."""
    whole = normalize_words(" ".join(texts))
    sentences = split_sentences(answer)
    return " … ".join(sentences) if all(normalize_words(one) in whole for one in sentences) else ""


READERS: dict[str, Callable[[ShownPrompt], Reply]] = {
    "round_trip_answer": answer_again,
    "compare_answers": compare,
    "judge_relevance": judge_relevance,
    "judge_support_factual": judge_support_factual,
    "judge_support_multihop": judge_support_multihop,
    "judge_support_refusal": judge_support_refusal,
    "judge_quality_factual": judge_quality_factual,
    "judge_quality_multihop": judge_quality_multihop,
    "judge_quality_refusal": judge_quality_refusal,
}
"""The functions that reply, by the task of the prompt."""
