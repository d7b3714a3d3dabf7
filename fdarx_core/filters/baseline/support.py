"""The baseline's judgement of answers: they are supported where their numbers and most of their words stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fdarx_core.filters.baseline.terms import best_sentences, headings, quoted, shown_text, statements, terms, weight
from fdarx_core.filters.text import sentences, stands_in

_DECIMAL = re.compile(r"\d{1,9}(?:\.\d{1,9})?")

LEAST_COVERED = 0.6
"""Share of an answer's terms, by weight, that must stand in what it rests on; its numbers must all stand there."""
SAID = 0.6
"""Share of a sentence's terms that one sentence of a passage must hold to say the same."""
OWN_PART = 2
"""Weight of the terms that a passage alone contributes, from which it is needed."""


def factual_support(slots: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the passages, under their headings, hold the answer, and the sentences that do."""
    answer, text = terms(str(slots["answer"])), shown_text(slots)
    evidence = quoted(best_sentences(answer, text))
    return (True, evidence) if evidence and covered(answer, terms(f"{headings(slots)}\n{text}")) else (False, "")


def multihop_support(slots: Mapping[str, Any]) -> tuple[str, str, bool]:
    """The sentences of each passage that hold a part of the answer, "" for none, and whether both are needed."""
    said, a, b = str(slots["answer"]), str(slots["context_a"]), str(slots["context_b"])
    answer = terms(said)
    in_a, in_b = answer & terms(a), answer & terms(b)
    held = in_a | in_b
    if not covered(answer, held) and not covered(answer, held | _computed(answer, held)):
        return "", "", False
    evidence_a = quoted(_stated(said, a, b) or best_sentences(in_a - in_b or in_a, a))
    evidence_b = quoted(_stated(said, b, a) or best_sentences(in_b - in_a or in_b, b))
    return evidence_a, evidence_b, both_needed(said, a, b)


def contradicting_span(slots: Mapping[str, Any]) -> str:
    """The first sentence shown that names the entity, "" for none: rules know no synonyms."""
    entity = str(slots["entity"])
    return next((sentence for sentence in sentences(shown_text(slots)) if stands_in(entity, sentence)), "")


def covered(answer: frozenset[str], held: frozenset[str]) -> bool:
    """Whether what is held has all numbers of the answer and enough of its words."""
    missing = answer - held
    if any(term[0].isdigit() for term in missing):
        return False
    return weight(missing) <= (1 - LEAST_COVERED) * weight(answer)


def _computed(answer: frozenset[str], held: frozenset[str]) -> frozenset[str]:
    """The answer's numbers that are halves, doubles, quotients or products of others in it: "2 tablets of 500 mg"."""
    values = {float(term) for term in held if _DECIMAL.fullmatch(term)} | {2.0}
    results = {x / y for x in values for y in values if y} | {x * y for x in values for y in values}
    return frozenset(term for term in answer - held if _DECIMAL.fullmatch(term) and float(term) in results)


def both_needed(answer: str, a: str, b: str) -> bool:
    """Whether each passage adds to the answer: words that the other lacks, or a sentence that it does not say."""
    said, in_a, in_b = terms(answer), terms(a), terms(b)
    return all(
        weight(said & own - other) >= OWN_PART or _says_alone(answer, text, rest)
        for own, other, text, rest in ((in_a, in_b, a, b), (in_b, in_a, b, a))
    )


def _says_alone(answer: str, text: str, rest: str) -> bool:
    return any(_share(one, text) >= SAID > _share(one, rest) for _, one in statements(answer))


def _stated(answer: str, text: str, rest: str) -> list[str]:
    """The sentences of a text that say those sentences of the answer which it says no worse than the rest does."""
    said = [one for _, one in statements(answer) if _share(one, text) >= max(SAID, _share(one, rest))]
    pool = statements(text)
    best = {max(range(len(pool)), key=lambda place: weight(one & pool[place][1])) for one in said}
    return [pool[place][0] for place in sorted(best)]


def _share(sentence: frozenset[str], text: str) -> float:
    """How much of a sentence's terms, by weight, the sentence of the text that is nearest to it holds."""
    held = (weight(sentence & one) for _, one in statements(text))
    return max(held, default=0) / max(weight(sentence), 1)
