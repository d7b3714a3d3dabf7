"""Metrics of citations and rankings of passages against the gold passages of a question, each in 0 to 1.

Passages are any hashable values: indices within a label, or pairs with the set id over a corpus. A passage that is
ranked twice counts at its first rank. With `equivalents`, which gives the equivalent passages of gold passages, these
count as gold. An answer without citations has a precision, recall and F1 of 0. Source: FDARxBench §3.5, §4.2, §B.7.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import log2
from types import MappingProxyType
from typing import Any, TypeVar

T = TypeVar("T", bound=Hashable)
STRICT: Mapping[Any, Collection[Any]] = MappingProxyType({})
"""No passage is equivalent to another."""


def share(part: float, whole: float) -> float:
    """Return part ÷ whole, 0 if the whole is 0."""
    return part / whole if whole else 0.0


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    return share(2 * precision * recall, precision + recall)


def eq_hits(cited: Iterable[T], gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> int:
    """Return the number of gold passages that are cited, themselves or by an equivalent passage."""
    named = set(cited)
    return sum(not named.isdisjoint(members) for members in classes(gold, equivalents))


def eq_right(cited: Iterable[T], gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> int:
    """Return the number of cited passages that are gold or equivalent to a gold passage."""
    accepted: set[T] = set().union(*classes(gold, equivalents))
    return len(accepted.intersection(cited))


def classes(gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> list[set[T]]:
    """Return for each distinct gold passage the set of itself and its equivalent passages."""
    return [{passage, *equivalents.get(passage, ())} for passage in dict.fromkeys(gold)]


def recall_at(
    k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT
) -> float:
    """Return the share of the gold passages that are among the first k, themselves or by an equivalent passage."""
    return share(eq_hits(_top(k, ranked), gold, equivalents), len(set(gold)))


def f1_at(k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Return F1 of the first k as citations; precision is over the ranked passages, which may be fewer than k."""
    top = _top(k, ranked)
    precision = share(eq_right(top, gold, equivalents), len(top))
    return f1(precision, recall_at(k, ranked, gold, equivalents))


def reciprocal_rank(ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Return 1 ÷ the rank of the first passage that is gold or equivalent to one; 0 if there is none."""
    accepted: set[T] = set().union(*classes(gold, equivalents))
    places = (rank for rank, passage in enumerate(dict.fromkeys(ranked), start=1) if passage in accepted)
    return share(1, next(places, 0))


def ndcg_at(k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Return normalized discounted cumulative gain: a gold passage that is found at a rank gains 1 ÷ log2(rank + 1).

    Each gold passage is found once, by itself or by an equivalent passage. A ranked passage finds at most one gold
    passage; if it is equivalent to several, the assignment is chosen so that later passages find the most.
    """
    found: dict[int, T] = {}
    wanted = classes(gold, equivalents)
    ranks = (rank for rank, passage in enumerate(_top(k, ranked), start=1) if _find(passage, wanted, found, set()))
    return share(sum(map(_gain, ranks)), sum(map(_gain, range(1, min(k, len(wanted)) + 1))))


RankingFunction = Callable[[Sequence[Any], Collection[Any], Mapping[Any, Collection[Any]]], float]
"""A metric of one ranking: of the ranked passages, the gold passages, and the passages equivalent to these."""

RANKING_METRICS: dict[str, RankingFunction] = {
    **{f"recall_{k}": partial(recall_at, k) for k in (1, 5, 10)},
    "recall_gold": lambda ranked, gold, equivalents: recall_at(len(gold), ranked, gold, equivalents),
    "f1_gold": lambda ranked, gold, equivalents: f1_at(len(gold), ranked, gold, equivalents),
    "mrr": reciprocal_rank,
    "ndcg_10": partial(ndcg_at, 10),
}
"""The metrics of a ranking by the names of the fields of `RetrievalScore`; `eq_` before a name: with equivalents."""


def _top(k: int, ranked: Sequence[T]) -> list[T]:
    return list(islice(dict.fromkeys(ranked), k))


def _gain(rank: int) -> float:
    return 1 / log2(rank + 1)


def _find(passage: T, wanted: list[set[T]], found: dict[int, T], tried: set[int]) -> bool:
    """Return whether the passage can find a gold passage, if needed by reassigning others (bipartite matching)."""
    for number, members in enumerate(wanted):
        if passage in members and number not in tried:
            tried.add(number)
            if number not in found or _find(found[number], wanted, found, tried):
                found[number] = passage
                return True
    return False
