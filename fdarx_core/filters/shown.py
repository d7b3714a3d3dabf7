"""The slots of the judges' tasks, from a question and its label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fdarx_core.baseline.tokens import content_words
from fdarx_core.records import Label, Passage, QuestionAnswer

WHOLE_LABEL_WORDS = 1500
NEAREST_PASSAGES = 8
"""A label of more words is shown by that many of its passages, those with most of the question's words.

That is a compromise: the absence of the entity's name from the whole label is verified by program (the rule
entity_present), so the judge looks for what a search for the name can't find, and that stands, if anywhere, where the
rest of the question's words stand.
"""
_ASKED_OF_ALL = frozenset("recommended patient label dose use used taking treatment".split())  # noqa: SIM905


def relevance_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_relevance; they have no answer, because it is not judged."""
    gold = {(passages[index].section_path, passages[index].core_code): None for index in question.gold_passages}
    return {
        "drug": label.drug_name,
        "question": question.question,
        "sections": [path for path, _ in gold],
        "section_codes": [code for _, code in gold],
    }


def factual_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_support_factual and judge_quality_factual."""
    gold = [passages[index] for index in question.gold_passages]
    return {
        "drug": label.drug_name,
        "question": question.question,
        "answer": question.answer,
        "passages": _listed(gold),
    }


def multihop_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_support_multihop and judge_quality_multihop."""
    a, b = (passages[index] for index in question.gold_passages)
    return {
        "drug": label.drug_name,
        "question": question.question,
        "answer": question.answer,
        "section_a": a.section_path,
        "context_a": a.text,
        "section_b": b.section_path,
        "context_b": b.text,
    }


def refusal_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_support_refusal: the body of a short label, else the most similar passages."""
    whole = sum(passage.text.count(" ") for passage in passages) <= WHOLE_LABEL_WORDS
    shown = passages if whole else nearest(question, label, passages)
    return {
        "drug": label.drug_name,
        "entity": question.entity,
        "question": question.question,
        "passages": _listed(shown),
    }


def nearest(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> list[Passage]:
    """Return the `NEAREST_PASSAGES` that contain most words of the question, in document order.

    Each word counts once per passage, with the idf of BM25 as its weight (Robertson). Of equal passages, the first is
    taken.
    """
    names = frozenset().union(*map(content_words, label.aliases))
    asked = sorted(content_words(question.question) - names - _ASKED_OF_ALL)
    texts = [f"{passage.section_path}\n{passage.text}".lower() for passage in passages]
    scores = [0.0] * len(texts)
    for word in asked:
        holders = [place for place, text in enumerate(texts) if word in text]
        for place in holders:
            scores[place] += math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
    best = sorted(range(len(texts)), key=lambda place: (-scores[place], place))[:NEAREST_PASSAGES]
    return [passages[place] for place in sorted(best)]


def _listed(passages: Sequence[Passage]) -> list[dict[str, str]]:
    return [{"section": passage.section_path, "text": passage.text} for passage in passages]
