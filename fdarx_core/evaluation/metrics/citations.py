"""The cited passages of one answer against its gold passages. Source: FDARxBench §3.5, §B.7.

The paper averages precision, recall and F1 of each answerable question. Every such question counts: an answer that
cites nothing, and so every refusal, has 0 in all three.

Strict metrics take a passage at its name. Under equivalence a gold passage may also be met by passages that state the
same: `equivalents` gives those that may stand for each gold passage.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
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
