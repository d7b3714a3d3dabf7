"""BM25 as rank-bm25's BM25Okapi computes it, to the last bit, by an inverted index."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fdarx_core.retrieval.postings import Floats, Postings
from fdarx_core.retrieval.ranking import Integers, Ranked, batches, best

K1, B, EPSILON = 1.5, 0.75, 0.25


class Bm25Index:
    """The passages of one collection, ready to be asked.

    Every score is the sum that rank-bm25's `get_scores` makes, its terms added in the same order: equal as floats.
    Without a passage nothing is found, and passages without a single word all score 0; rank-bm25 divides by zero
    in both cases. Source: Robertson and Zaragoza 2009; rank-bm25 0.2.2 for the weights of terms in most passages.
    """

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        idf = _idf(postings.frequencies, postings.size)
        self._weights = idf[postings.terms] * _saturation(postings)
        self._idf = idf

    def top(self, queries: Sequence[str], k: int) -> list[Ranked]:
        """The k best passages for each question; those that share no word with it count, with score 0."""
        parts = batches(len(queries), self._postings.size)
        return [ranked for part in parts for ranked in best(self.scores(queries[part]), k)]

    def hits(self, queries: Sequence[str], k: int, allowed: npt.NDArray[np.bool_] | None = None) -> list[Ranked]:
        """As `top`, of those passages alone that share a word with the question, and are `allowed` where that is given.

        A shared word that is in half of the passages weighs nothing: its passages are hits, and may score 0.
        """
        found: list[Ranked] = []
        for part in batches(len(queries), self._postings.size):
            query_of, terms = self._postings.asked(queries[part])
            scores = self._postings.sums(self._weights, query_of, terms, len(queries[part]))
            shared = self._shared(query_of, terms, scores)
            found += [
                _best_of(row, hit if allowed is None else hit & allowed, k)
                for row, hit in zip(scores, shared, strict=True)
            ]
        return found

    def scores(self, queries: Sequence[str]) -> Floats:
        """Shape (questions, passages); a word that a question repeats counts again."""
        query_of, terms = self._postings.asked(queries)
        return self._postings.sums(self._weights, query_of, terms, len(queries))

    def _shared(self, query_of: Integers, terms: Integers, scores: Floats) -> npt.NDArray[np.bool_]:
        """Scores tell, unless terms weigh nothing, or more than that and less, so that they may cancel out."""
        if (self._idf[terms] > 0).all():
            return scores > 0
        return self._postings.sums(np.ones_like(self._weights), query_of, terms, len(scores)) > 0


def _best_of(scores: Floats, among: npt.NDArray[np.bool_], k: int) -> Ranked:
    positions = np.flatnonzero(among)
    [ranked] = best(scores[None, positions], k)
    return [(int(positions[at]), score) for at, score in ranked]


def _idf(frequencies: Integers, size: int) -> Floats:
    """By term in the order of first appearance; a term in more than half of the passages gets EPSILON × the mean."""
    levels = range(int(frequencies.max(initial=0)) + 1)
    table = np.array([math.log(size - level + 0.5) - math.log(level + 0.5) for level in levels])
    idf: Floats = table[frequencies]
    real = idf[frequencies > 0]
    if len(real):
        # cumsum adds one after the other, as rank-bm25 does; sum would not.
        idf[idf < 0] = EPSILON * (np.cumsum(real)[-1] / len(real))
    return idf


def _saturation(postings: Postings) -> Floats:
    counts, lengths = postings.counts, postings.lengths
    average = lengths.sum() / max(1, len(lengths))
    factors: Floats = counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths[postings.passages] / average))
    return factors
