"""Which passages hold which words how often: what scoring by words rests on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.retrieval.ranking import Integers

Floats = npt.NDArray[np.float64]

_LONG = 500
"""Postings a term from which adding them term by term is quicker than all at once, which moves each of them twice."""

_LOWERED = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256))


def tokenize(text: str) -> list[str]:
    """Lower-case runs of ASCII letters and digits, in order: "2.5 mg/mL" gives 2, 5, mg, ml.

    Neither stemmed nor rid of stop words: the weights of terms see to those. Other letters part words: they are one in
    4,000 of a label's, and so split alike in question and passage.
    """
    return _spaced(text).decode("ascii").split()


class Postings:
    """An inverted index of one collection.

    A posting is a term in a passage that has it, by term and then passage: `terms`, `passages` and `counts` (how often)
    position by position. `frequencies` are the passages that have a term, by term in the order of first appearance;
    `lengths` the words of each passage.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.size = len(texts)
        words, passage_of = _words(texts)
        encoded = words.dictionary_encode()
        self._vocabulary = encoded.dictionary
        numbers = encoded.indices.to_numpy()
        filled = numbers != pc.index(self._vocabulary, "").as_py()
        numbers, passage_of = numbers[filled], passage_of[filled]
        self.terms, self.passages, self.counts = _postings(numbers, passage_of, self.size)
        self.frequencies: Integers = np.bincount(self.terms, minlength=len(self._vocabulary))
        self.lengths: Integers = np.bincount(passage_of, minlength=self.size)
        self._starts = np.cumsum(self.frequencies) - self.frequencies

    def asked(self, queries: Sequence[str]) -> tuple[Integers, Integers]:
        """The words of the queries that the collection has, in order: of each its query and its term."""
        if sum(map(len, queries)) < len(self._vocabulary):
            return self._looked_up(queries)
        words, query_of = _words(queries)
        numbers = pc.index_in(words, value_set=self._vocabulary).fill_null(-1).to_numpy()
        known = numbers >= 0
        return query_of[known], numbers[known]

    def _looked_up(self, queries: Sequence[str]) -> tuple[Integers, Integers]:
        found = [(query, self._terms.get(word)) for query, text in enumerate(queries) for word in tokenize(text)]
        known = np.array([pair for pair in found if pair[1] is not None], dtype=np.int64).reshape(-1, 2)
        return known[:, 0], known[:, 1]

    @cached_property
    def _terms(self) -> dict[str, int]:
        """Terms by word, for an index that is asked over and over; `index_in` hashes all words at each call."""
        return {word: number for number, word in enumerate(self._vocabulary.to_pylist()) if word}

    def sums(
        self, weights: Floats, query_of: Integers, terms: Integers, queries: int, times: Floats | None = None
    ) -> Floats:
        """Shape (queries, passages): the `weights` of the postings of each query's `terms`, added up in their order.

        `times` weighs each term of a query, all alike without it.
        """
        lengths = self.frequencies[terms]
        if lengths.sum() > _LONG * len(terms):
            return self._term_by_term(weights, query_of, terms, queries, times)
        shifts = self._starts[terms] - np.cumsum(lengths) + lengths
        postings = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        cells = np.repeat(query_of * self.size, lengths) + self.passages[postings]
        told = weights[postings] if times is None else weights[postings] * np.repeat(times, lengths)
        totals = np.bincount(cells, told, minlength=queries * self.size)
        return totals.astype(np.float64, copy=False).reshape(queries, self.size)

    def _term_by_term(
        self, weights: Floats, query_of: Integers, terms: Integers, queries: int, times: Floats | None
    ) -> Floats:
        totals = np.zeros((queries, self.size))
        for at, (query, term) in enumerate(zip(query_of.tolist(), terms.tolist(), strict=True)):
            own = slice(self._starts[term], self._starts[term] + self.frequencies[term])
            totals[query][self.passages[own]] += weights[own] if times is None else weights[own] * times[at]
        return totals


def _spaced(text: str) -> bytes:
    """The text's words in lower case, with a space for every other character; "replace" gives "?"."""
    return text.encode("ascii", "replace").translate(_LOWERED)


def _words(texts: Sequence[str]) -> tuple[pa.Array, Integers]:
    """All words of the texts one after the other, and for each the number of its text; "" between two spaces too.

    As Arrow strings they are parted and counted without an object a word, which takes half the time; all texts are
    made plain at once, since every character becomes one byte.
    """
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    buffers = (pa.py_buffer(ends), pa.py_buffer(_spaced("".join(texts))))
    parted = pc.ascii_split_whitespace(pa.LargeStringArray.from_buffers(len(texts), *buffers))
    return parted.flatten(), np.repeat(np.arange(len(texts)), np.diff(parted.offsets.to_numpy()))


def _postings(terms: Any, passage_of: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """For every term in every passage that has it, by term and then passage: term, passage, how often."""
    keys = terms * np.int64(size) + passage_of
    keys.sort()
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    terms, passages = np.divmod(keys[firsts], max(1, size))
    return terms, passages, np.diff(firsts, append=len(keys))
