"""A corpus that is searched on disk: its rankings are those of one collection of all passages in memory.

Postings and vectors are read segment by segment, and the text of a passage only where it is returned.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fdarx_core.records import Passage, from_table
from fdarx_core.retrieval.corpus_postings import CorpusPostings, Lookup, Postings, PostingsSegment
from fdarx_core.retrieval.encoders import Vectors, WindowVectors
from fdarx_core.retrieval.lexical import (
    Floats,
    Integers,
    LexicalIndex,
    Mask,
    RankedList,
    Scores,
    count_terms,
    log_counts,
    query_norms,
    top_k,
)
from fdarx_core.retrieval.retrievers import Collection, passage_search_text
from fdarx_core.storage import Location
from fdarx_core.storage.mapped_files import map_arrays, map_table, write_arrays

_BLOCK_ROWS = 64
"""Vectors are filled up to a multiple of so many rows: libraries compute the products of the last rows of a matrix in
another way, whose last bits differ, so that equal passages would not tie."""
_ROWS_AT_ONCE = 1024
"""Passages that are read at a time where all are read."""


class _AskedTerms(NamedTuple):
    """The terms of a query in the order in which they are added, the factor of each, and the divisor of the sum."""

    terms: Sequence[int]
    factors: Sequence[float]
    norm: float = 1.0


class _Row(NamedTuple):
    """The scores of the texts of a segment for a query, and which share a word with it, None where not asked for."""

    scores: Floats
    matches: Mask | None


class SegmentedIndex(LexicalIndex):
    """Scores by the words of a corpus on disk, equal as floats to those of an index of all texts in memory."""

    def __init__(self, postings: CorpusPostings) -> None:
        self.size = postings.size
        self._postings = postings

    def scores(self, queries: Sequence[str]) -> Floats:
        """Return the scores of all passages, 8 bytes for each query and passage; `rank` holds those of a segment."""
        found = np.zeros((len(queries), self.size))
        for span, rows in self._scored(queries):
            for query, row in enumerate(rows):
                found[query, span] = row.scores
        return found

    def matches(self, queries: Sequence[str], scores: Floats) -> Mask:
        """Return which passages share a word with each query, shape (queries, passages)."""
        found = np.zeros(scores.shape, np.bool_)
        for span, rows in self._scored(queries, matching=True):
            for query, row in enumerate(rows):
                found[query, span] = row.matches
        return found

    def rank(
        self, queries: Sequence[str], k: int, allowed: Mask | None = None, *, matching_only: bool = False
    ) -> list[RankedList]:
        """See `LexicalIndex`."""
        best: list[RankedList] = [[] for _ in queries]
        for span, rows in self._scored(queries, matching=matching_only):
            own = None if allowed is None else allowed[span]
            for query, row in enumerate(rows):
                candidates = own if row.matches is None else row.matches if own is None else row.matches & own
                best[query] = _improved(best[query], row.scores, span.start, k, candidates)
        return best

    def _scored(self, queries: Sequence[str], *, matching: bool = False) -> Iterator[tuple[slice, Iterator[_Row]]]:
        """Yield the span of each segment with its row for each query, which must be consumed at once."""
        found = self._postings.lookup(queries)
        asked = self._asked(found, len(queries))
        for segment in self._postings.segments:
            span = slice(segment.start, segment.start + segment.size)
            yield span, self._rows(segment, asked, found.words, matching)

    def _rows(
        self, segment: PostingsSegment, asked: Sequence[_AskedTerms], words: dict[int, bytes], matching: bool
    ) -> Iterator[_Row]:
        postings = {term: segment.postings(word) for term, word in words.items()}
        weigh = self._weigher(segment)
        weighed = {term: (one.passages, weigh(term, one)) for term, one in postings.items() if one is not None}
        for terms, factors, norm in asked:
            scores = np.zeros(segment.size)
            matches = np.zeros(segment.size, np.bool_) if matching else None
            for term, factor in zip(terms, factors, strict=True):
                if term in weighed:
                    passages, weights = weighed[term]
                    scores[passages] += weights if factor == 1 else weights * factor
                    if matches is not None:
                        matches[passages] = True
            yield _Row(scores if norm == 1 else scores / norm, matches)

    @abstractmethod
    def _asked(self, found: Lookup, queries: int) -> list[_AskedTerms]:
        """Return the terms of each query."""

    @abstractmethod
    def _weigher(self, segment: PostingsSegment) -> Callable[[int, Postings], Floats]:
        """Return the function that gives what the postings of a term of the corpus add to the scores of a query."""


class SegmentedBm25(SegmentedIndex):
    """See `Bm25Index`."""

    def _asked(self, found: Lookup, queries: int) -> list[_AskedTerms]:
        terms = _split(found.terms, found.query_of, queries)
        return [_AskedTerms(own.tolist(), [1.0] * len(own)) for own in terms]

    def _weigher(self, segment: PostingsSegment) -> Callable[[int, Postings], Floats]:
        penalties = segment.bm25_penalties()
        return lambda term, postings: segment.bm25_weights(postings, self._postings.idf[term], penalties)


class SegmentedTfidf(SegmentedIndex):
    """See `TfidfIndex`."""

    def _asked(self, found: Lookup, queries: int) -> list[_AskedTerms]:
        query_of, terms, counts = count_terms(found.query_of, found.terms, len(self._postings.frequencies))
        factors = log_counts(counts)
        norms = query_norms(query_of, factors * self._postings.tfidf_idf(terms), queries)
        split = zip(_split(terms, query_of, queries), _split(factors, query_of, queries), norms.tolist(), strict=True)
        return [_AskedTerms(own.tolist(), weights.tolist(), norm) for own, weights, norm in split]

    def _weigher(self, segment: PostingsSegment) -> Callable[[int, Postings], Floats]:
        return lambda term, postings: segment.tfidf_weights(postings, self._postings.tfidf_idf(np.array([term]))[0])


def _split(values: npt.NDArray[Any], query_of: Integers, queries: int) -> list[npt.NDArray[Any]]:
    """Return the values of each query; those of a query follow one another, in the order of the queries."""
    return np.split(values, np.searchsorted(query_of, np.arange(1, queries))) if queries else []


def _improved(best: RankedList, scores: Scores, start: int, k: int, candidates: Mask | None) -> RankedList:
    """Return the k best of passages and of those of a later segment, whose scores are given.

    A passage that only ties with the last of k cannot get in: among equal scores the lowest position is first.
    """
    if k and len(best) == k:
        higher = scores > best[-1][1]
        candidates = higher if candidates is None else higher & candidates
    [found] = top_k(scores[None], k, candidates)
    if not found:
        return best
    return sorted([*best, *((start + at, score) for at, score in found)], key=lambda one: -one[1])[:k]


def write_vectors(location: Location, vectors: WindowVectors) -> None:
    """Write the vectors of the passages of a segment: `rows`, filled up with zeros, `dimensions` and `counts`."""
    dimensions = vectors.rows.shape[1]
    filled = np.zeros((-(-len(vectors.rows) // _BLOCK_ROWS) * _BLOCK_ROWS, dimensions), np.float32)
    filled[: len(vectors.rows)] = vectors.rows
    write_arrays(location, {"rows": filled.ravel(), "dimensions": np.array([dimensions]), "counts": vectors.counts})


class CorpusVectors:
    """The mapped vectors of the passages of a corpus by one encoder.

    Questions are compared one by one, so that a score does not depend on the number of questions or on the segments:
    the last bits of a product of matrices depend on their shapes.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._segments: list[tuple[int, WindowVectors]] = []
        for file in files:
            arrays = map_arrays(file)
            rows = arrays["rows"].to_numpy().reshape(-1, arrays["dimensions"][0].as_py())
            counts = arrays["counts"].to_numpy()
            windows = int(counts.sum())
            filling = [len(rows) - windows] if len(rows) > windows else []
            self._segments.append((len(counts), WindowVectors(rows, np.array([*counts, *filling], np.int64))))

    def nearest(self, queries: Vectors, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """See `Collection.nearest`."""
        best: list[RankedList] = [[] for _ in queries]
        start = 0
        for size, vectors in self._segments:
            own = None if allowed is None else allowed[start : start + size]
            for query, vector in enumerate(queries):
                scores = vectors.scores(vector[None])[0, :size]
                best[query] = _improved(best[query], scores, start, k, own)
            start += size
        return best


class CorpusPassages(Sequence[Passage]):
    """The passages of a corpus in mapped files, by position; those that are asked for are read."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._tables = [map_table(file) for file in files]
        self._starts = [0, *accumulate(len(table) for table in self._tables)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        position = range(len(self))[at]
        segment = bisect_right(self._starts, position) - 1
        [passage] = from_table(self._tables[segment].slice(position - self._starts[segment], 1), Passage)
        return passage

    def __iter__(self) -> Iterator[Passage]:
        for table in self._tables:
            for start in range(0, len(table), _ROWS_AT_ONCE):
                yield from from_table(table.slice(start, _ROWS_AT_ONCE), Passage)


class _SearchTexts(Sequence[str]):
    """The search texts of passages, each read at its use."""

    def __init__(self, passages: CorpusPassages) -> None:
        self._passages = passages

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, at: Any) -> Any:
        found = self._passages[at]
        return [passage_search_text(one) for one in found] if isinstance(at, slice) else passage_search_text(found)

    def __iter__(self) -> Iterator[str]:
        return map(passage_search_text, self._passages)


@dataclass
class CorpusCollection(Collection):
    """A collection whose postings are on disk; only `inverted_index` still reads all texts into memory."""

    postings: CorpusPostings = field(kw_only=True)

    @cached_property
    def bm25(self) -> LexicalIndex:
        return SegmentedBm25(self.postings)

    @cached_property
    def tfidf(self) -> LexicalIndex:
        return SegmentedTfidf(self.postings)


class CorpusFiles(NamedTuple):
    """The local files of a corpus: the statistics, and a file for each segment; vectors by encoder."""

    statistics: Path
    postings: Sequence[Path]
    passages: Sequence[Path]
    vectors: Mapping[str, Sequence[Path]]


def open_corpus(files: CorpusFiles) -> tuple[CorpusCollection, CorpusPassages]:
    """Map a corpus; return it with the passage at each of its positions. Raises StorageError for a damaged file."""
    passages = CorpusPassages(files.passages)
    searches = {name: CorpusVectors(own).nearest for name, own in files.vectors.items()}
    postings = CorpusPostings(files.statistics, files.postings)
    return CorpusCollection(_SearchTexts(passages), searches=searches, postings=postings), passages
