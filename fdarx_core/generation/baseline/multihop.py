"""The baseline's multi-hop questions: a sentence of each passage, linked by rule. Source: FDARxBench §B.3, §B.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from fdarx_core.generation.baseline.dose_questions import dose_questions
from fdarx_core.generation.baseline.links import Facts, Link, facts, links
from fdarx_core.generation.baseline.text import words
from fdarx_core.records import content_id

MAX_QUESTIONS = 1
"""Questions a pair of passages: further ones ask much the same."""

_MIN_QUESTION, _MAX_QUESTION = 10, 200
_MIN_ANSWER, _MAX_ANSWER = 5, 600
_MIN_OVERLAP = 0.10


def multihop_questions(slots: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Questions that need both passages, with their answers; none where no rule links the two.

    Args:
        slots: those of the task generate_multihop.

    Returns:
        Up to `MAX_QUESTIONS` of (question, answer) within the bounds of FDARxBench §B.4.
    """
    drug, a, b = str(slots["drug"]), str(slots["context_a"]), str(slots["context_b"])
    facts_a, facts_b = facts(a, str(slots["section_code_a"])), facts(b, str(slots["section_code_b"]))
    found = chain(dose_questions(drug, facts_a, facts_b), _link_questions(drug, links(facts_a, facts_b)))
    return list(islice((pair for pair in found if _fits(*pair, a, b)), MAX_QUESTIONS))


def topics(a: Facts, b: Facts) -> list[tuple[str, str]]:
    """What the questions on two passages would be about, best first: a kind of question and the thing asked about."""
    computed = [("dose", question) for question, _ in dose_questions("", a, b)]
    return computed + [(link.rule.name, link.thing) for link in links(a, b)]


def _link_questions(drug: str, linked: Iterable[Link]) -> Iterator[tuple[str, str]]:
    for link in linked:
        if link.thing and _names_itself(drug, link.thing):
            continue
        asks = link.rule.ask
        ask = asks[int(content_id(drug, *link.sentences), 16) % len(asks)]
        first, second = link.sentences
        yield ask.format(drug=drug, key=link.thing), link.rule.tell.format(a=first, b=second)


def _names_itself(drug: str, thing: str) -> bool:
    """Whether the thing is the drug: warfarin is no interaction of warfarin's."""
    return not {word.rstrip("s") for word in words(drug)}.isdisjoint(word.rstrip("s") for word in words(thing))


def _fits(question: str, answer: str, a: str, b: str) -> bool:
    if not (_MIN_QUESTION <= len(question) <= _MAX_QUESTION and _MIN_ANSWER <= len(answer) <= _MAX_ANSWER):
        return False
    return all(_overlap(answer, context) >= _MIN_OVERLAP for context in (a, b))


def _overlap(answer: str, context: str) -> float:
    said, there = words(answer), set(words(context))
    return sum(word in there for word in said) / len(said) if said else 0.0
