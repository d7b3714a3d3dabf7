"""Citations and rankings of passages against the gold passages of a question, each metric in 0 to 1.

Passages are any hashable values: indices within a label, or pairs with the set id over a corpus. A passage that is
ranked twice counts at its first rank. Metrics are strict unless `equivalents` says which passages may stand for a gold
passage. An answer without citations has a precision, recall and F1 of 0. Source: FDARxBench §3.5, §4.2, §B.7.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from math import log2
from types import MappingProxyType
from typing import Any, TypeVar

T = TypeVar("T", bound=Hashable)
STRICT: Mapping[Any, Collection[Any]] = MappingProxyType({})
"""No passage stands for another."""


def share(part: float, whole: float) -> float:
    """0 where the whole is nothing."""
    return part / whole if whole else 0.0


def precision(cited: Iterable[T], gold: Iterable[T]) -> float:
    """The share of the cited passages that are gold; 0 where nothing is cited."""
    named = set(cited)
    return share(len(named & set(gold)), len(named))


def recall(cited: Iterable[T], gold: Iterable[T]) -> float:
    """The share of the gold passages that are cited; 0 where none is gold."""
    wanted = set(gold)
    return share(len(wanted & set(cited)), len(wanted))


def f1(precision: float, recall: float) -> float:
    """Their harmonic mean; 0 where both are 0."""
    return share(2 * precision * recall, precision + recall)


def eq_hits(cited: Iterable[T], gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> int:
    """How many gold passages are cited, or stood for by a cited passage."""
    named = set(cited)
    return sum(not named.isdisjoint(members) for members in classes(gold, equivalents))


def eq_right(cited: Iterable[T], gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> int:
    """How many cited passages are gold, or stand for a gold passage."""
    accepted: set[T] = set().union(*classes(gold, equivalents))
    return len(accepted.intersection(cited))


def classes(gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> list[set[T]]:
    """For each distinct gold passage, itself and the passages that may stand for it."""
    return [{passage, *equivalents.get(passage, ())} for passage in dict.fromkeys(gold)]


def recall_at(
    k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT
) -> float:
    """The share of the gold passages that the first k hold or have a stand-in for."""
    return share(eq_hits(_top(k, ranked), gold, equivalents), len(set(gold)))


def f1_at(k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """The first k taken as citations; precision is over those there are, which may be fewer than k."""
    top = _top(k, ranked)
    precision = share(eq_right(top, gold, equivalents), len(top))
    return f1(precision, recall_at(k, ranked, gold, equivalents))


def reciprocal_rank(ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """1 ÷ the rank of the first passage that is gold or stands for one; 0 where none is ranked."""
    accepted: set[T] = set().union(*classes(gold, equivalents))
    places = (rank for rank, passage in enumerate(dict.fromkeys(ranked), start=1) if passage in accepted)
    return share(1, next(places, 0))


def ndcg_at(k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Normalised discounted cumulative gain: a passage found gains 1 ÷ log2(rank + 1), the ideal ranks all gold first.

    Each gold passage is found once, by the first that is it or stands for it; a later one gains nothing. A ranked
    passage finds one at most: of several that it may stand for, the one that leaves most to those after it.
    """
    found: dict[int, T] = {}
    wanted = classes(gold, equivalents)
    ranks = (rank for rank, passage in enumerate(_top(k, ranked), start=1) if _find(passage, wanted, found, set()))
    return share(sum(map(_gain, ranks)), sum(map(_gain, range(1, min(k, len(wanted)) + 1))))


def _top(k: int, ranked: Sequence[T]) -> list[T]:
    return list(islice(dict.fromkeys(ranked), k))


def _gain(rank: int) -> float:
    return 1 / log2(rank + 1)


def _find(passage: T, wanted: list[set[T]], found: dict[int, T], tried: set[int]) -> bool:
    """Whether the passage finds a gold passage, if need be one whose finder can find another (bipartite matching)."""
    for number, members in enumerate(wanted):
        if passage in members and number not in tried:
            tried.add(number)
            if number not in found or _find(found[number], wanted, found, tried):
                found[number] = passage
                return True
    return False
