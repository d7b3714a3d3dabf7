"""TF-IDF cosine: the vector space model, the oldest of all baselines of retrieval, which needs no weights either."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fdarx_core.retrieval.postings import Floats, Postings
from fdarx_core.retrieval.ranking import Integers, Ranked, batches, best


class TfidfIndex:
    """The passages of one collection as vectors of (1 + ln tf) · (ln((1 + N) / (1 + df)) + 1), of length 1.

    Source: Salton and Buckley 1988, with the smoothed idf of scikit-learn's TfidfVectorizer.
    """

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        self._idf: Floats = np.log((1 + postings.size) / (1 + postings.frequencies)) + 1
        weights = (1 + np.log(postings.counts)) * self._idf[postings.terms]
        norms = np.sqrt(np.bincount(postings.passages, weights**2, minlength=postings.size))
        self._weights: Floats = weights / norms[postings.passages] * self._idf[postings.terms]

    def top(self, queries: Sequence[str], k: int) -> list[Ranked]:
        """The k best passages for each question; those that share no word with it count, with score 0."""
        parts = batches(len(queries), self._postings.size)
        return [ranked for part in parts for ranked in best(self.scores(queries[part]), k)]

    def scores(self, queries: Sequence[str]) -> Floats:
        """Shape (questions, passages): cosines, over the words that the collection has."""
        query_of, terms, counts = _counted(*self._postings.asked(queries), len(self._idf))
        told = 1 + np.log(counts)
        norms = np.sqrt(np.bincount(query_of, (told * self._idf[terms]) ** 2, minlength=len(queries)))
        scores = self._postings.sums(self._weights, query_of, terms, len(queries), told)
        return scores / np.where(norms > 0, norms, 1)[:, None]


def _counted(query_of: Integers, terms: Integers, vocabulary: int) -> tuple[Integers, Integers, Integers]:
    """Each query's distinct terms, and how often it has them."""
    keys, counts = np.unique(query_of * np.int64(max(1, vocabulary)) + terms, return_counts=True)
    queries, distinct = np.divmod(keys, max(1, vocabulary))
    return queries, distinct, counts
