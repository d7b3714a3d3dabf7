"""The rules that every question must pass, each with the name it is counted by, and the duplicates of one label.

The same template on two labels is no duplicate. Source: FDARxBench §B.4, stage 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TypeVar

from fdarx_core.baseline.stems import stem
from fdarx_core.baseline.tokens import (
    contains_entity,
    contains_name,
    content_words,
    normalize_words,
    pattern,
    vocabulary,
    with_full_stop,
    word_overlap,
    words_of,
)
from fdarx_core.records import QuestionAnswer, Reject

_pattern = partial(pattern, package=__package__)
_WORDS = vocabulary(__package__)

_DRUG = "thedrug"
_AUXILIARY = _pattern("auxiliary_word")

_INTERROGATIVE = _pattern("interrogative")
_SECOND_QUESTION = _pattern("second_question")
_SECOND_CLAUSE = _pattern("second_clause")
_SUBJECTS = _pattern("subjects")
_ACTIONS = _pattern("actions")
_TAIL = _pattern("tail")
_OF_DRUG = _pattern("of_drug")
_VAGUE = frozenset(_WORDS["vague"].split())


def artificial_conjunction(question: str, drug_names: Sequence[str], contexts: Sequence[str]) -> str | None:
    """Return the conjunction of two questions that could be asked separately, None for one question.

    Either a conjunction begins a second question ("…, and how is it supplied?"), or it joins two objects of the
    question, one of which is only in the first context and the other only in the second ("the storage temperature and
    the maximum dose"). "Renal and hepatic impairment" is one object.
    """
    asked = _masked(question, tuple(drug_names))
    second = _second_question(asked) or _SECOND_CLAUSE.search(asked)
    if second:
        return f"a second question: {second[0].strip()!r}"
    for first, other in _halves(asked):
        if len(contexts) > 1 and _stand_apart(first, other, contexts[0], contexts[1]):
            return f"two things asked for, one in each context: {first!r} and {other!r}"
    return None


def _masked(question: str, drug_names: tuple[str, ...]) -> str:
    """Return the question in lower case, with one word in place of the drug's name, which may contain conjunctions."""
    names = _names_pattern(drug_names)
    return names.sub(_DRUG, question).lower() if names else question.lower()


@lru_cache(maxsize=16)
def _names_pattern(drug_names: tuple[str, ...]) -> re.Pattern[str] | None:
    listed = sorted((name for name in drug_names if name.strip()), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, listed))})(?!\w)", re.IGNORECASE) if listed else None


def _second_question(asked: str) -> re.Match[str] | None:
    for found in _SECOND_QUESTION.finditer(asked):
        word = found["open"] or found["narrow"] or found["inverted"]
        if word not in _subordinate(asked[: found.start()], word):
            return found
    return None


def _subordinate(before: str, word: str) -> set[str]:
    """Return the words that have opened subordinate clauses: "and who" continues "in patients who smoke"."""
    inside = set(_INTERROGATIVE.findall(before)[1:])
    return inside | {word} if word in ("which", "who") and " that " in before else inside


def _halves(asked: str) -> Iterator[tuple[str, str]]:
    for conjunction in (_SUBJECTS, _ACTIONS):
        if found := conjunction.search(asked):
            first = _OF_DRUG.sub("", found["first"])
            if not _TAIL.search(first) and not _AUXILIARY.search(found["second"]):
                yield first.strip(), _TAIL.sub("", found["second"]).strip()


def _stand_apart(first: str, other: str, a: str, b: str) -> bool:
    one, two, in_a, in_b = _stems(first), _stems(other), _stems(a), _stems(b)
    straight = _only(one, in_a, in_b) and _only(two, in_b, in_a)
    return straight or (_only(one, in_b, in_a) and _only(two, in_a, in_b))


def _only(half: frozenset[str], here: frozenset[str], there: frozenset[str]) -> bool:
    return bool(half & here) and not half & there


@lru_cache(maxsize=256)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word, "conjunction") for word in content_words(text) - _VAGUE if word != _DRUG)


_SIGNS = {name: re.compile(sign) for name, sign in _WORDS["damage"].items()}
_SIGNS_IN_QUESTION = {name: re.compile(sign) for name, sign in _WORDS["damage_of_question"].items()}
_NO_VALUE = re.compile(r"\W*(?:null|none|nil|n/?a|nan|undefined|unknown|tbd|not applicable|true|false)?\W*", re.I)
_PAIRS = {")": "(", "]": "[", "}": "{"}


def malformed_question(question: str) -> str | None:
    """Return what is damaged, None for nothing. A question has letters and one question mark, at its end."""
    if not any(unicodedata.category(char).startswith("L") for char in question):
        return "question: no letters"
    if question.count("?") != 1 or not question.endswith("?"):
        return f"question: {question.count('?')} question marks, one at the end expected"
    damage = _damage(question, _SIGNS | _SIGNS_IN_QUESTION) or _unbalanced(question, "()[]{}")
    return f"question: {damage}" if damage else None


def malformed_answer(answer: str) -> str | None:
    """Return what is damaged, None for nothing. Label text may break lines, number items and leave brackets open."""
    if _NO_VALUE.fullmatch(answer):
        return f"answer: no value, {answer.strip()!r}"
    damage = _damage(answer, _SIGNS) or _unbalanced(answer, "{}")
    return f"answer: {damage}" if damage else None


def _damage(text: str, signs: Mapping[str, re.Pattern[str]]) -> str | None:
    for name, sign in signs.items():
        if found := sign.search(text):
            return f"{name} {found[0]!r}"
    return None


def _unbalanced(text: str, brackets: str) -> str | None:
    opened: list[str] = []
    for char in text:
        if char not in brackets:
            continue
        if char not in _PAIRS:
            opened.append(char)
        elif not opened or opened.pop() != _PAIRS[char]:
            return f"unbalanced {char!r}"
    return f"unbalanced {opened[-1]!r}" if opened else None


QUESTION_LENGTH = (10, 200)
ANSWER_LENGTH = (5, 600)
"""Characters, both bounds allowed."""
MIN_OVERLAP = 0.10
"""Share of the answer's content words."""


@dataclass(slots=True)
class LabelEvidence:
    """The evidence of a label that a question is checked against.

    `drug_names` are the label's aliases; `contexts` the texts of the question's gold passages, position by position;
    `label_text`, for refusal questions, everything the label says, Highlights and tables included.
    """

    drug_names: list[str]
    contexts: list[str] = field(default_factory=list)
    label_text: str = ""


Rule = Callable[[QuestionAnswer, LabelEvidence], str | None]
"""Returns None for a question that may stay, else what is wrong with it, for people to read."""


def first_failure(question: QuestionAnswer, evidence: LabelEvidence) -> tuple[str, str] | None:
    """Return the first of `RULES` that the question breaks, as (name, what is wrong); None where it passes all."""
    for name, rule in RULES.items():
        if (detail := rule(question, evidence)) is not None:
            return name, detail
    return None


def missing_field(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    held = {name: getattr(question, name).strip() for name in ("id", "set_id", "drug_name", "question", "answer")}
    if question.type == "refusal":
        held |= {"entity": question.entity.strip(), "label text": evidence.label_text.strip()}
    else:
        contexts = [context for context in evidence.contexts if context.strip()]
        held["context"] = len(contexts) >= (2 if question.type == "multihop" else 1)
    missing = [name for name, value in held.items() if not value]
    return f"no {', '.join(missing)}" if missing else None


def drug_not_named(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if any(contains_name(question.question, name) for name in (question.drug_name, *evidence.drug_names)):
        return None
    return f"neither {question.drug_name!r} nor one of its {len(evidence.drug_names)} names is in the question"


def joined_questions(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if question.type != "multihop":
        return None
    return artificial_conjunction(question.question, [question.drug_name, *evidence.drug_names], evidence.contexts)


def low_overlap(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    """Return a message if the answer and its contexts share few words. Multi-hop questions need a share in each."""
    if question.type == "refusal":
        return None
    contexts = evidence.contexts if question.type == "multihop" else ["\n".join(evidence.contexts)]
    shares = [word_overlap(question.answer, context) for context in contexts]
    lowest = min(shares, default=0.0)
    return f"{lowest:.3f} of the answer's words in context {shares.index(lowest) + 1}" if lowest < MIN_OVERLAP else None


def entity_not_named(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if question.type != "refusal" or contains_entity(question.entity, question.question):
        return None
    return f"{question.entity!r} is not in the question"


def entity_present(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if question.type != "refusal" or not contains_entity(question.entity, evidence.label_text):
        return None
    return f"{question.entity!r} is in the label"


RULES: dict[str, Rule] = {
    "missing_field": missing_field,
    "malformed": lambda question, _: malformed_question(question.question) or malformed_answer(question.answer),
    "drug_not_named": drug_not_named,
    "question_length": lambda question, _: _outside(len(question.question), QUESTION_LENGTH),
    "answer_length": lambda question, _: _outside(len(question.answer), ANSWER_LENGTH),
    "artificial_conjunction": joined_questions,
    "low_overlap": low_overlap,
    "entity_not_named": entity_not_named,
    "entity_present": entity_present,
}
"""The rules by the names that they are counted by, in order: a question counts under the first that it breaks."""


def _outside(length: int, bounds: tuple[int, int]) -> str | None:
    low, high = bounds
    return None if low <= length <= high else f"{length} characters, {low} to {high} allowed"


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

_LITTLE_WORDS = frozenset(_WORDS["little_words"].split())
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def drop_duplicates(questions: Sequence[QuestionAnswer]) -> tuple[list[QuestionAnswer], list[Reject]]:
    """Return the questions of one label without duplicates, in order, and a reject for each question left out.

    Duplicates are equal questions, except for case, punctuation and spaces, or questions with equal numbers and entity
    that are as similar as `SAME_QUESTION` or, with equal answers, `SAME_ANSWER`; the drug's name is ignored. Every pair
    is compared.

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
    if {"refusal"} < {row.type for row in rows}:  # one is answerable, another is not
        return None, set()
    answers, joined = [first.answer], set[int]()
    for place, row in enumerate(others, 1):
        whole = " ".join(answers)
        if _has_all(whole, row.answer) or any(_says_the_same(row.answer, answer) for answer in answers):
            continue
        if first.type == "multihop":  # its answer is made of two passages, and a third cannot be added
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
    if first.type == "multihop":
        return first, joined
    passages, codes, has_answer = _gold_of(rows)
    merged = replace(first, answer=answer, gold_passages=passages, gold_codes=codes, gold_has_answer=has_answer)
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


def _gold_of(rows: Sequence[QuestionAnswer]) -> tuple[list[int], list[str], list[bool]]:
    """Return the gold passages of all questions, ascending, with their sections and whether they have an answer."""
    codes: dict[int, str] = {}
    has_answer: dict[int, bool] = {}
    for row in rows:
        for passage, code, has in zip(row.gold_passages, row.gold_codes, row.gold_has_answer, strict=True):
            codes[passage] = code
            has_answer[passage] = has_answer.get(passage, False) or has
    passages = sorted(codes)
    return passages, [codes[one] for one in passages], [has_answer[one] for one in passages]


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
