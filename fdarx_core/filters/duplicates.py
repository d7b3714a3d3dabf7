"""Questions of one label that ask the same. The same template on two labels is no duplicate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.filters.text import plain, tokens
from fdarx_core.records import QuestionAnswer, Reject

SAME_QUESTION = 0.9
"""Jaccard similarity of the questions' words from which they are one question, whatever their answers."""
SAME_ANSWER = 0.6
"""The same where the answers are equal too."""

# Words that change what is asked (when and how, with and without, before and after) count.
_LITTLE_WORDS = frozenset("a an the of is are was were be been do does did".split())  # noqa: SIM905
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def drop_duplicates(questions: Sequence[QuestionAnswer]) -> tuple[list[QuestionAnswer], list[Reject]]:
    """The questions of one label without repetitions, in their order; of several that ask the same the first stays.

    exact_duplicate: equal but for case, punctuation and spaces. near_duplicate: equal numbers and entity, and words
    (the drug's name apart) as similar as `SAME_QUESTION`, or `SAME_ANSWER` with equal answers. Comparing is pairwise.
    Each Reject's detail is the id of the question that stayed.
    """
    drug_words = {word for question in questions for word in tokens(question.drug_name)}
    kept: list[_Asked] = []
    rejects: list[Reject] = []
    for question in questions:
        asked = _Asked.read(question, drug_words)
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
    numbers: frozenset[str]

    @classmethod
    def read(cls, row: QuestionAnswer, drug_words: set[str]) -> _Asked:
        words = frozenset(tokens(row.question)) - _LITTLE_WORDS - drug_words
        return cls(row, plain(row.question), plain(row.answer), words, frozenset(_NUMBER.findall(row.question)))

    def repeats(self, earlier: _Asked) -> str:
        """The reason to drop this one, "" for none."""
        if self.question == earlier.question:
            return "exact_duplicate"
        if self.numbers != earlier.numbers or self.row.entity != earlier.row.entity:
            return ""
        enough = SAME_ANSWER if self.answer == earlier.answer else SAME_QUESTION
        return "near_duplicate" if _jaccard(self.words, earlier.words) >= enough else ""


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
