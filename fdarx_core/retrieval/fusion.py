"""Several rankings into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.retrieval.collection import Collection, Queries
from fdarx_core.retrieval.ranking import Ranked
from fdarx_core.retrieval.retriever import Retriever

SMOOTHING = 60
DEPTH = 100
"""Passages of each ranking that count."""


@dataclass(frozen=True)
class Fused:
    """Reciprocal rank fusion of other retrievers. Source: Cormack, Clarke and Büttcher 2009."""

    name: str
    parts: tuple[Retriever, ...]

    @property
    def encoders(self) -> frozenset[str]:
        return frozenset().union(*(part.encoders for part in self.parts))

    def rank(self, queries: Queries, collection: Collection, k: int) -> list[Ranked]:
        rankings = [part.rank(queries, collection, max(k, DEPTH)) for part in self.parts]
        return [fuse(of_one, k) for of_one in zip(*rankings, strict=True)]


def fuse(rankings: Sequence[Ranked], k: int) -> Ranked:
    """The k passages with the highest sum, over the rankings that have them, of 1 ÷ (60 + rank), rank from 1."""
    totals: defaultdict[int, float] = defaultdict(float)
    for ranked in rankings:
        for rank, (position, _) in enumerate(ranked, start=1):
            totals[position] += 1 / (SMOOTHING + rank)
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:k]
