"""The baseline for searching documents, without a model: key words, texts to search with, and relevance scores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fdarx_core.baseline.answering import asked_terms
from fdarx_core.baseline.stems import terms
from fdarx_core.baseline.tokens import vocabulary

_WORD = re.compile(r"[^\W_]+(?:[-'’./][^\W_]+)*")
_ANSWER: str = vocabulary()["hypothetical_answer"]
_PASSAGE: str = vocabulary()["made_up_passage"]
_OTHERS: list[str] = vocabulary()["other_questions"]


def key_words(question: str) -> list[str]:
    """Return the subject words of a question as it writes them, in order; all words if there are none."""
    _, telling = asked_terms(question, "")
    words = list(dict.fromkeys(_WORD.findall(question)))
    return [word for word in words if terms(word) & telling] or words


def hypothetical_answer(slots: Mapping[str, Any]) -> str:
    """Return a text in the style of an official reply, made of the question's words."""
    return _ANSWER.format(topic=_topic(slots["question"]))


def made_up_passage(slots: Mapping[str, Any]) -> str:
    """Return a text in the style of a guideline, with the question's topic as heading and subject."""
    topic = _topic(slots["question"])
    return _PASSAGE.format(heading=topic[:1].upper() + topic[1:], topic=topic)


def other_questions(slots: Mapping[str, Any]) -> list[str]:
    """Return three rewordings of a question from its key words."""
    topic = _topic(slots["question"])
    return [wording.format(topic=topic) for wording in _OTHERS]


def _topic(question: str) -> str:
    return ", ".join(key_words(question)) or "the subject of the question"


def relevance(slots: Mapping[str, Any]) -> tuple[int, str]:
    """Return a score from 1 (no word of the question) to 10 (all of them), and a reason."""
    asked = terms(slots["question"])
    held = asked & terms("\n".join((slots["title"], slots["section"], slots["text"])))
    score = 1 + round(9 * len(held) / max(1, len(asked)))
    return score, f"It has {len(held)} of the question's {len(asked)} words."
