"""Which passages have a word in any of its forms, a phrase, or what an abbreviation stands for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from nltk.stem.porter import PorterStemmer

from fdarx_core.labels.abbreviations import long_forms
from fdarx_core.retrieval.lexical import InvertedIndex, Mask, tokenize

_PREFIX = 3
"""Letters that all forms of a word share."""
_INTRODUCTIONS = 400
"""Passages that are read for what an abbreviation stands for."""

_SHORTEST_PART = 5
"""Letters of the shortest part of a compound."""
_ALIKE = 0.85
"""The share of the letters of the longer of two stems that the other begins with, if both are forms of a word."""

_stem = lru_cache(maxsize=1 << 16)(PorterStemmer().stem)


def _alike(one: str, other: str) -> bool:
    """Return whether two stems are the same, or begin with nearly all of the same letters."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one == other or (shared > _SHORTEST_PART and shared >= _ALIKE * max(len(one), len(other)))


class PassageWords:
    """The words of the passages of an index.

    Args:
        index: the inverted index of the passages.
        texts: the text of each passage.
        within: which passages are searched, shape (passages,).

    Attributes:
        long_forms: a function from a word to what it stands for as an abbreviation in the passages, in lower case.
    """

    def __init__(self, index: InvertedIndex, texts: pa.ChunkedArray, within: Mask) -> None:
        self._index, self._texts, self._within = index, texts, within
        self._words = sorted(filter(None, index.vocabulary))
        self._known = frozenset(self._words)
        self.long_forms = lru_cache(maxsize=1024)(self._long_forms)

    def forms(self, word: str) -> frozenset[str]:
        """Return the words of the passages that have the stem (Porter) of a word, or nearly: pregnant, pregnancy."""
        word = word.lower()
        return frozenset(
            one for one in self._beginning(word[:_PREFIX]) if one == word or _alike(_stem(one), _stem(word))
        )

    def compounds(self, word: str) -> list[tuple[frozenset[str], frozenset[str]]]:
        """Return how a word can be put together: the words with its first part, and the forms of its second.

        The first part may lack a vowel at its end: "gastr-" of "gastroprotective".
        """
        word, found = word.lower(), list[tuple[frozenset[str], frozenset[str]]]()
        for at in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
            second = self.forms(word[at:]) if word[at:] in self._known else frozenset[str]()
            first = frozenset(self._beginning(word[:at].rstrip("aeiou"))) if second else frozenset[str]()
            if first - self.forms(word):
                found.append((first - self.forms(word), second))
        return found

    def _beginning(self, prefix: str) -> Iterator[str]:
        """Yield the words of the passages with a prefix."""
        return takewhile(
            lambda one: one.startswith(prefix), islice(self._words, bisect_left(self._words, prefix), None)
        )

    def having(self, words: Iterable[str]) -> Mask:
        """Return which passages have one of the words, shape (passages,)."""
        found = np.zeros(self._index.size, np.bool_)
        for word in words:
            found |= self._index.with_all([word])
        return found & self._within

    def with_phrase(self, phrase: str) -> Mask:
        """Return which passages have the words of a phrase in this order, shape (passages,)."""
        words = tokenize(phrase)
        found = self._index.with_all(words) & self._within if words else np.zeros(self._index.size, np.bool_)
        return self.matching(rf"(?i)\b{r'[^A-Za-z0-9]+'.join(words)}\b", found) if len(words) > 1 else found

    def matching(self, pattern: str, among: Mask) -> Mask:
        """Return which of some passages have a text that an expression (RE2) matches, shape (passages,)."""
        positions = np.flatnonzero(among)
        matched = pc.match_substring_regex(self._texts.take(pa.array(positions)), pattern)
        found = np.zeros(len(among), np.bool_)
        found[positions] = np.array(matched.to_pylist(), np.bool_)
        return found

    def _long_forms(self, word: str) -> list[str]:
        """Return what a word stands for as an abbreviation in the passages, in lower case."""
        singular = re.sub(r"(?<=\w{3})s$", "", word, flags=re.IGNORECASE)
        introduced = self.matching(
            rf"(?i)\(\s*{re.escape(singular)}s?\s*[),;]", self.having({word.lower(), singular.lower()})
        )
        texts: Sequence[str] = self._texts.take(pa.array(np.flatnonzero(introduced)[:_INTRODUCTIONS])).to_pylist()
        return long_forms(word, texts)
