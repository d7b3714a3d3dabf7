"""The baseline's relevance of a chunk to a question, by the question's words in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.evaluation.baseline.answering_words import asked_terms
from fdarx_core.filters.baseline.terms import terms
from fdarx_core.rag.baseline.answering import told
from fdarx_core.rag.baseline.asked import core

_FRAME_WEIGHT = 0.3
"""Of words in which one asks about anything, beside those that tell what a question is about."""
_TOGETHER = 0.5
"""Weight of the words that stand in one sentence, beside that of those which stand anywhere."""


def relevance(slots: Mapping[str, Any]) -> tuple[int, str]:
    """From 1 (no word of the question) to 10 (all of them in one sentence), and a sentence on why."""
    asked, telling = asked_terms(core(slots["question"], [slots["title"]]), "")
    weights = {term: 1.0 if term in telling else _FRAME_WEIGHT for term in asked}
    said = told(slots)
    anywhere = (
        {term for term in asked if term in said.places}
        | (asked & terms(slots["title"]))
        | (asked & terms(slots["section"]))
    )
    together = max((_sum(weights, one.terms & asked) for one in said.statements), default=0.0)
    share = (1 - _TOGETHER) * _sum(weights, anywhere) + _TOGETHER * together
    score = 1 + round(9 * share / (sum(weights.values()) or 1))
    return score, f"{len(anywhere)} of the question's {len(asked)} words stand in it."


def _sum(weights: Mapping[str, float], found: set[str] | frozenset[str]) -> float:
    return sum(weights[term] for term in sorted(found))
