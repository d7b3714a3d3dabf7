"""Multinomial naive Bayes over n-grams of words and of characters, in numpy.

The artifact audit needs a classifier whose results depend on nothing but its texts. Multinomial naive Bayes with
additive smoothing has no random state and no iterations. Source: Manning, Raghavan and Schütze 2008, §13.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fdarx_core.evaluation.metrics import Codes, Mask, Numbers

Numbered: TypeAlias = NDArray[np.int32]
"""Numbers of texts or features. Twenty thousand questions have millions of occurrences."""

CHARACTERS = (3, 4, 5)
"""Lengths of the n-grams of characters."""
_MOST_CHARACTERS = 6000
"""Different characters that have a code of their own, so that an n-gram of five fits into 63 bits."""
_SMOOTHING = 1.0


@dataclass(frozen=True, slots=True)
class FeatureOccurrences:
    """The occurrences of features in texts: occurrence k is one of feature `columns[k]` in text `rows[k]`.

    `texts` and `features` are the numbers of texts and of different features.
    """

    rows: Numbered
    columns: Numbered
    texts: int
    features: int

    @classmethod
    def of(cls, groups: Iterable[tuple[Codes, Codes]], texts: int) -> FeatureOccurrences:
        """Number the features of groups of occurrences, each the rows and the keys, which are equal for equal features.

        Groups have no feature in common. One is numbered at a time, because that takes several times its memory.
        """
        rows, columns, features = list[Numbered](), list[Numbered](), 0
        for places, keys in groups:
            found, numbers = np.unique(keys, return_inverse=True)
            rows.append(places.astype(np.int32))
            columns.append((numbers + features).astype(np.int32))
            features += len(found)
        return cls(np.concatenate(rows), np.concatenate(columns), texts, features)


def word_features(texts: Sequence[Sequence[str]]) -> FeatureOccurrences:
    """Return the words and the pairs of neighbouring words of texts, each a sequence of words."""
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    numbers = {word: at for at, word in enumerate(sorted({word for text in texts for word in text}))}
    words = np.fromiter((numbers[word] for text in texts for word in text), np.int64, len(rows))
    neighbours = np.flatnonzero(rows[:-1] == rows[1:])
    pairs = len(numbers) * (1 + words[neighbours]) + words[neighbours + 1]
    return FeatureOccurrences.of([(rows, words), (rows[neighbours], pairs)], len(texts))


def character_features(texts: Sequence[str]) -> FeatureOccurrences:
    """Return the n-grams of 3 to 5 characters of texts."""
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    points = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    alphabet, found = np.unique(points, return_inverse=True)
    base = min(len(alphabet), _MOST_CHARACTERS) + 1
    codes = np.minimum(found.astype(np.int64) + 1, base - 1)

    def of_length(length: int) -> tuple[Codes, Codes]:
        ends = len(rows) - length + 1
        starts = np.flatnonzero(rows[: max(ends, 0)] == rows[length - 1 :])
        key = np.zeros(len(starts), np.int64)  # codes are from 1, so that the key also tells the length
        for at in range(length):
            key = key * base + codes[starts + at]
        return rows[starts], key

    return FeatureOccurrences.of(map(of_length, CHARACTERS), len(texts))


def cross_fitted_scores(features: FeatureOccurrences, halves: Codes, classes: Codes, number: int) -> Numbers:
    """Return the joint log-probability of each text with each class, by the model of the texts of the other half.

    Args:
        features: the features of the texts.
        halves: the half of each text, 0 or 1. Both halves must have texts of every class.
        classes: the class of each text, from 0.
        number: the number of classes.

    Returns:
        Natural logarithms, shape (texts, classes). Features that the training texts do not have are ignored.
    """
    scores = np.zeros((features.texts, number))
    for half in (0, 1):
        tested = halves == half
        scores[tested] = _scores(features, ~tested, classes, number)[tested]
    return scores


def _scores(features: FeatureOccurrences, trained: Mask, classes: Codes, number: int) -> Numbers:
    """Return the joint log-probabilities of all texts by the model of the texts that `trained` marks."""
    learned = trained[features.rows]
    cells = features.columns[learned] * number + classes[features.rows[learned]]
    counts = np.bincount(cells, minlength=features.features * number).reshape(-1, number).astype(np.float64)
    known = counts.sum(axis=1) > 0
    smoothed = counts + _SMOOTHING
    weights = np.log(smoothed) - np.log(smoothed[known].sum(axis=0))
    weights[~known] = 0.0
    priors = np.bincount(classes[trained], minlength=number) / np.count_nonzero(trained)
    sums = [
        np.bincount(features.rows, weights=weights[features.columns, at], minlength=features.texts)
        for at in range(number)
    ]
    return np.asarray(np.column_stack(sums) + np.log(priors), np.float64)
