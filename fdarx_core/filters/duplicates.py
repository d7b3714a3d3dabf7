"""The duplicates among the questions of one label: what is kept of them, and why the others are rejected.

The same template on two labels is no duplicate. Source: FDARxBench §B.4, stage 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fdarx_core.filters.rules import ANSWER_LENGTH
from fdarx_core.records import QuestionAnswer, Reject
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.text.tokens import normalize_words, vocabulary, with_full_stop, words_of

T = TypeVar("T")

SAME_QUESTION = 0.9
"""Jaccard similarity of the questions' neighbouring words from which they are one question, whatever their answers.

Order counts: "with an inducer after an inhibitor" is not "with an inhibitor after an inducer".
"""
SAME_ANSWER = 0.6
"""Jaccard similarity of the questions' words, in any order, that is enough where the answers are equal."""

SAME_STATEMENT = 0.75
"""Jaccard similarity of the words of two answers with equal numbers from which they say the same."""
CONTAINED = 0.9
"""The share of an answer's words from which another answer that has them says all of it."""

_LITTLE_WORDS = frozenset(vocabulary(__package__)["little_words"].split())
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LABELER = re.compile(r"\([^()]*\)")
"""The name of a labeler, which follows the name of a product."""


def drop_duplicates(questions: Sequence[QuestionAnswer]) -> tuple[list[QuestionAnswer], list[Reject]]:
    """Return the questions of one label without duplicates, in order, and a reject for each question left out.

    Duplicates are equal questions, except for case, punctuation and spaces, or questions with equal numbers and entity
    that are as similar as `SAME_QUESTION` or, with equal answers, `SAME_ANSWER`; the names of the drug and its labeler
    are ignored. Every pair is compared.

    The first of several duplicates is kept, with the gold passages of all. If their answers differ in more than a few
    words (`SAME_STATEMENT`), it gets all of them: the one that says all that the others say (`CONTAINED`), or one after
    the other. Answers with other numbers, which may contradict each other, different answers to multi-hop questions,
    and answers that are too long together cannot be joined; then none of the questions is kept. A multi-hop question
    keeps its two passages.

    The reasons of rejects are exact_duplicate and near_duplicate, merged_answer for a question whose answer the kept
    one got, and ambiguous where answers cannot be joined. The detail is the id of the first of the questions.
    """
    groups: list[list[tuple[int, _NormalizedQuestion, str]]] = []
    for at, question in enumerate(questions):
        normalized = _NormalizedQuestion.read(question)
        repeated = ((group, reason) for group in groups if (reason := normalized.repeats(group[0][1])))
        group, reason = next(repeated, ([], ""))
        if not group:
            groups.append(group)
        group.append((at, normalized, reason))
    kept: dict[int, QuestionAnswer] = {}
    rejects: dict[int, Reject] = {}
    for group in groups:
        rows = [one.row for _, one, _ in group]
        merged, joined = _merge(rows)
        first, *others = group
        if merged is not None:
            kept[first[0]] = merged
        for place, (at, one, reason) in enumerate(others if merged is not None else group, merged is not None):
            why = "ambiguous" if merged is None else "merged_answer" if place in joined else reason
            rejects[at] = Reject(one.row.id, "duplicates", why, rows[0].id, set_id=one.row.set_id)
    return [kept[at] for at in sorted(kept)], [rejects[at] for at in sorted(rejects)]


def _merge(rows: Sequence[QuestionAnswer]) -> tuple[QuestionAnswer | None, set[int]]:
    """Return the first of some duplicates with the answers and gold passages of all; None where the answers conflict.

    Also returns the places of the questions whose answers were joined to it.
    """
    first, *others = rows
    if not others:
        return first, set()
    if len({row.answerable for row in rows}) > 1:  # one is answerable, another is not
        return None, set()
    answers, joined = [first.answer], set[int]()
    for place, row in enumerate(others, 1):
        whole = " ".join(answers)
        if _has_all(whole, row.answer) or any(_says_the_same(row.answer, answer) for answer in answers):
            continue
        if QUESTION_TYPES[first.type].passages > 1:  # its answer is made of two passages, and a third cannot be added
            return None, set()
        numbers = [set(_NUMBER.findall(text)) for text in (whole, row.answer)]
        if _has_all(row.answer, whole):
            answers = [row.answer]
        elif all(numbers) and numbers[0] != numbers[1]:
            return None, set()
        else:
            answers.append(row.answer)
        joined.add(place)
    answer = " ".join(map(with_full_stop, answers)) if len(answers) > 1 else answers[0]
    if len(answers) > 1 and len(answer) > ANSWER_LENGTH[1]:
        return None, set()
    if QUESTION_TYPES[first.type].passages > 1:
        return first, joined
    codes: dict[int, str] = {}
    has_answer: dict[int, bool] = {}
    for row in rows:
        for passage, code, has in zip(row.gold_passages, row.gold_codes, row.gold_has_answer, strict=True):
            codes[passage] = code
            has_answer[passage] = has_answer.get(passage, False) or has
    gold = sorted(codes)
    merged = replace(
        first,
        answer=answer,
        gold_passages=gold,
        gold_codes=[codes[one] for one in gold],
        gold_has_answer=[has_answer[one] for one in gold],
    )
    return merged, joined


def _has_all(whole: str, part: str) -> bool:
    """Return whether an answer has all numbers of another one and nearly all of its words (`CONTAINED`)."""
    words = set(words_of(part))
    shared = len(words & set(words_of(whole))) >= CONTAINED * len(words)
    return shared and set(_NUMBER.findall(part)) <= set(_NUMBER.findall(whole))


def _says_the_same(one: str, other: str) -> bool:
    """Return whether two answers have the same numbers and nearly the same words."""
    same_numbers = set(_NUMBER.findall(one)) == set(_NUMBER.findall(other))
    return same_numbers and _jaccard(frozenset(words_of(one)), frozenset(words_of(other))) >= SAME_STATEMENT


@dataclass(slots=True)
class _NormalizedQuestion:
    """A question with the normalized texts and sets by which duplicates are found."""

    row: QuestionAnswer
    question: str
    answer: str
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    numbers: frozenset[str]

    @classmethod
    def read(cls, row: QuestionAnswer) -> _NormalizedQuestion:
        question = normalize_words(row.question)
        bare = normalize_words(_LABELER.sub(" ", row.question))
        without_drug = bare.replace(normalize_words(row.drug_name), " ")
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

    def repeats(self, earlier: _NormalizedQuestion) -> str:
        """Return the reason to drop this question as a duplicate of an earlier one, "" if it is none."""
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
