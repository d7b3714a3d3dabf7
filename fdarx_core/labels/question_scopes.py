"""Whether a question asks for several labels, and what each of them must say, learned from written questions.

The questions are in `question_scopes.tsv`: the scope, the LOINC code of the section that must say it, "" for any, the
part of the data for leaving one out, and the wording, in which DRUG stands for a name. Of questions for several labels,
[brackets] hold what a passage of a label says, and {braces} the class that the drug belongs to; the other words only
ask. The questions of `question_sections.tsv`, each for one drug, are learned from as well.
`benchmarks/class_questions.py` measures the models on parts left out.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal, NamedTuple, cast, get_args

from fdarx_core.labels.loinc import SECTION_GROUPS
from fdarx_core.labels.perceptron import AveragedPerceptron
from fdarx_core.labels.question_sections import (
    DRUG,
    NO_SECTION,
    SectionClassifier,
    WrittenQuestion,
    asked_sections,
    word_stems,
    written_questions,
)

Scope = Literal["one", "class", "mention"]
"""One drug or no label at all, drugs with a property, or labels that have a term."""
WordRole = Literal["frame", "said", "class"]
"""A word that only asks, one that a passage of the label must have, or one of the class that the drug belongs to."""

_MARKED = re.compile(r"(?P<open>[\[{])|(?P<close>[\]}])|(?P<word>[^\W_]+)")
_WORD = re.compile(r"[^\W_]+")
LEAST_ODDS, LEAST_ODDS_OF_ONE = 0.6, 0.9
"""The least probability of a section that a question asks for, and by the model of questions for one drug."""
_UNKNOWN_NAME = "Unknownname"
_UNKNOWN = "?"
"""The word that stands for one that no model knows."""
_LEAST_QUESTIONS = 2
"""Questions in which a word must ask so that the models know it; other words are mostly what a label is to say."""
_REPEATED = 8
"""How often a round has each question of `question_scopes.tsv`: those of `question_sections.tsv` are so many more."""
_ROUNDS = 8
"""Rounds of learning over all questions."""


class ScopedQuestion(NamedTuple):
    """A question that somebody wrote: its scope, group of sections, part of the data, words, and the role of each."""

    scope: Scope
    group: str
    fold: str
    words: tuple[str, ...]
    roles: tuple[WordRole, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


@cache
def scoped_questions() -> tuple[ScopedQuestion, ...]:
    """Return the questions of `question_scopes.tsv`."""
    lines = files(__package__).joinpath("question_scopes.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return tuple(_read(cast(Scope, scope), code, fold, wording) for scope, code, fold, wording in rows)


@cache
def _marked() -> frozenset[ScopedQuestion]:
    return frozenset(scoped_questions())


@cache
def questions_for_one_drug() -> tuple[ScopedQuestion, ...]:
    """Return the questions of `question_sections.tsv` that name a drug, with their writers as parts.

    Each comes a second time with a name that no index knows: a brand without a label, or a misspelt name.
    """
    named = [one for one in written_questions() if DRUG in one.text]
    texts = ((one.writer, re.sub(r"[\[\]{}]", " ", one.text)) for one in named)
    return tuple(
        _read("one", NO_SECTION, f"writer {writer}", text.replace(DRUG, name))
        for writer, text in texts
        for name in (DRUG, _UNKNOWN_NAME)
    )


def _read(scope: Scope, code: str, fold: str, wording: str) -> ScopedQuestion:
    role: WordRole = "frame"
    words, roles = list[str](), list[WordRole]()
    for found in _MARKED.finditer(wording):
        if found["open"]:
            role = "said" if found["open"] == "[" else "class"
        elif found["close"]:
            role = "frame"
        else:
            words.append(found["word"])
            roles.append(role)
    return ScopedQuestion(scope, SECTION_GROUPS.get(code, NO_SECTION), fold, tuple(words), tuple(roles))


class ScopeClassifier:
    """An averaged perceptron that finds the scope of a question by its stems, pairs of stems, and first stems.

    Args:
        questions: the questions to learn from.
    """

    def __init__(self, questions: Iterable[ScopedQuestion]) -> None:
        rows = tuple(questions)
        self._known = _frame_stems(rows)
        self._model = AveragedPerceptron(get_args(Scope))
        examples = [row for row in rows for _ in range(_REPEATED if row in _marked() else 1)]
        order = random.Random(0)
        for _ in range(_ROUNDS):
            order.shuffle(examples)
            for row in examples:
                self._model.learn(self._features(row.words), row.scope)
        self._model.average()

    def scope(self, words: Sequence[str]) -> Scope:
        """Return the likeliest scope of the words of a question, in which DRUG stands for each name."""
        return cast(Scope, self._model.best(self._features(words)))

    def _features(self, words: Sequence[str]) -> list[str]:
        stems = _stems(words, self._known)
        pairs = [f"{one} {two}" for one, two in pairwise(["<", *stems, ">"])]
        named = f"named {min(2, stems.count(DRUG))}"
        first = " ".join(stems[:3])
        return ["always", named, f"< {first}", f"{named} {' '.join(stems[:1])}", *dict.fromkeys((*stems, *pairs))]


class RoleTagger:
    """An averaged perceptron that gives each word of a question a role, from left to right.

    Args:
        questions: the questions to learn from; those for one drug have no roles.
    """

    def __init__(self, questions: Iterable[ScopedQuestion]) -> None:
        rows = [one for one in questions if one.scope != "one"]
        self._known = _frame_stems(rows)
        self._model = AveragedPerceptron(get_args(WordRole))
        for _ in range(_ROUNDS):
            for row in rows:
                stems = _stems(row.words, self._known)
                for at, role in enumerate(row.roles):
                    self._model.learn(_features(stems, at, row.roles[:at]), role)
        self._model.average()

    def roles(self, words: Sequence[str]) -> list[WordRole]:
        """Return the role of each word of a question for several labels, in which DRUG stands for each name."""
        stems, found = _stems(words, self._known), list[WordRole]()
        for at in range(len(stems)):
            found.append(cast(WordRole, self._model.best(_features(stems, at, found))))
        return found


def _frame_stems(questions: Sequence[ScopedQuestion]) -> frozenset[str]:
    """Return the stems that ask in several questions, and more often than they are in what a label says."""
    asks, says = Counter[str](), Counter[str]((_stem(_UNKNOWN_NAME),) * len(questions))
    for one in questions:
        stems = [_stem(word) for word in one.words]
        asks.update({stem for stem, role in zip(stems, one.roles, strict=True) if role == "frame"})
        says.update({stem for stem, role in zip(stems, one.roles, strict=True) if role != "frame"})
    return frozenset(stem for stem, count in asks.items() if count >= _LEAST_QUESTIONS and count > says[stem])


def _stem(word: str) -> str:
    return DRUG if word == DRUG else " ".join(word_stems(word)) or word


def _stems(words: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the stems of words; one stands for all that are not known."""
    return [stem if (stem := _stem(word)) in known else _UNKNOWN for word in words]


def _features(stems: Sequence[str], at: int, before: Sequence[WordRole]) -> list[str]:
    """Return the features of a word: it, its neighbours, and the roles of the words before it."""
    one, here, next_one = stems[at - 1] if at else "<", stems[at], stems[at + 1] if at + 1 < len(stems) else ">"
    next_known = next((stem for stem in stems[at + 1 :] if stem != _UNKNOWN), ">")
    last: str = before[-1] if before else "<"
    told = "told" if any(role != "frame" for role in before) else "new"
    return [
        "always",
        f"0 {here}",
        f"-1 {one}",
        f"+1 {next_one}",
        f"-1 0 {one} {here}",
        f"0 +1 {here} {next_one}",
        f"0 then {here} {next_known}",
        f"role {last}",
        f"role {last} {here}",
        f"role {last} {one} {here}",
        f"{told} {here}",
        f"{told} {one} {here}",
    ]


def section_classifier(questions: Iterable[ScopedQuestion]) -> SectionClassifier:
    """Return a model of the section that a question for several labels asks for, by the words that only ask.

    It learns from the questions of `question_sections.tsv` as well, and that those for no section ask for any.
    """
    frames = [
        WrittenQuestion(one.group, one.fold, frame_text(one.words, one.roles))
        for one in questions
        if one.scope != "one"
    ]
    return SectionClassifier((*written_questions(), *frames * _REPEATED))


def frame_text(words: Sequence[str], roles: Sequence[WordRole]) -> str:
    """Return the words of a question that only ask."""
    return " ".join(word for word, role in zip(words, roles, strict=True) if role == "frame" and word != DRUG)


@cache
def _models() -> tuple[ScopeClassifier, RoleTagger, SectionClassifier]:
    rows = scoped_questions()
    return ScopeClassifier((*questions_for_one_drug(), *rows)), RoleTagger(rows), section_classifier(rows)


@lru_cache(maxsize=1024)
def question_scope(question: str) -> Scope:
    """Return the likeliest scope of a question, in which DRUG stands for each name of a drug."""
    return _models()[0].scope(_WORD.findall(question))


def asked_group(words: Sequence[tuple[str, WordRole]]) -> str:
    """Return the group of sections that a question for several labels asks for, "" for any.

    Args:
        words: the words of the question, as `asked_words` gives them.
    """
    frame = frame_text([word for word, _ in words], [role for _, role in words])
    for odds, least in ((_models()[2].probabilities(frame), LEAST_ODDS), (asked_sections(frame), LEAST_ODDS_OF_ONE)):
        group = max(odds, key=lambda name: odds[name])
        if group != NO_SECTION and odds[group] >= least:
            return group
    return NO_SECTION


def asked_words(question: str) -> list[tuple[str, WordRole]]:
    """Return the words of a question for several labels, in which DRUG stands for each name, with their roles."""
    words = _WORD.findall(question)
    return list(zip(words, _models()[1].roles(words), strict=True))
