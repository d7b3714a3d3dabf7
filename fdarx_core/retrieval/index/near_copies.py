"""Passages of labels of one drug that say nearly the same, and the numbers in which they differ.

Labels of one drug repeat each other: of 68,974 passages of 776 labels, 28,912 differ within drug and section by more
than numbers, case and punctuation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from fdarx_core.retrieval.lexical import Integers, InvertedIndex, Mask

SIMILARITY = 0.9
"""Jaccard similarity of the sets of words, without numbers, from which two passages are near copies."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[^\W\d_a-z])|\n")
_REFERENCE = re.compile(r"\[[^\[\]]*\]|\(\s*\d+(?:\.\d+)*(?:\s*,\s*\d+(?:\.\d+)*)*\s*\)|\b(?:Table|Figure) \d+")
_NUMBER_OR_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_MOST_CHOICES = 64
"""Sets of passing passages whose representatives are kept: all, and those of the drugs that were asked about last."""
_LEAST_WORDS = 4
"""Words of the shortest sentence whose numbers are compared; shorter ones are mostly rows of tables and captions."""


class NearCopies:
    """The clusters of near copies among passages.

    Within each group, passages are taken by rank; each joins the first earlier passage that it is a near copy of, or
    begins a cluster.

    Args:
        index: the inverted index of the passages.
        groups: the group of each passage, shape (passages,); a passage of the group -1 has no near copies.
        documents: the document of each passage, shape (passages,).
        ranks: the rank of each document, shape (documents,); the lowest represents its near copies.
        ignored: words that are not compared, each with the numbers of the groups whose passages they stand in, from
            the first to the one before the last.
    """

    def __init__(
        self,
        index: InvertedIndex,
        groups: Integers,
        documents: Integers,
        ranks: Integers,
        ignored: Mapping[str, tuple[int, int]],
    ) -> None:
        self._documents = documents
        self.clusters = _clusters(index, groups, ranks[documents] if len(groups) else groups, ignored)
        self._order = np.lexsort((np.arange(len(groups)), ranks[documents], self.clusters)) if len(groups) else groups
        self._starts = np.searchsorted(self.clusters[self._order], np.arange(self.clusters.max(initial=-1) + 2))
        self._chosen = lru_cache(maxsize=_MOST_CHOICES)(self._choose)

    def representatives(self, passing: Mask) -> Mask:
        """Return which of the passing passages represent their clusters, shape (passages,).

        They are those of the best document of each cluster among the passing ones: a label that has two passages that
        are near copies means both. The result is shared, and cannot be written to.
        """
        return self._chosen(np.packbits(passing).tobytes())

    def _choose(self, packed: bytes) -> Mask:
        passing = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(self._order)).astype(np.bool_)
        positions = self._order[passing[self._order]]
        _, first, cluster = np.unique(self.clusters[positions], return_index=True, return_inverse=True)
        documents = self._documents[positions]
        chosen = np.zeros(len(passing), np.bool_)
        chosen[positions[documents == documents[first][cluster]]] = True
        chosen.flags.writeable = False
        return chosen

    def copies(self, position: int) -> Integers:
        """Return the near copies of a passage in other documents, best document first."""
        cluster = self.clusters[position]
        members: Integers = self._order[self._starts[cluster] : self._starts[cluster + 1]]
        others: Integers = members[self._documents[members] != self._documents[position]]
        return others


def _clusters(
    index: InvertedIndex, groups: Integers, ranks: Integers, ignored: Mapping[str, tuple[int, int]]
) -> Integers:
    """Return the number of the cluster of each passage."""
    vocabulary = index.vocabulary
    is_word = np.array([word.isalpha() for word in vocabulary], np.bool_)
    first_group, last_group = np.array([ignored.get(word, (0, 0)) for word in vocabulary], np.int64).reshape(-1, 2).T
    group_of = groups[index.passages]
    is_ignored = (first_group[index.terms] <= group_of) & (group_of < last_group[index.terms])
    compared = np.flatnonzero(is_word[index.terms] & ~is_ignored)
    compared = compared[np.argsort(index.passages[compared], kind="stable")]
    terms = index.terms[compared]
    starts = np.searchsorted(index.passages[compared], np.arange(len(groups) + 1))
    # a hash of each set of terms: the sum of random numbers of its terms
    numbers = np.random.default_rng(0).integers(0, 1 << 63, int(terms.max(initial=-1)) + 1, dtype=np.uint64)
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(numbers[terms], dtype=np.uint64)))
    keys = sums[starts[1:]] - sums[starts[:-1]]
    order = np.lexsort((ranks, groups))
    clusters = np.full(len(groups), -1, np.int64)
    count = 0
    for group in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if not len(group) or groups[group[0]] < 0:
            clusters[group] = np.arange(count, count + len(group))
            count += len(group)
            continue
        _, first, same = np.unique(keys[group], return_index=True, return_inverse=True)
        by_rank = np.argsort(first)
        sets = [terms[starts[at] : starts[at + 1]] for at in group[first[by_rank]]]
        own = np.empty(len(first), np.int64)
        own[by_rank] = _leaders(sets)
        clusters[group] = count + own[same]
        count += len(first)
    return np.unique(clusters, return_inverse=True)[1] if len(clusters) else clusters


def _leaders(sets: Sequence[Integers]) -> Integers:
    """Return for each set the number of the first set before it that is a near copy and has joined none, or its own."""
    local = np.unique(np.concatenate(sets), return_inverse=True)[1] if len(sets) > 1 else np.zeros(0, np.int64)
    sizes = np.array(list(map(len, sets)), np.int64)
    rows = np.repeat(np.arange(len(sets)), sizes)[: len(local)]
    has = np.zeros((len(sets), int(local.max(initial=-1)) + 1), np.float32)
    has[rows, local] = 1
    leaders = np.full(len(sets), -1, np.int64)
    for at in range(len(sets)):
        if leaders[at] >= 0:
            continue
        free = at + np.flatnonzero(leaders[at:] < 0)
        # sets of very different sizes cannot be similar
        free = free[np.minimum(sizes[free], sizes[at]) >= SIMILARITY * np.maximum(sizes[free], sizes[at])]
        shared = has[free] @ has[at]
        leaders[free[shared >= SIMILARITY * (sizes[free] + sizes[at] - shared)]] = at
        leaders[at] = at
    return leaders


def number_differences(text: str, other: str) -> list[tuple[str, str]]:
    """Return the sentences of a text that another text has with other numbers, each with that of the other.

    Case, white space and punctuation are ignored, and so are references to sections in brackets, and the
    numbers of tables and figures. A sentence that either
    text has with several sets of numbers is left out.
    """
    own, others = _by_words(text), _by_words(other)
    shared = [words for words in own if words in others and len(own[words]) == len(others[words]) == 1]
    pairs = [(*own[words].items(), *others[words].items()) for words in shared]
    return [(sentence, also) for (numbers, sentence), (other_numbers, also) in pairs if numbers != other_numbers]


def differing_numbers(sentence: str, other: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Return the numbers in which two sentences of `number_differences` differ, as they stand in each of them."""
    pairs = zip(numbers_and_words(sentence), numbers_and_words(other), strict=True)
    return [
        (own, also)
        for own, also in pairs
        if own[0][0].isdigit() and own[0].replace(",", "") != also[0].replace(",", "")
    ]


def numbers_and_words(text: str) -> list[re.Match[str]]:
    """Return the numbers and words of a text outside references, at their places."""
    blanked = _REFERENCE.sub(lambda reference: " " * len(reference[0]), text)
    return list(_NUMBER_OR_WORD.finditer(blanked))


@lru_cache(maxsize=8192)
def _by_words(text: str) -> dict[tuple[str, ...], dict[tuple[str, ...], str]]:
    """Return the sentences with numbers, by their words and then by their numbers."""
    found: defaultdict[tuple[str, ...], dict[tuple[str, ...], str]] = defaultdict(dict)
    for sentence in _SENTENCE_END.split(text):
        tokens = [token[0] for token in numbers_and_words(sentence)]
        numbers = tuple(token.replace(",", "") for token in tokens if token[0].isdigit())
        words = tuple("#" if token[0].isdigit() else token.casefold() for token in tokens)
        if numbers and len(words) - len(numbers) >= _LEAST_WORDS:
            found[words].setdefault(numbers, sentence.strip())
    return found
