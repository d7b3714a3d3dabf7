"""A cross-encoder that reads question and passage together puts another retriever's best in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fdarx_core.retrieval.collection import Collection, Queries
from fdarx_core.retrieval.models import device, load_module
from fdarx_core.retrieval.ranking import Ranked
from fdarx_core.retrieval.retriever import Retriever

DEPTH = 50
BATCH = 32
SUFFIX = "+rerank"


class Reranker(Protocol):
    """Says how well each passage answers its question; higher is better."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]: ...


class BgeReranker:
    """A BGE cross-encoder from a local directory, by FlagEmbedding; scores are logits, half precision on a GPU."""

    def __init__(self, directory: str, *, batch: int = BATCH, longest: int = 512) -> None:
        library = load_module("FlagEmbedding", "the reranker")
        where = device()
        self._model = library.FlagReranker(
            directory, use_fp16=where != "cpu", devices=where, batch_size=batch, max_length=longest
        )

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """`pairs` are (question, passage); a passage is cut so that both fit in the longest input, 512 tokens."""
        return [float(score) for score in self._model.compute_score(list(pairs))] if pairs else []


@dataclass(frozen=True)
class Reranked:
    """The inner retriever's best 50 (or k, where that is more), by the reranker's scores; ties in the inner order."""

    inner: Retriever
    reranker: Reranker
    depth: int = DEPTH

    @property
    def name(self) -> str:
        return f"{self.inner.name}{SUFFIX}"

    @property
    def encoders(self) -> frozenset[str]:
        return self.inner.encoders

    def rank(self, queries: Queries, collection: Collection, k: int) -> list[Ranked]:
        found = self.inner.rank(queries, collection, max(k, self.depth))
        asked = zip(queries.texts, found, strict=True)
        pairs = [(query, collection.texts[position]) for query, ranked in asked for position, _ in ranked]
        scores = iter(self.reranker.score(pairs))
        rescored = [[(position, next(scores)) for position, _ in ranked] for ranked in found]
        return [sorted(ranked, key=lambda item: -item[1])[:k] for ranked in rescored]
