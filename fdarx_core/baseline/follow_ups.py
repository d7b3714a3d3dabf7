"""The baseline for questions in a conversation: the drug and the topic in hand are carried forward."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from fdarx_core.baseline.carried_topics import carries_topic, topic_words
from fdarx_core.baseline.tokens import decapitalise, word_set
from fdarx_core.labels.question_sections import asked_sections

_INTERACTIONS = "34073-7"
_LIKELY = 0.5
"""The probability from which a question counts as one for interactions."""
_WITH = re.compile(r"\bwith\W*$", re.IGNORECASE)
_PRONOUN = re.compile(rf"\b(?:{'|'.join(sorted(word_set('drug_pronouns')))})\b", re.IGNORECASE)
_WITH_PRONOUN = re.compile(rf"\bwith {_PRONOUN.pattern}", re.IGNORECASE)
_PATIENT = re.compile(rf"\W*(?:and |but )?(?:{'|'.join(sorted(word_set('patient_words')))})\b", re.IGNORECASE)
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

    @property
    def asks_for_interactions(self) -> bool:
        """Whether the section on drug interactions probably answers the question."""
        return asked_sections(self.rest)[_INTERACTIONS] >= _LIKELY

    @property
    def is_on_a_pair(self) -> bool:
        """Whether "with" comes before a name, or before a pronoun in a question that names a drug."""
        after_with = any(part.drug and _WITH.search(before.text) for before, part in pairwise(self.parts))
        return after_with or bool(self.names and _WITH_PRONOUN.search(self.rest))

    @property
    def leaves_out_a_drug(self) -> bool:
        """Whether the question, which names a drug, asks about it beside one that it does not name.

        Besides questions on a pair, this is told by a pronoun before the name ("does it interact with …"), by a
        statement about a patient ("she takes …"), and by the section on interactions.
        """
        start = self.parts[0].text
        return bool(self.is_on_a_pair or _PRONOUN.search(start) or _PATIENT.match(start) or self.asks_for_interactions)

    def about(self, names: Sequence[_Part], subject: str = "") -> _Question:
        """Return the question with other drugs in place of the last that it names; it gets them if it names none.

        The drug `subject` is replaced only where it is the only one.
        """
        if not names:
            return self
        if not self.names:
            return self.with_further(names)
        replaced = [name.drug for name in self.names if name.drug != subject] or [subject]
        parts = [new for part in self.parts for new in (_listed(names) if part.drug == replaced[-1] else [part])]
        return replace(self, parts=tuple(parts))

    def with_further(self, names: Sequence[_Part]) -> _Question:
        """Return the question with further drugs, in brackets at its end."""
        *parts, last = self.parts
        start = _Part(f"{last.text.rstrip(_END)} (")
        return replace(self, parts=(*parts, start, *_listed(names), _Part(")?"))) if names else self


class FollowUp(NamedTuple):
    """A question as it is understood without the earlier turns, and whether it took over the topic of the last one."""

    text: str
    carried: bool


def standalone_question(slots: Mapping[str, Any]) -> str:
    """Return a question as it is understood without the earlier turns, see `follow_up`."""
    return follow_up(slots).text


def follow_up(slots: Mapping[str, Any]) -> FollowUp:
    """Return how a question is understood after the earlier turns.

    A question without a topic of its own ("and in children?", "how much then?") keeps the topic of the question before;
    `carries_topic` decides. One that names no drug keeps the drugs in hand: those of the last question that names any,
    or else those of the first answer that does. One that asks about a drug beside another that it does not name ("ok
    with clopidogrel?") gets the drug in hand too.

    Args:
        slots: the slots of the task `standalone_question`.
    """
    before: _Question | None = None
    drugs: tuple[_Part, ...] = ()
    carried = False
    for turn in (*slots["history"], slots):
        asked = _parsed(turn["question"], turn["names"])
        before, carried = _follow(asked, before, drugs)
        drugs = _in_hand(asked, before, drugs) or _parsed(turn.get("answer", ""), turn.get("answer_names", ())).names
    return FollowUp(str(before), carried)


def _follow(asked: _Question, before: _Question | None, drugs: Sequence[_Part]) -> tuple[_Question, bool]:
    """Return what a question asks after the question `before`, with the drugs in hand, and if that is its topic."""
    subject = drugs[0].drug if drugs else ""
    if before is not None and _carries(asked, before):
        carried = before.about(asked.names or (() if before.names else drugs), subject)
        return (replace(carried, qualifier=str(asked)) if topic_words(asked.rest) else carried), True
    if not asked.names:
        return asked.about(drugs), False
    named = {name.drug for name in asked.names}
    missing = bool(drugs) and named.isdisjoint(name.drug for name in drugs) and asked.leaves_out_a_drug
    return (asked.with_further(drugs) if missing else asked), False


def _carries(asked: _Question, before: _Question) -> bool:
    """Return whether a question takes over the topic of the one before."""
    if asked.is_on_a_pair and len(before.names) == 1:
        return False
    return not topic_words(asked.rest) or carries_topic(asked.rest, before.rest, names_drug=bool(asked.names))


def _in_hand(asked: _Question, understood: _Question, drugs: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """Return the drugs in hand after a question, from the question as it was asked and as it is understood.

    Of a pair of drugs it is the one that was in hand before, and of a first pair that may interact the first.
    """
    names = understood.names
    known = {name.drug for name in drugs}
    stay = tuple(name for name in names if name.drug in known)
    if stay and asked.names and len(names) > len(asked.names):
        return stay
    return (names[:1] if len(names) > 1 and understood.asks_for_interactions else names) or drugs


def _listed(names: Sequence[_Part]) -> list[_Part]:
    return [part for name in names for part in (_Part(" and "), name)][1:]


def _parsed(text: str, names: Sequence[Mapping[str, Any]]) -> _Question:
    parts, end = list[_Part](), 0
    for name in names:
        parts += [_Part(text[end : name["start"]]), _Part(name["text"], name["drug"])]
        end = name["end"]
    return _Question((*parts, _Part(text[end:])))
