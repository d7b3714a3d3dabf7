"""Which statement of a label's passages answers a question: a model that is learned from marked questions.

The score of a statement is linear in its features, and in pairs of a stem of the question and an attribute of the
statement: "long" asks for hours or months, "percentage" for a per cent. The weights are in `statement_ranking.json`;
`python -m benchmarks.label_answers` learns them from questions whose answers are marked in labels, and measures them on
drugs that it has not learned from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from fdarx_core.baseline.label_statements import LabelStatement, parse_passage
from fdarx_core.baseline.label_words import rarity
from fdarx_core.baseline.stems import stem
from fdarx_core.baseline.tokens import words_of
from fdarx_core.labels.loinc import PATIENT_SECTIONS, SECTION_GROUPS
from fdarx_core.labels.question_sections import NUMBER_STEM, asked_sections, question_weight, word_stems

Floats = npt.NDArray[np.float64]

FEATURES = (
    "rank", "own", "headings", "titles", "numbers", "row", "list", "others", "section", "patient", "similarity",
)  # fmt: skip
"""What a statement is scored by.

- rank: the place of its passage among the contexts, from 0.
- own, headings, titles: the shares of the question's stems, by weight, that are in the statement; in the headings above
  it within the passage and not before; in the titles of its section and not before.
- numbers: the share of the question's numbers that it has.
- row, list: 1 for a table row, and for a sentence with the items of a list.
- others: the share of its stems that the question has not.
- section: the logarithm of the probability that a question like this asks for its section.
- patient: 1 in a section that patients read.
- similarity: its cosine with the question by an embedding model; 0 where there is none.
"""
UNITS = ("mg", "%", "h", "month", "ml", "kg", "°c", "tablet", "unit", "mmhg")
ATTRIBUTES = ("number", "row", "list", "short", *UNITS)
"""What a statement can have that a question asks for: a number, a quantity in a unit, the form of a row or a list."""
ANSWER_FEATURES = (
    "spread", "told", "covered", "statements", "section", "length", "similarity", "mean similarity",
)  # fmt: skip
"""What decides whether the contexts answer a question, see `answer_features`."""

_LEAST_PROBABILITY = 0.0025
_SHORT = 60
_FEWEST = 25
"""Statements of the contexts of most questions that the model is learned from. Fewer are compared as so many, of which
the rest share nothing with the question.
"""
_NAME = 0.84
"""The similarity from which a word of the question is a drug's name with a typing error."""


@dataclass(frozen=True)
class StatementWeights:
    """The weights of the model.

    Attributes:
        features: the weight of each of `FEATURES`.
        attributes: the weight of each of `ATTRIBUTES`.
        asked: for a stem of the question, the weights of attributes that it asks for.
        answer: the weight of each of `ANSWER_FEATURES`, and the constant under "".
    """

    features: Mapping[str, float]
    attributes: Mapping[str, float]
    asked: Mapping[str, Mapping[str, float]]
    answer: Mapping[str, float]


@cache
def statement_weights(*, similarity: bool) -> StatementWeights:
    """Return the weights for statements with or without similarities."""
    weights = json.loads(files(__package__).joinpath("statement_ranking.json").read_text(encoding="utf-8"))
    return StatementWeights(**weights["with_similarity" if similarity else "words_only"])


@dataclass(frozen=True)
class LabelQuestion:
    """A question to labels.

    Attributes:
        text: the question without the names of drugs.
        names_drug: whether it names one of the drugs, or there is only one.
    """

    text: str
    names_drug: bool

    @classmethod
    def read(cls, text: str, contexts: Sequence[Mapping[str, Any]], others: Sequence[str] = ()) -> LabelQuestion:
        """Read a question on the drugs of some contexts; a drug's name with a typing error is a name too.

        `others` are the names of further drugs in the question, which do not name its subject either.
        """
        names = [name for one in contexts for name in (one["title"], *one.get("moieties", ()))]
        known = {word for name in names for word in words_of(name)}
        named = {word for word in words_of(text) if word in known or any(_is_alike(word, name) for name in known)}
        left_out = named | {word for name in others for word in words_of(name)}
        bare = re.sub(r"[^\W_]+", lambda word: "" if left_out & {*words_of(word[0])} else word[0], text)
        one_drug = len({tuple(one.get("moieties", ())) for one in contexts}) == 1
        return cls(" ".join(bare.split()), bool(named) or one_drug)

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each stem: rare in labels, and rare in questions."""
        rarities = {word_stems(word)[0]: rarity(stem(word, "term")) for word in self._words}
        return {one: value * question_weight(one) for one, value in rarities.items() if one != NUMBER_STEM}

    @property
    def _words(self) -> list[str]:
        return re.findall(r"[a-z]+", self.text.lower())

    @cached_property
    def numbers(self) -> frozenset[str]:
        return _numbers(self.text)

    @cached_property
    def sections(self) -> dict[str, float]:
        """The probability of each group of sections that it answers the question."""
        return asked_sections(self.text)

    def share(self, stems: Iterable[str]) -> float:
        """Return the share of its stems, by weight, that are among some stems."""
        total = math.fsum(self.weights.values())
        return math.fsum(self.weights.get(one, 0.0) for one in sorted({*stems})) / total if total else 0.0


def _is_alike(word: str, name: str) -> bool:
    return len(name) > 4 and word[0] == name[0] and SequenceMatcher(None, word, name).ratio() >= _NAME


def _numbers(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\d+(?:\.\d+)?", text))


@dataclass(frozen=True)
class Candidate:
    """A statement of a context.

    Attributes:
        statement: the statement.
        context: the place of its context, from 0.
        number: the number of its context in citations.
        at: its place among the statements of the context.
        code: the LOINC code of the section.
        section: the titles of the section and of those around it.
        similarity: its cosine with the question.
    """

    statement: LabelStatement
    context: int
    number: int
    at: int
    code: str
    section: str
    similarity: float

    @cached_property
    def whole(self) -> str:
        """The statement with its items."""
        return "\n".join((self.statement.text, *self.statement.items))

    @cached_property
    def own(self) -> frozenset[str]:
        """The stems of the statement and its items."""
        return frozenset(word_stems(self.whole))

    @cached_property
    def headings(self) -> frozenset[str]:
        return frozenset(word_stems("\n".join(self.statement.heads)))

    @cached_property
    def titles(self) -> frozenset[str]:
        return frozenset(word_stems(self.section))

    @property
    def compared_text(self) -> str:
        """The text that an embedding model compares with the question: with the section and the heading above."""
        leaf = self.section.rsplit(" > ", 1)[-1]
        return f"{leaf}. {' '.join((*self.statement.heads[-1:], self.statement.text, *self.statement.items))}"


def read_candidates(contexts: Sequence[Mapping[str, Any]]) -> Iterator[Candidate]:
    """Yield the statements of contexts, in order; `similarities` of a context are pairs (place, similarity)."""
    for place, one in enumerate(contexts):
        similar = dict(one.get("similarities", ()))
        for at, statement in enumerate(parse_passage(one["text"])):
            code, section = one.get("section_code", ""), one["section"]
            yield Candidate(statement, place, one["n"], at, code, section, similar.get(at, 0.0))


def statement_features(asked: LabelQuestion, candidates: Sequence[Candidate]) -> Floats:
    """Return the features of statements, shape (statements, features)."""
    return np.array([_features(asked, one) for one in candidates], np.float64).reshape(-1, len(FEATURES))


def _features(asked: LabelQuestion, one: Candidate) -> tuple[float, ...]:
    own, headings = asked.share(one.own), asked.share(one.own | one.headings)
    others = sum(1 for word in one.own if word not in asked.weights) / max(1, len(one.own))
    return (
        one.context,
        own,
        headings - own,
        asked.share(one.own | one.headings | one.titles) - headings,
        len(asked.numbers & _numbers(one.whole)) / len(asked.numbers) if asked.numbers else 0.0,
        one.statement.is_row,
        bool(one.statement.items),
        others,
        math.log(asked.sections.get(SECTION_GROUPS.get(one.code, ""), 0.0) + _LEAST_PROBABILITY) if one.code else 0.0,
        one.code in PATIENT_SECTIONS,
        one.similarity,
    )


def statement_attributes(candidates: Sequence[Candidate]) -> Floats:
    """Return which attributes statements have, shape (statements, attributes)."""
    rows = [
        (
            any(character.isdigit() for character in one.whole),
            one.statement.is_row,
            bool(one.statement.items),
            len(one.whole) < _SHORT,
            *(unit in one.statement.units for unit in UNITS),
        )
        for one in candidates
    ]
    return np.array(rows, np.float64).reshape(-1, len(ATTRIBUTES))


def statement_scores(asked: LabelQuestion, candidates: Sequence[Candidate], weights: StatementWeights) -> Floats:
    """Return the score of each statement, shape (statements,): the logarithm of its odds, up to a constant."""
    attributes = np.array([weights.attributes[name] for name in ATTRIBUTES])
    for one in word_stems(asked.text):
        wanted = weights.asked.get(one, {})
        attributes += [wanted.get(name, 0.0) for name in ATTRIBUTES]
    features = statement_features(asked, candidates) @ np.array([weights.features[name] for name in FEATURES])
    scores: Floats = features + statement_attributes(candidates) @ attributes
    return scores


def answer_features(
    asked: LabelQuestion, candidates: Sequence[Candidate], scores: Floats, weights: StatementWeights
) -> Floats:
    """Return what tells whether the best of some statements, at least one, answers the question, shape (features,).

    - spread: the entropy of the statements' probabilities to answer, in nats.
    - told: the share of the question's stems that any statement, its headings or titles have; covered: that the best
      one has.
    - statements: the logarithm of their number, of `_FEWEST` at least; length: of the number of stems of the best one.
    - section: the probability that a question like this asks for the section of the best one.
    - similarity, mean similarity: the cosine of the best one with the question, and the mean of all.
    """
    best = candidates[int(scores.argmax())]
    padded = [_score_of_nothing(candidates, weights)] * max(0, _FEWEST - len(candidates))
    odds = np.exp(np.append(scores, padded) - scores.max())
    shares = odds / odds.sum()
    told = frozenset[str]().union(*(one.own | one.headings | one.titles for one in candidates))
    return np.array(
        (
            -float(shares @ np.log(shares + 1e-12)),
            asked.share(told),
            asked.share(best.own | best.headings | best.titles),
            math.log(max(_FEWEST, len(candidates))),
            asked.sections.get(SECTION_GROUPS.get(best.code, ""), 0.0),
            math.log1p(len(best.own)),
            best.similarity,
            float(np.mean([one.similarity for one in candidates])),
        )
    )


def _score_of_nothing(candidates: Sequence[Candidate], weights: StatementWeights) -> float:
    """Return the score of a statement that shares nothing with the question."""
    least = min(one.similarity for one in candidates)
    own = {"others": 1.0, "section": math.log(_LEAST_PROBABILITY), "similarity": least}
    return sum(weights.features[name] * value for name, value in own.items())


def answer_probability(
    asked: LabelQuestion, candidates: Sequence[Candidate], scores: Floats, weights: StatementWeights
) -> float:
    """Return the probability that the statements, at least one, answer the question."""
    found = answer_features(asked, candidates, scores, weights)
    total = weights.answer[""] + math.fsum(
        weights.answer[name] * float(value) for name, value in zip(ANSWER_FEATURES, found, strict=True)
    )
    return 1 / (1 + math.exp(-total))
