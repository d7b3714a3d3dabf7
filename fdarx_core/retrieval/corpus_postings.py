"""The words of a corpus in segments on disk: the postings of each segment, and the statistics of all.

A segment has the postings of consecutive texts. Its file is mapped into memory: processes of a machine share its pages,
and a process that searches holds no more than what it computes for one segment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.retrieval.lexical import (
    Floats,
    Integers,
    InvertedIndex,
    bm25_idf,
    length_penalties,
    log_counts,
    saturation,
    tfidf_idf,
    tokenize,
)
from fdarx_core.storage import Location
from fdarx_core.storage.mapped_files import Arrays, map_arrays, read_arrays, write_arrays

Numbers = npt.NDArray[np.integer[Any]]

_MERGED = ["words", "terms", "starts", "lengths"]
"""The arrays of a segment from which statistics are merged."""


def write_postings(location: Location, texts: Sequence[str]) -> None:
    """Write the postings of the texts of a segment.

    Terms are numbered by first appearance. `words` are sorted, and `terms` has the number of each. The postings of a
    term begin at its element of `starts` and end at the next; `passages` and `counts` have the text of each posting and
    how often that has the term. `lengths` is the number of words of each text. All are of the narrowest type: a posting
    takes 3 bytes where the segment has fewer than 65,536 texts.
    """
    index = InvertedIndex(texts)
    used = index.frequencies > 0
    words = pa.array(index.vocabulary, pa.large_string()).filter(pa.array(used))
    order = pc.sort_indices(words)
    arrays = {
        "words": words.take(order),
        "terms": _narrow(order.to_numpy()),
        "starts": _narrow(np.cumsum([0, *index.frequencies[used]])),
        "passages": _narrow(index.passages),
        "counts": _narrow(index.counts),
        "lengths": _narrow(index.lengths),
    }
    write_arrays(location, arrays)


def merge_statistics(segments: Iterable[Location], target: Location) -> None:
    """Write the statistics of a corpus from its segments, in order; in memory are their vocabularies alone.

    Terms of the corpus are numbered by first appearance, as in an index of all texts. `words` are sorted, and `terms`
    has the number of each. `frequencies` and `idf`, the weight in BM25, go by the numbers. `segment_terms` has the
    number in the corpus of each term of each segment. `sizes` is the number of texts of each segment, `length` that of
    all words.
    """
    words: list[pa.Array] = [pa.array([], pa.large_string())]
    frequencies, sizes, length = [np.empty(0, np.int64)], [], 0
    for place in segments:
        arrays = read_arrays(place, _MERGED)
        words.append(arrays["words"].take(pc.array_sort_indices(arrays["terms"])))
        starts = _numbers(arrays["starts"]).astype(np.int64)
        frequencies.append(starts[1:] - starts[:-1])
        sizes.append(len(arrays["lengths"]))
        length += int(_numbers(arrays["lengths"]).sum(dtype=np.int64))
    encoded = pa.concat_arrays(words).dictionary_encode()
    numbers = encoded.indices.to_numpy()
    totals = np.zeros(len(encoded.dictionary), np.int64)
    np.add.at(totals, numbers, np.concatenate(frequencies))
    order = pc.sort_indices(encoded.dictionary)
    merged = {
        "words": encoded.dictionary.take(order),
        "terms": _narrow(order.to_numpy()),
        "frequencies": _narrow(totals),
        "idf": bm25_idf(totals, sum(sizes)),
        "segment_terms": _narrow(numbers),
        "sizes": np.array(sizes, np.int64),
        "length": np.array([length], np.int64),
    }
    write_arrays(target, merged)


def _narrow(numbers: Numbers) -> Numbers:
    """Return numbers of at least 0 in the narrowest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return an array without copying it."""
    found: npt.NDArray[Any] = array.to_numpy(zero_copy_only=True)
    return found


class SortedWords(Sequence[bytes]):
    """Sorted words in a mapped file, which a binary search finds."""

    def __init__(self, words: pa.Array) -> None:
        _, offsets, data = words.buffers()
        self._size = len(words)
        self._offsets = np.frombuffer(offsets, np.int64) if self._size else np.zeros(1, np.int64)
        self._data = memoryview(data if data is not None else b"")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: Any) -> Any:
        return bytes(self._data[self._offsets[at] : self._offsets[at + 1]])

    def find(self, word: bytes) -> int | None:
        """Return the position of a word, None where it is not among them."""
        at = bisect_left(self, word)
        return at if at < self._size and self[at] == word else None


class Lookup(NamedTuple):
    """The words of queries that a corpus has, in order.

    Attributes:
        query_of: the number of the query of each.
        terms: its number in the corpus.
        words: the word of each number.
    """

    query_of: Integers
    terms: Integers
    words: dict[int, bytes]


class CorpusPostings:
    """The mapped statistics and segments of a corpus.

    Attributes:
        size: the number of texts.
        frequencies: the number of texts that have each term.
        idf: the weight of each term in BM25.
        average_length: the mean number of words of a text.
        segments: the segments, in order.
    """

    def __init__(self, statistics: Path, segments: Sequence[Path]) -> None:
        arrays = map_arrays(statistics)
        self._words, self._terms = SortedWords(arrays["words"]), _numbers(arrays["terms"])
        self.frequencies, self.idf = _numbers(arrays["frequencies"]), _numbers(arrays["idf"])
        sizes = _numbers(arrays["sizes"]).tolist()
        self.size = sum(sizes)
        self.average_length = int(arrays["length"][0].as_py()) / max(1, self.size)
        self.segments: list[PostingsSegment] = []
        start = first = 0
        for file, size in zip(segments, sizes, strict=True):
            segment = PostingsSegment(self, map_arrays(file), start, _numbers(arrays["segment_terms"])[first:])
            self.segments.append(segment)
            start, first = start + size, first + len(segment.words)

    def lookup(self, queries: Sequence[str]) -> Lookup:
        """Return the words of the queries that the corpus has."""
        found: dict[str, int | None] = {}
        query_of, terms = [], []
        for number, text in enumerate(queries):
            for word in tokenize(text):
                if word not in found:
                    at = self._words.find(word.encode())
                    found[word] = None if at is None else int(self._terms[at])
                if (term := found[word]) is not None:
                    query_of.append(number)
                    terms.append(term)
        words = {term: word.encode() for word, term in found.items() if term is not None}
        return Lookup(np.array(query_of, np.int64), np.array(terms, np.int64), words)

    def tfidf_idf(self, terms: Integers) -> Floats:
        """Return the idf in TF-IDF of terms, by their numbers in the corpus."""
        return tfidf_idf(self.frequencies[terms].astype(np.int64), self.size)


class Postings(NamedTuple):
    """The texts of a segment that have a term, by their numbers in the segment, and how often each has it."""

    passages: Integers
    counts: Floats


class PostingsSegment:
    """The mapped postings of the texts of a corpus from `start` on, `size` of them; `words` are those that occur."""

    def __init__(self, corpus: CorpusPostings, arrays: Arrays, start: int, corpus_terms: Numbers) -> None:
        self._average_length, self._tfidf_idf = corpus.average_length, corpus.tfidf_idf
        self.words, self._terms = SortedWords(arrays["words"]), _numbers(arrays["terms"])
        self._starts, self._passages, self._counts, self._lengths = (
            _numbers(arrays[name]) for name in ("starts", "passages", "counts", "lengths")
        )
        self.start, self.size = start, len(self._lengths)
        self._corpus_terms = corpus_terms[: len(self.words)]

    def postings(self, word: bytes) -> Postings | None:
        """Return the postings of a word, None where no text has it."""
        at = self.words.find(word)
        return None if at is None else self._of_term(int(self._terms[at]))

    def _of_term(self, term: int) -> Postings:
        own = slice(int(self._starts[term]), int(self._starts[term + 1]))
        return Postings(self._passages[own].astype(np.int64), self._counts[own].astype(np.float64))

    def bm25_penalties(self) -> Floats:
        """Return the length penalty of each text, which `bm25_weights` takes."""
        return length_penalties(self._lengths.astype(np.int64), self._average_length)

    def bm25_weights(self, found: Postings, idf: float, penalties: Floats) -> Floats:
        """Return what postings of a term with that weight add to the scores by BM25."""
        return idf * saturation(found.counts, penalties[found.passages])

    def tfidf_weights(self, found: Postings, idf: float) -> Floats:
        """Return what postings of a term with that idf add to the cosines, for a factor 1 in the query."""
        return log_counts(found.counts) * idf / self._norms[found.passages] * idf

    @cached_property
    def _norms(self) -> Floats:
        """The length of the TF-IDF vector of each text: squares are added in the order of the terms of the corpus."""
        squares, idf = np.zeros(self.size), self._tfidf_idf(self._corpus_terms.astype(np.int64))
        for term in np.argsort(self._corpus_terms).tolist():
            found = self._of_term(term)
            squares[found.passages] += (log_counts(found.counts) * idf[term]) ** 2
        norms: Floats = np.sqrt(squares)
        return norms
