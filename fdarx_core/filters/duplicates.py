"""Questions of one label that ask the same. The same template on two labels is no duplicate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fdarx_core.baseline.tokens import normalize_words, words_of
from fdarx_core.records import QuestionAnswer, Reject

T = TypeVar("T")

SAME_QUESTION = 0.9
"""Jaccard similarity of the questions' neighbouring words from which they are one question, whatever their answers.

Order counts: "with an inducer after an inhibitor" is not "with an inhibitor after an inducer".
"""
SAME_ANSWER = 0.6
"""Jaccard similarity of the questions' words, in any order, that is enough where the answers are equal."""

# Words that change what is asked (when and how, with and without, before and after) count.
_LITTLE_WORDS = frozenset("a an the of is are was were be been do does did".split())  # noqa: SIM905
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def drop_duplicates(questions: Sequence[QuestionAnswer]) -> tuple[list[QuestionAnswer], list[Reject]]:
    """Return the questions of one label without duplicates, in order, and a reject for each duplicate.

    The first of several duplicates is kept. exact_duplicate: equal except for case, punctuation and spaces.
    near_duplicate: equal numbers and entity, and as similar as `SAME_QUESTION` or, with equal answers, `SAME_ANSWER`;
    the drug's name is ignored. Every pair is compared. The detail of a Reject is the id of the question that was kept.
    """
    kept: list[_Asked] = []
    rejects: list[Reject] = []
    for question in questions:
        asked = _Asked.read(question)
        repeated = next(((reason, one) for one in kept if (reason := asked.repeats(one))), None)
        if repeated is None:
            kept.append(asked)
        else:
            reason, earlier = repeated
            rejects.append(Reject(question.id, "duplicates", reason, earlier.row.id, set_id=question.set_id))
    return [asked.row for asked in kept], rejects


@dataclass(slots=True)
class _Asked:
    row: QuestionAnswer
    question: str
    answer: str
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    numbers: frozenset[str]

    @classmethod
    def read(cls, row: QuestionAnswer) -> _Asked:
        question = normalize_words(row.question)
        without_drug = question.replace(normalize_words(row.drug_name), " ")
        words = [word for word in words_of(without_drug) if word not in _LITTLE_WORDS]
        pairs = frozenset(zip(["", *words], [*words, ""], strict=True))
        return cls(
            row,
            question,
            normalize_words(row.answer),
            frozenset(words),
            pairs,
            frozenset(_NUMBER.findall(row.question)),
        )

    def repeats(self, earlier: _Asked) -> str:
        """Return the reason to drop this question, "" for none."""
        if self.question == earlier.question:
            return "exact_duplicate"
        if self.numbers != earlier.numbers or self.row.entity != earlier.row.entity:
            return ""
        if _jaccard(self.pairs, earlier.pairs) >= SAME_QUESTION:
            return "near_duplicate"
        same = self.answer == earlier.answer and _jaccard(self.words, earlier.words) >= SAME_ANSWER
        return "near_duplicate" if same else ""


def _jaccard(one: frozenset[T], other: frozenset[T]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
