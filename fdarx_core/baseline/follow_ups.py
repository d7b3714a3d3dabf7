"""The baseline for questions in a conversation: the drug and the topic in hand are carried forward."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fdarx_core.baseline.tokens import decapitalise, pattern, question_words, vocabulary, word_set

_FUNCTION_WORDS = word_set("stop_words") | word_set("stem_stop_words")
_FRAME = word_set("question_words")
_FINITE = pattern("finite_verb", re.I)
_TOPICS = [
    (topic, re.compile(rf"\b(?:{words})", re.IGNORECASE)) for topic, words in vocabulary()["asked_topics"].items()
]
_QUALIFIES = "Use in Specific Populations"
"""The topic that alone qualifies another one: "and in renal impairment?" """
_END = " ?.!"


class _Part(NamedTuple):
    """A part of a question: a name with the drug that it means, or other text, of which `drug` is ""."""

    text: str
    drug: str = ""


@dataclass(frozen=True, slots=True)
class _Question:
    """A question with a topic, in parts, and the later question without one that qualifies it, or ""."""

    parts: tuple[_Part, ...]
    qualifier: str = ""

    def __str__(self) -> str:
        text = "".join(part.text for part in self.parts)
        return f"{text.rstrip(_END)}, {decapitalise(self.qualifier)}" if self.qualifier else text

    @property
    def names(self) -> tuple[_Part, ...]:
        """The first name of each drug."""
        return tuple({part.drug: part for part in reversed(self.parts) if part.drug}.values())[::-1]

    @property
    def rest(self) -> str:
        """The text without the names."""
        return " ".join(part.text for part in self.parts if not part.drug)

    def about(self, names: Sequence[_Part]) -> _Question:
        """Return the question with other drugs in place of the first that it names; it gets them if it names none."""
        if not names:
            return self
        listed = [part for name in names for part in (_Part(" and "), name)][1:]
        if not self.names:
            start = _Part(f"{self.rest.rstrip(_END)} (")
            return replace(self, parts=(start, *listed, _Part(")?")))
        first = self.names[0].drug
        parts = [new for part in self.parts for new in (listed if part.drug == first else [part])]
        return replace(self, parts=tuple(parts))


def standalone_question(slots: Mapping[str, Any]) -> str:
    """Return a question as it is understood without the earlier turns.

    A question without a topic of its own, or with a population alone ("and in children?"), keeps the topic of the
    question before. One that names no drug keeps the drugs in hand: those of the last question that names any, or else
    those of the first answer that does.
    """
    before: _Question | None = None
    drugs: tuple[_Part, ...] = ()
    for turn in (*slots["history"], slots):
        before = _follow(_parsed(turn["question"], turn["names"]), before, drugs)
        drugs = before.names or drugs or _parsed(turn.get("answer", ""), turn.get("answer_names", ())).names
    return str(before)


def _follow(asked: _Question, before: _Question | None, drugs: Sequence[_Part]) -> _Question:
    """Return what a question asks after the question `before`, with the drugs in hand."""
    own = [word for word in question_words(asked.rest) if word not in _FUNCTION_WORDS]
    if before is None or _has_topic(asked.rest, own, str(before)):
        return asked if asked.names else asked.about(drugs)
    carried = before.about(asked.names or (() if before.names else drugs))
    return replace(carried, qualifier=str(asked)) if own else carried


def _has_topic(text: str, own: Sequence[str], before: str) -> bool:
    """Return whether a question, without the names in it, has a topic that is not that of the question before."""
    topic, telling = _topic(text), any(word not in _FRAME for word in own)
    if _FINITE.search(text):
        return telling or bool(topic)
    return telling and topic not in ("", _QUALIFIES, _topic(before))


def _topic(text: str) -> str:
    return next((topic for topic, words in _TOPICS if words.search(text)), "")


def _parsed(text: str, names: Sequence[Mapping[str, Any]]) -> _Question:
    parts, end = list[_Part](), 0
    for name in names:
        parts += [_Part(text[end : name["start"]]), _Part(name["text"], name["drug"])]
        end = name["end"]
    return _Question((*parts, _Part(text[end:])))
