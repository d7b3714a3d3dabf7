"""The baseline's texts to search with: a question's own key words within fixed sentences. It knows nothing besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.rag.baseline.asked import core, key_words

_ANSWER = (
    "In response to the question on {topic}: the applicable regulations and guidance describe {topic}. FDA recommends "
    "that applicants, sponsors and manufacturers document and justify {topic}, and discuss any alternative approach "
    "with the Agency."
)
_PASSAGE = (
    "{heading}. This section describes {topic}. The following requirements, recommendations and limitations apply to "
    "{topic}."
)
_OTHERS = (
    "Which requirements and recommendations apply to {topic}?",
    "How does the guidance or the label describe {topic}?",
    "What should be considered with regard to {topic}?",
)


def hypothetical_answer(slots: Mapping[str, Any]) -> str:
    """In the manner of an official reply; it holds nothing that the question does not."""
    return _ANSWER.format(topic=_topic(slots["question"]))


def made_up_passage(slots: Mapping[str, Any]) -> str:
    """In the manner of a guideline: the question's own topic as heading and subject."""
    topic = _topic(core(slots["question"]))
    return _PASSAGE.format(heading=topic[:1].upper() + topic[1:], topic=topic)


def other_questions(slots: Mapping[str, Any]) -> list[str]:
    """Three wordings around the question's key words."""
    topic = _topic(slots["question"])
    return [wording.format(topic=topic) for wording in _OTHERS]


def _topic(question: str) -> str:
    return ", ".join(key_words(question)) or "the subject of the question"
