"""What a retriever is, and the simple ones: by words, and by vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fdarx_core.retrieval.collection import Collection, Queries, Vectors
from fdarx_core.retrieval.ranking import Ranked, batches, best


class Retriever(Protocol):
    """Ranks a collection's passages for each question."""

    @property
    def name(self) -> str: ...
    @property
    def encoders(self) -> frozenset[str]:
        """Names of the encoders whose vectors the questions and the collection must come with."""

    def rank(self, queries: Queries, collection: Collection, k: int) -> list[Ranked]:
        """For each question the k best passages, all where there are fewer."""


@dataclass(frozen=True)
class Bm25:
    """By the words that question and passage share."""

    name: str = "bm25"
    encoders: frozenset[str] = frozenset()

    def rank(self, queries: Queries, collection: Collection, k: int) -> list[Ranked]:
        return collection.bm25.top(queries.texts, k)


@dataclass(frozen=True)
class Tfidf:
    """By the words that question and passage share, as vectors at an angle."""

    name: str = "tfidf"
    encoders: frozenset[str] = frozenset()

    def rank(self, queries: Queries, collection: Collection, k: int) -> list[Ranked]:
        return collection.tfidf.top(queries.texts, k)


@dataclass(frozen=True)
class Nearest:
    """By the dot product of their vectors; the retriever has its encoder's name."""

    name: str

    @property
    def encoders(self) -> frozenset[str]:
        return frozenset({self.name})

    def rank(self, queries: Queries, collection: Collection, k: int) -> list[Ranked]:
        asked = _vectors(self.name, queries.vectors, len(queries.texts), "questions")
        passages = _vectors(self.name, collection.vectors, len(collection.texts), "passages")
        parts = batches(len(asked), len(passages))
        return [ranked for part in parts for ranked in best(asked[part] @ passages.T, k)]


def _vectors(encoder: str, vectors: Mapping[str, Vectors], count: int, of: str) -> Vectors:
    found = vectors.get(encoder)
    if found is None or len(found) != count:
        held = "none" if found is None else str(len(found))
        raise ValueError(
            f"{encoder}: {count} {of} have {held} of its vectors; encode them all with encoder({encoder!r})"
        )
    return found
