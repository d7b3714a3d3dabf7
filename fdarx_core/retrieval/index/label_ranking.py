"""Ranking of the passages of labels for a question: a linear model whose weights are learned from marked questions.

The weights are in `label_ranking.json`. `python -m benchmarks.label_ranking` learns them from questions whose answers
are marked in labels, and measures them on drugs that it has not learned from.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from fdarx_core.labels.loinc import PATIENT_SECTIONS, SECTION_GROUPS
from fdarx_core.labels.question_sections import NUMBER_STEM, asked_sections, question_weight, word_stems
from fdarx_core.retrieval.lexical import K1, B, Floats, Integers, InvertedIndex

FEATURES = ("match", "coverage", "section", "patient", "numbers", "similarity")
"""What a passage is ranked by.

- match: BM25 over stems, with the frequencies among the passages that are ranked.
- coverage: the share of the question's stems, by weight, that the passage or the titles of its section have.
- section: the logarithm of the probability that a question like this asks for the passage's section.
- patient: 1 for a section that patients read.
- numbers: the share of the question's numbers that the passage has.
- similarity: the cosine with the question by the index's embedding model; 0 where there is none.
"""

_LEAST_PROBABILITY = 0.0025
"""Added to the probability of a section, so that no passage is ruled out by its section alone."""


@cache
def ranking_weights(*, similarity: bool) -> Mapping[str, float]:
    """Return the weight of each feature, for rankings with or without similarities."""
    weights = json.loads(files(__package__).joinpath("label_ranking.json").read_text(encoding="utf-8"))
    return dict(weights["with_similarity" if similarity else "words_only"])


class LabelRanker:
    """Ranks passages of labels for a question.

    Args:
        index: the inverted index of the passages, whose texts begin with the titles of their sections.
        codes: the LOINC code of the section of each passage, "" for none, shape (passages,).
    """

    def __init__(self, index: InvertedIndex, codes: npt.NDArray[np.str_]) -> None:
        self._index = index
        names, self._sections = np.unique(codes, return_inverse=True)
        self._groups = [SECTION_GROUPS.get(code, "") for code in names.tolist()]
        self._patient = np.array([code in PATIENT_SECTIONS for code in names.tolist()], np.float64)
        self._terms: defaultdict[str, list[int]] = defaultdict(list)
        for number, word in enumerate(index.vocabulary):
            for stem in word_stems(word)[:1]:
                self._terms[word if word.isdigit() else stem].append(number)

    def scores(self, question: str, positions: Integers, similarities: Floats | None = None) -> Floats:
        """Return the scores of passages for a question; higher is better.

        Args:
            question: the question, without the names of the drugs whose labels are searched.
            positions: the passages to rank, shape (n,). Words are weighed by their frequency among these.
            similarities: the cosine of each of them with the question, shape (n,); None for a ranking by words.

        Returns:
            Shape (n,).
        """
        weights = ranking_weights(similarity=similarities is not None)
        found = self.features(question, positions, similarities)
        scores: Floats = found @ np.array([weights[name] for name in FEATURES])
        return scores

    def features(self, question: str, positions: Integers, similarities: Floats | None = None) -> Floats:
        """Return the features of passages, shape (n, features); the arguments are those of `scores`."""
        stems = [stem for stem in dict.fromkeys(word_stems(question)) if stem != NUMBER_STEM]
        numbers = list(dict.fromkeys(re.findall(r"\d+", question)))
        counts = self._counts([*stems, *numbers], positions)
        of_words, of_numbers = counts[: len(stems)], counts[len(stems) :]
        has = of_words > 0
        frequencies, count = has.sum(axis=1), len(positions)
        rarity = np.log1p((count - frequencies + 0.5) / (frequencies + 0.5))
        weights = rarity * np.array([question_weight(stem) for stem in stems])
        lengths = self._index.lengths[positions]
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean()))) if count else lengths
        asked = asked_sections(question)
        sections = np.array([math.log(asked.get(group, 0.0) + _LEAST_PROBABILITY) for group in self._groups])
        columns = (
            weights @ (of_words * (K1 + 1) / (of_words + norm)),
            weights @ has / (weights.sum() or 1.0),
            sections[self._sections[positions]],
            self._patient[self._sections[positions]],
            (of_numbers > 0).mean(axis=0) if numbers else np.zeros(count),
            np.zeros(count) if similarities is None else similarities,
        )
        return np.column_stack(columns)

    def _counts(self, words: Sequence[str], positions: Integers) -> Floats:
        """Return how often passages have each stem or number, shape (words, passages)."""
        places = np.full(self._index.size, -1, np.int64)
        places[positions] = np.arange(len(positions))
        counts = np.zeros((len(words), len(positions)))
        for row, word in zip(counts, words, strict=True):
            for term in self._terms.get(word, ()):
                passages, times = self._index.postings(term)
                at = places[passages]
                row[at[at >= 0]] += times[at >= 0]
        return counts
