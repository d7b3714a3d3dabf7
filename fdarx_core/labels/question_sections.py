"""Which section of a label answers a question: a naive Bayes model of questions that people wrote for each section.

The questions are in `question_sections.tsv`: the LOINC code of the section that answers, "" where no section of a label
does, the writer, and the question, in which DRUG stands for a name. The writers read no label and no code.
`benchmarks/question_sections.py` measures the model on questions of a writer whom it has not learned from.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from nltk.stem.porter import PorterStemmer

from fdarx_core.labels.loinc import SECTION_GROUPS

NO_SECTION = ""
"""The code for what no section of a label answers."""
DRUG = "DRUG"
"""What stands for the name of a drug."""
NUMBER_STEM = "0"
"""What stands for a run of digits among stems."""

_ADDED = 0.05
"""Added to the counts of features (Lidstone smoothing)."""
_SCALE = 0.5
"""The factor of the log probabilities: features of one question depend on each other, and count too much without it."""
_WORD = re.compile(r"[a-z]+|\d+")
_SHORTEST_STEM = 3
"""Letters of a stem that is not cut further."""


class WrittenQuestion(NamedTuple):
    """A question that somebody wrote for a section: its group (`SECTION_GROUPS`), the writer, and the question."""

    group: str
    writer: str
    text: str


@cache
def written_questions() -> tuple[WrittenQuestion, ...]:
    """Return the questions of `question_sections.tsv`."""
    lines = files(__package__).joinpath("question_sections.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return tuple(WrittenQuestion(SECTION_GROUPS.get(code, NO_SECTION), writer, text) for code, writer, text in rows)


_porter = PorterStemmer().stem


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """Return the Porter stem of a word, without "-age" and a final "e": "dosage", "dose" and "dosing" have one stem."""
    stem: str = _porter(word)
    return stem.removesuffix("ag").removesuffix("e") if len(stem) > _SHORTEST_STEM else stem


def word_stems(text: str) -> list[str]:
    """Return the stems (Porter) of the words of a text in order, `NUMBER_STEM` for a run of digits, without DRUG."""
    words = _WORD.findall(text.replace(DRUG, " ").lower())
    return [NUMBER_STEM if word[0].isdigit() else _stem(word) for word in words]


@cache
def _question_frequencies() -> tuple[Counter[str], int]:
    """Return in how many of the written questions each stem is, and how many there are."""
    questions = written_questions()
    return Counter(stem for one in questions for stem in {*word_stems(one.text)}), len(questions)


def question_weight(stem: str) -> float:
    """Return how much a stem tells of what a question asks for, from 0 (all questions have it) to 1 (none has it)."""
    frequencies, questions = _question_frequencies()
    return 1 - math.log1p(frequencies[stem]) / math.log1p(questions)


def _features(text: str) -> Counter[str]:
    """Return how often a text has each stem and each two stems in a row."""
    stems = word_stems(text)
    return Counter([*stems, *map(" ".join, pairwise(stems))])


class SectionClassifier:
    """A multinomial naive Bayes model of questions, with stems and pairs of stems as features.

    Args:
        questions: the questions to learn from.

    Attributes:
        groups: the groups of sections that it knows, with `NO_SECTION`.
    """

    def __init__(self, questions: Iterable[WrittenQuestion]) -> None:
        counted = [(one.group, _features(one.text)) for one in questions]
        self.groups: list[str] = sorted({group for group, _ in counted})
        numbers = {group: at for at, group in enumerate(self.groups)}
        self._features = {name: at for at, name in enumerate(sorted({name for _, one in counted for name in one}))}
        totals = np.full((len(self._features), len(self.groups)), _ADDED)
        for group, one in counted:
            for name, count in one.items():
                totals[self._features[name], numbers[group]] += 1 + np.log(count)
        priors = np.bincount([numbers[group] for group, _ in counted], minlength=len(self.groups))
        self._priors = np.log(priors / max(1, len(counted)))
        self._weights: npt.NDArray[np.float32] = np.log(totals / totals.sum(axis=0)).astype(np.float32)

    def probabilities(self, question: str) -> dict[str, float]:
        """Return the probability of each group that it answers a question, in which names of drugs are left out."""
        known = [
            (at, count) for name, count in _features(question).items() if (at := self._features.get(name, -1)) >= 0
        ]
        counts = np.array([count for _, count in known], np.float64)
        logs = self._priors + (1 + np.log(counts)) @ self._weights[[at for at, _ in known]]
        odds = np.exp(_SCALE * (logs - logs.max()))
        return dict(zip(self.groups, (odds / odds.sum()).tolist(), strict=True))


@cache
def _classifier() -> SectionClassifier:
    return SectionClassifier(written_questions())


@lru_cache(maxsize=1024)
def _asked(question: str) -> tuple[tuple[str, float], ...]:
    return tuple(_classifier().probabilities(question).items())


def asked_sections(question: str) -> dict[str, float]:
    """Return the probability of each group of sections (`SECTION_GROUPS`) that it answers a question.

    Args:
        question: the question, at best without the names of drugs.

    Returns:
        By LOINC code; `NO_SECTION` has the probability that no section of a label answers.
    """
    return dict(_asked(question))
