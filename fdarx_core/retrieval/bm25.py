"""BM25 as rank-bm25's BM25Okapi computes it, to the last bit, by an inverted index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.retrieval.ranking import Integers, Ranked, batches, best

K1, B, EPSILON = 1.5, 0.75, 0.25

Floats = npt.NDArray[np.float64]

_OTHERS = bytes(code for code in range(256) if not (code < 128 and chr(code).isalnum()))
_LOWERED = bytes(32 if code in _OTHERS else ord(chr(code).lower()) for code in range(256))


def tokenize(text: str) -> list[str]:
    """Lower-case runs of ASCII letters and digits, in order: "2.5 mg/mL" gives 2, 5, mg, ml.

    Neither stemmed nor rid of stop words: BM25's weights see to those. Every other character parts words, µ and β too:
    they are in one of 4,000 words of a label, and question and passage are parted alike.
    """
    return _ascii(text).translate(_LOWERED).decode("ascii").split()


def _ascii(text: str) -> bytes:
    """One byte for every character, "?" for those that ASCII lacks."""
    return text.encode("ascii", "replace")


class Bm25Index:
    """The passages of one collection, ready to be asked.

    Every score is the sum that rank-bm25's `get_scores` makes, its terms added in the same order: equal as floats.
    Without a passage nothing is found, and passages without a single word all score 0; rank-bm25 divides by zero
    in both cases. Source: Robertson and Zaragoza 2009; rank-bm25 0.2.2 for the weights of terms in most passages.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._size = len(texts)
        words, passage_of = _words(texts)
        encoded = words.dictionary_encode()
        self._terms = encoded.dictionary
        terms, self._passages, counts = _postings(encoded.indices.to_numpy(), passage_of, self._size)
        self._frequencies = np.bincount(terms, minlength=len(self._terms))
        self._starts = np.cumsum(self._frequencies) - self._frequencies
        lengths = np.bincount(passage_of, minlength=self._size)
        self._weights = _idf(self._frequencies, self._size)[terms] * _saturation(counts, lengths, self._passages)

    def top(self, queries: Sequence[str], k: int) -> list[Ranked]:
        """The k best passages for each question; those that share no word with it count, with score 0."""
        asked, query_of = self._find(queries)
        found: list[Ranked] = []
        for part in batches(len(queries), self._size):
            words = slice(*np.searchsorted(query_of, (part.start, part.stop)))
            count = len(queries[part])
            found += best(self._sums(asked[words], query_of[words] - part.start, count), k)
        return found

    def scores(self, queries: Sequence[str]) -> Floats:
        """Shape (questions, passages)."""
        return self._sums(*self._find(queries), len(queries))

    def _find(self, queries: Sequence[str]) -> tuple[Integers, Integers]:
        """The terms asked for, in order, and for each the number of its question; unknown words are left out."""
        words, query_of = _words(queries)
        numbers = pc.index_in(words, value_set=self._terms).fill_null(-1).to_numpy()
        known = numbers >= 0
        return numbers[known], query_of[known]

    def _sums(self, asked: Integers, query_of: Integers, count: int) -> Floats:
        lengths = self._frequencies[asked]
        shifts = self._starts[asked] - np.cumsum(lengths) + lengths
        postings = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        cells = np.repeat(query_of * self._size, lengths) + self._passages[postings]
        # bincount adds up in the order given: question by question, word by word, as get_scores does.
        totals = np.bincount(cells, self._weights[postings], minlength=count * self._size)
        return totals.astype(np.float64, copy=False).reshape(count, self._size)


def _words(texts: Sequence[str]) -> tuple[pa.Array, Integers]:
    """The words of all texts one after the other, as `tokenize` gives them, and for each the number of its text.

    As Arrow strings, cut at the edges of words in all texts at once: an object a word would take twice the time.
    """
    joined = _ascii("\n".join(texts))
    inside = np.frombuffer(joined.translate(_LOWERED), np.uint8) != ord(" ")
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    offsets = np.concatenate([[0], np.cumsum(ends - starts)])
    words = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(offsets), pa.py_buffer(joined.translate(_LOWERED, _OTHERS))
    )
    text_ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    counts = np.diff(np.searchsorted(starts, text_ends), prepend=0)
    return words, np.repeat(np.arange(len(texts)), counts)


def _postings(terms: Any, passage_of: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """For every term in every passage that has it, by term and then passage: term, passage, how often."""
    keys = terms * np.int64(size) + passage_of
    keys.sort()
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    terms, passages = np.divmod(keys[firsts], max(1, size))
    return terms, passages, np.diff(firsts, append=len(keys))


def _idf(frequencies: Integers, size: int) -> Floats:
    """By term in the order of first appearance; a term in more than half of the passages gets EPSILON × the mean."""
    levels = range(int(frequencies.max(initial=0)) + 1)
    table = np.array([math.log(size - level + 0.5) - math.log(level + 0.5) for level in levels])
    idf: Floats = table[frequencies]
    if len(idf):
        # cumsum adds one after the other, as rank-bm25 does; sum would not.
        idf[idf < 0] = EPSILON * (np.cumsum(idf)[-1] / len(idf))
    return idf


def _saturation(counts: Integers, lengths: Integers, passages: Integers) -> Floats:
    average = lengths.sum() / max(1, len(lengths))
    norms = K1 * (1 - B + B * lengths / (average or 1.0))
    factors: Floats = counts * (K1 + 1) / (counts + norms[passages])
    return factors
