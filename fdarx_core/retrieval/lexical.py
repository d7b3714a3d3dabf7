"""Lexical search: the tokenizer, the inverted index, BM25, TF-IDF, and rankings from scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

RankedList = list[tuple[int, float]]
"""Positions in the collection with their scores, best first; among equal scores the lowest position first."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Scores = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

_BATCH_SCORES = 1 << 18
"""Scores computed at a time, questions by passages: 2 MiB, about the size of a core's cache."""
_FULL_SORT = 1024
"""Number of passages from which selecting the k best before sorting is faster than sorting all."""
_LOWERCASE = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256))

K1, B, EPSILON = 1.5, 0.75, 0.25
"""Parameters of BM25, as rank-bm25 sets them."""


def batches(questions: int, passages: int) -> Iterator[slice]:
    """Split the questions so that the scores of a batch for all passages fit in a core's cache."""
    step = max(1, _BATCH_SCORES // max(1, passages))
    return (slice(start, start + step) for start in range(0, questions, step))


def top_k(scores: Scores, k: int, candidates: Mask | None = None) -> list[RankedList]:
    """Return the k highest scores of each row, all where there are fewer.

    Args:
        scores: shape (questions, passages).
        k: how many passages to return for each question.
        candidates: shape (passages,) or (questions, passages); the passages that may be returned, None for all.
    """
    if candidates is not None:
        rankings: list[RankedList] = []
        for row, mask in zip(scores, np.broadcast_to(candidates, scores.shape), strict=True):
            positions = np.flatnonzero(mask)
            [ranked] = top_k(row[None, positions], k)
            rankings.append([(int(positions[at]), score) for at, score in ranked])
        return rankings
    k, keys = min(k, scores.shape[1]), -scores
    if k == 0 or keys.shape[1] < _FULL_SORT:
        order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    else:
        limits = np.partition(keys, k - 1, axis=1)[:, k - 1]
        rows = [np.flatnonzero(row <= limit) for row, limit in zip(keys, limits, strict=True)]
        chosen = [among[np.argsort(row[among], kind="stable")][:k] for row, among in zip(keys, rows, strict=True)]
        order = np.array(chosen, dtype=np.int64).reshape(-1, k)
    best = np.take_along_axis(scores, order, axis=1)
    return [list(zip(*row, strict=True)) for row in zip(order.tolist(), best.tolist(), strict=True)]


def tokenize(text: str) -> list[str]:
    """Split a text into lower-case runs of ASCII letters and digits: "2.5 mg/mL" gives 2, 5, mg, ml.

    There is no stemming and no list of stop words: the weights of terms account for frequent words. Other letters
    separate words; they are one character in 4,000 of a label, and separate alike in questions and passages.
    """
    return _to_ascii(text).decode("ascii").split()


class InvertedIndex:
    """The terms of a collection of texts, with the texts that contain each.

    A posting is a term in a text that contains it; postings are sorted by term, then text. `terms`, `passages` and
    `counts` (occurrences of the term in the text) have one element for each posting. `frequencies` is the number of
    texts that contain a term, by term in the order of first appearance; `lengths` the number of words of each text.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.size = len(texts)
        words, passage_of = _split_words(texts)
        encoded = words.dictionary_encode()
        self._vocabulary = encoded.dictionary
        numbers = encoded.indices.to_numpy()
        is_word = numbers != pc.index(self._vocabulary, "").as_py()
        numbers, passage_of = numbers[is_word], passage_of[is_word]
        bits = self.size.bit_length()  # to divide all keys takes longer than to sort them
        keys = (numbers.astype(np.int64) << bits) | passage_of
        keys.sort()
        firsts = np.flatnonzero(np.diff(keys, prepend=-1))
        distinct = keys[firsts]
        self.terms: Integers = distinct >> bits
        self.passages: Integers = distinct & ((1 << bits) - 1)
        self.counts: Integers = np.diff(firsts, append=len(keys))
        self.frequencies: Integers = np.bincount(self.terms, minlength=len(self._vocabulary))
        self.lengths: Integers = np.bincount(passage_of, minlength=self.size)
        self._starts = np.cumsum(self.frequencies) - self.frequencies

    def lookup(self, queries: Sequence[str]) -> tuple[Integers, Integers]:
        """Return, for each word of the queries that the collection has, in order, its query and its term."""
        asked = [tokenize(text) for text in queries]
        query_of = np.repeat(np.arange(len(queries)), [len(words) for words in asked])
        numbers = np.array([self._terms.get(word, -1) for words in asked for word in words], dtype=np.int64)
        return query_of[numbers >= 0], numbers[numbers >= 0]

    def with_all(self, words: Iterable[str]) -> Mask:
        """Return which texts have all of the words, shape (texts,)."""
        having = np.ones(self.size, np.bool_)
        for word in words:
            has = np.zeros(self.size, np.bool_)
            if (term := self._terms.get(word)) is not None:
                has[self.passages[self._starts[term] : self._starts[term] + self.frequencies[term]]] = True
            having &= has
        return having

    @property
    def vocabulary(self) -> list[str]:
        """The word of each term."""
        return list(self._vocabulary.to_pylist())

    @cached_property
    def _terms(self) -> dict[str, int]:
        """Terms by word."""
        return {word: number for number, word in enumerate(self.vocabulary) if word}

    def sum_weights(
        self, weights: Floats, query_of: Integers, terms: Integers, queries: int, factors: Floats | None = None
    ) -> Floats:
        """Add up the `weights` of the postings of each query's `terms`, in the order of the terms.

        Args:
            weights: one weight for each posting.
            query_of, terms: as `lookup` returns them.
            queries: number of queries.
            factors: a factor for each element of `terms`; None for 1.

        Returns:
            Shape (queries, passages).
        """
        totals = np.zeros((queries, self.size))
        for at, (query, term) in enumerate(zip(query_of.tolist(), terms.tolist(), strict=True)):
            own = slice(self._starts[term], self._starts[term] + self.frequencies[term])
            totals[query][self.passages[own]] += weights[own] if factors is None else weights[own] * factors[at]
        return totals


def _to_ascii(text: str) -> bytes:
    """Return the text in lower case, with a space for every character that is no ASCII letter or digit."""
    return text.encode("ascii", "replace").translate(_LOWERCASE)


def _split_words(texts: Sequence[str]) -> tuple[pa.Array, Integers]:
    """Return all words of the texts, in order, and for each the number of its text; "" between two spaces.

    Arrow splits and counts the words without a Python object for each, in half the time. All texts are converted at
    once, since every character becomes one byte.
    """
    texts = list(texts)
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    buffers = (pa.py_buffer(ends), pa.py_buffer(_to_ascii("".join(texts))))
    split = pc.ascii_split_whitespace(pa.LargeStringArray.from_buffers(len(texts), *buffers))
    return split.flatten(), np.repeat(np.arange(len(texts)), np.diff(split.offsets.to_numpy()))


class LexicalIndex:
    """Ranks the texts of a collection by the words that they share with queries.

    Args:
        index: the inverted index of the texts.
        idf: the weight of each term in a query.
        weights: the weight of each posting.
    """

    def __init__(self, index: InvertedIndex, idf: Floats, weights: Floats) -> None:
        self._index, self._idf, self._weights = index, idf, weights

    def scores(self, queries: Sequence[str]) -> Floats:
        """Return the scores, shape (queries, passages); a word that a query repeats counts again."""
        query_of, terms = self._index.lookup(queries)
        return self._index.sum_weights(self._weights, query_of, terms, len(queries))

    def matches(self, queries: Sequence[str], scores: Floats) -> Mask:
        """Return which passages share a word with each query, from their scores; shape (queries, passages).

        A term that is in half of the passages has the weight 0 by BM25, so that a passage may match and score 0.
        """
        query_of, terms = self._index.lookup(queries)
        if (self._idf[terms] > 0).all():
            return scores > 0
        return self._index.sum_weights(np.ones_like(self._weights), query_of, terms, len(scores)) > 0

    def rank(
        self, queries: Sequence[str], k: int, allowed: Mask | None = None, *, matching_only: bool = False
    ) -> list[RankedList]:
        """Return the k best passages for each query.

        Args:
            queries: the queries.
            k: how many passages to return; fewer where there are no more.
            allowed: shape (passages,); the passages that may be returned, None for all.
            matching_only: whether passages that share no word with the query are left out.
        """
        rankings: list[RankedList] = []
        for part in batches(len(queries), self._index.size):
            scores, candidates = self.scores(queries[part]), allowed
            if matching_only:
                matches = self.matches(queries[part], scores)
                candidates = matches if allowed is None else matches & allowed
            rankings += top_k(scores, k, candidates)
        return rankings


def bm25_index(index: InvertedIndex, idf: Floats | None = None) -> LexicalIndex:
    """Return the texts of an inverted index with BM25 scores.

    Every score is equal, as a float, to what rank-bm25's BM25Okapi computes: the same terms are added in the same
    order. rank-bm25 divides by zero where there is no passage or no word; here such passages score 0.
    Source: Robertson and Zaragoza 2009; rank-bm25 0.2.2 for terms that are in more than half of the passages.

    Args:
        index: the inverted index.
        idf: the weight of each term, by default that of rank-bm25.
    """
    idf = _okapi_idf(index.frequencies, index.size) if idf is None else idf
    average = int(index.lengths.sum()) / max(1, index.size)
    penalties = K1 * (1 - B + B * index.lengths.astype(np.float64) / (average or 1.0))
    saturation = index.counts * (K1 + 1) / (index.counts + penalties[index.passages])
    return LexicalIndex(index, idf, idf[index.terms] * saturation)


def _okapi_idf(frequencies: Integers, size: int) -> Floats:
    """Return the weight of each term; a term in more than half of the passages gets EPSILON times the mean weight.

    Args:
        frequencies: the number of passages that have each term, by term in the order of first appearance, in which
            rank-bm25 adds up the weights for their mean.
        size: the number of passages.
    """
    levels = np.flatnonzero(np.bincount(frequencies))
    table = np.zeros(int(frequencies.max(initial=0)) + 1)
    table[levels] = [math.log(size - level + 0.5) - math.log(level + 0.5) for level in levels.tolist()]
    idf: Floats = table[frequencies]
    in_use = idf[frequencies > 0]
    if len(in_use):
        # cumsum adds one after the other, as rank-bm25 does; sum would not
        idf[idf < 0] = EPSILON * (np.cumsum(in_use)[-1] / len(in_use))
    return idf


class TfidfIndex(LexicalIndex):
    """TF-IDF cosines of the texts of an inverted index.

    A text is a vector of (1 + ln tf) · (ln((1 + N) / (1 + df)) + 1), scaled to length 1.
    Source: Salton and Buckley 1988, with the smoothed idf of scikit-learn's TfidfVectorizer.
    """

    def __init__(self, index: InvertedIndex) -> None:
        idf: Floats = np.log((1 + index.size) / (1 + index.frequencies)) + 1
        weights = (1 + np.log(index.counts)) * idf[index.terms]
        norms = np.sqrt(np.bincount(index.passages, weights**2, minlength=index.size))
        super().__init__(index, idf, weights / norms[index.passages] * idf[index.terms])

    def scores(self, queries: Sequence[str]) -> Floats:
        """Return the cosines over the words that the collection has, shape (queries, passages)."""
        query_of, terms = self._index.lookup(queries)
        keys, counts = np.unique(query_of * np.int64(max(1, len(self._idf))) + terms, return_counts=True)
        query_of, terms = np.divmod(keys, max(1, len(self._idf)))
        factors = 1 + np.log(counts)
        norms = np.sqrt(np.bincount(query_of, (factors * self._idf[terms]) ** 2, minlength=len(queries)))
        scores = self._index.sum_weights(self._weights, query_of, terms, len(queries), factors)
        return scores / np.where(norms > 0, norms, 1.0)[:, None]
