"""The Retriever protocol, the built-in retrievers, and their registry.

Everything that searches goes through a retriever: evaluation, indexes, question answering, factuality evidence and the
service. A retriever that is added here, or that an installed package registers, works in all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar, cast

from fdarx_core.plugins import Registry
from fdarx_core.records import Passage
from fdarx_core.retrieval.encoders import Reranker, SentenceEncoder, Vectors, WindowVectors, bge_reranker
from fdarx_core.retrieval.lexical import (
    InvertedIndex,
    LexicalIndex,
    Mask,
    RankedList,
    TfidfIndex,
    batches,
    bm25_index,
    top_k,
)
from fdarx_core.retrieval.models import ModelDirectories, ModelName, check_installed

RRF_K = 10
DENSE_WEIGHT = 0.7
"""Rank fusion of BM25 and vectors. With the usual 60 and equal weights, the many passages that a short model's vectors
place in the middle push BM25's first ones back. Recall at 6 on 325 questions to 14 labels is 0.855 instead of 0.826
(BM25 0.791); a right guideline is among 6 passages for 0.887 instead of 0.826 of 311 questions on guidelines (BM25
0.878); both served for tuning. On 410 questions on other guidelines it is 0.963 instead of 0.941 (BM25 0.959).
"""
FUSION_DEPTH = 100
"""Passages of each ranking that rank fusion takes into account."""
RERANK_DEPTH = 50
RERANK_SUFFIX = "+rerank"


Rows = TypeVar("Rows", Vectors, WindowVectors)

VectorSearch = Callable[[Vectors, int, Mask | None], list[RankedList]]
"""Returns the k nearest passages for each query vector, of those that are allowed."""


@dataclass
class Collection:
    """The passages to search: of one label, of several, or of an index.

    Attributes:
        texts: one text for each passage; rankings give positions in it.
        vectors: for each encoder, by name, what `SentenceEncoder.encode_passages` gives for the passages.
        matching_only: whether retrievers by words leave out passages that share no word with the question.
        searches: for an encoder whose vectors are not held here, by name, the function that does what `nearest` does.
    """

    texts: Sequence[str]
    vectors: Mapping[str, WindowVectors] = field(default_factory=dict)
    matching_only: bool = False
    searches: Mapping[str, VectorSearch] = field(default_factory=dict)

    @cached_property
    def inverted_index(self) -> InvertedIndex:
        return InvertedIndex(self.texts)

    @cached_property
    def bm25(self) -> LexicalIndex:
        return bm25_index(self.inverted_index)

    @cached_property
    def tfidf(self) -> LexicalIndex:
        return TfidfIndex(self.inverted_index)

    def nearest(self, encoder: str, queries: Vectors, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """Return, for each query vector, the k passages with the highest inner product of a window.

        Args:
            encoder: the name of the encoder that made the vectors.
            queries: float32 of shape (queries, dimensions).
            k: how many passages to return for each query.
            allowed: shape (passages,); the passages that may be returned, None for all.
        """
        if encoder in self.searches:
            return self.searches[encoder](queries, k, allowed)
        passages = _vectors_of(encoder, self.vectors, len(self.texts), "passages")
        parts = batches(len(queries), len(passages.rows))
        return [ranked for part in parts for ranked in top_k(passages.scores(queries[part]), k, allowed)]


@dataclass
class Queries:
    """The questions to a collection.

    Attributes:
        texts: the questions.
        vectors: by encoder's name, row by row those of `texts`.
        keywords: what retrievers by words search for, one for each question; None for the questions themselves.
    """

    texts: Sequence[str]
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    keywords: Sequence[str] | None = None


def passage_search_text(passage: Passage) -> str:
    """Return the section path and the text of a passage: many passages name their subject in the heading alone.

    On 7,829 questions of 233 real labels BM25's recall@1, 5, 10 is 0.557, 0.820, 0.879 factual and 0.227, 0.545, 0.697
    multi-hop; by the text alone 0.509, 0.761, 0.819 and 0.221, 0.526, 0.686.
    """
    return f"{passage.section_path}\n{passage.text}"


class Retriever(Protocol):
    """Ranks the passages of a collection for each question."""

    @property
    def name(self) -> str: ...

    @property
    def encoders(self) -> frozenset[str]:
        """The names of the encoders whose vectors the questions and the collection must have."""

    def rank(self, queries: Queries, collection: Collection, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """Return the k best passages for each question, best first; fewer where there are no more.

        `allowed`, of shape (passages,), marks the passages that may be returned; None stands for all.
        """


@dataclass(frozen=True)
class LexicalRetriever:
    """Ranks by the words that question and passage share: `bm25` or `tfidf`."""

    name: str
    encoders: frozenset[str] = frozenset()

    def rank(self, queries: Queries, collection: Collection, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """See `Retriever`."""
        index = collection.bm25 if self.name == "bm25" else collection.tfidf
        searched = queries.texts if queries.keywords is None else queries.keywords
        return index.rank(searched, k, allowed, matching_only=collection.matching_only)


@dataclass(frozen=True)
class DenseRetriever:
    """Ranks by the inner product of the question's vector and that of a passage's best window; named as its encoder."""

    name: str

    @property
    def encoders(self) -> frozenset[str]:
        return frozenset({self.name})

    def rank(self, queries: Queries, collection: Collection, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """See `Retriever`."""
        vectors = _vectors_of(self.name, queries.vectors, len(queries.texts), "questions")
        return collection.nearest(self.name, vectors, k, allowed)


def _vectors_of(encoder: str, vectors: Mapping[str, Rows], count: int, kind: str) -> Rows:
    found = vectors.get(encoder)
    if found is None or len(found) != count:
        have = "none" if found is None else str(len(found))
        raise ValueError(
            f"{encoder}: {count} {kind} have {have} of its vectors; encode them all with load_encoder({encoder!r}, …)"
        )
    return found


@dataclass(frozen=True)
class HybridRetriever:
    """Weighted reciprocal rank fusion of other retrievers. Source: Cormack, Clarke and Büttcher 2009."""

    name: str
    parts: tuple[Retriever, ...]
    weights: tuple[float, ...]

    @property
    def encoders(self) -> frozenset[str]:
        return frozenset().union(*(part.encoders for part in self.parts))

    def rank(self, queries: Queries, collection: Collection, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """See `Retriever`."""
        rankings = [part.rank(queries, collection, max(k, FUSION_DEPTH), allowed) for part in self.parts]
        return [fuse(of_query, k, self.weights) for of_query in zip(*rankings, strict=True)]


def fuse(rankings: Sequence[RankedList], k: int, weights: Sequence[float]) -> RankedList:
    """Return the k passages with the highest sum of weight ÷ (10 + rank) over the rankings; ranks count from 1."""
    totals: defaultdict[int, float] = defaultdict(float)
    for ranked, weight in zip(rankings, weights, strict=True):
        for rank, (position, _) in enumerate(ranked, start=1):
            totals[position] += weight / (RRF_K + rank)
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:k]


@dataclass(frozen=True)
class RerankedRetriever:
    """Puts the best `depth` passages of another retriever in the order of a reranker; ties keep the inner order."""

    inner: Retriever
    reranker: Reranker
    depth: int = RERANK_DEPTH

    @property
    def name(self) -> str:
        return f"{self.inner.name}{RERANK_SUFFIX}"

    @property
    def encoders(self) -> frozenset[str]:
        return self.inner.encoders

    def rank(self, queries: Queries, collection: Collection, k: int, allowed: Mask | None = None) -> list[RankedList]:
        """See `Retriever`."""
        rankings = self.inner.rank(queries, collection, max(k, self.depth), allowed)
        pairs = [
            (query, collection.texts[position])
            for query, ranked in zip(queries.texts, rankings, strict=True)
            for position, _ in ranked
        ]
        scores = iter(self.reranker(pairs))
        rescored = [[(position, next(scores)) for position, _ in ranked] for ranked in rankings]
        return [sorted(ranked, key=lambda item: -item[1])[:k] for ranked in rescored]


RETRIEVERS: Registry[Callable[[], Retriever]] = Registry(
    "retriever",
    {
        "bm25": lambda: LexicalRetriever("bm25"),
        "tfidf": lambda: LexicalRetriever("tfidf"),
        "cosine": lambda: DenseRetriever("cosine"),
        "recontriever": lambda: DenseRetriever("recontriever"),
        "hybrid": lambda: HybridRetriever(
            "hybrid", (LexicalRetriever("bm25"), DenseRetriever("cosine")), (1.0, DENSE_WEIGHT)
        ),
    },
)
"""Retrievers by name; packages add theirs by entry points of the group `fdarx.retrievers`."""
ENCODERS: dict[str, Callable[[ModelDirectories], SentenceEncoder]] = {
    "cosine": lambda directories: SentenceEncoder(directories.of("cosine")),
    "recontriever": lambda directories: SentenceEncoder(
        directories.of("recontriever"), name="recontriever", instruction="", normalised=False, max_tokens=512
    ),
}
"""Embedding models by name. Source of recontriever: Izacard et al. 2022; Lei et al. 2023 uses it the same way."""


def get_retriever(name: str, reranker: Reranker | None = None) -> Retriever:
    """Return the retriever of that name; `NAME+rerank` reorders the best of NAME, and needs a reranker.

    Raises ValueError for an unknown name, and for `NAME+rerank` without a reranker.
    """
    inner = name.removesuffix(RERANK_SUFFIX)
    if inner not in RETRIEVERS:
        raise ValueError(f"no retriever {name!r}; there are {', '.join(RETRIEVERS)}, each also as NAME{RERANK_SUFFIX}")
    retriever = RETRIEVERS[inner]()
    if inner == name:
        return retriever
    if reranker is None:
        raise ValueError(f"{name} needs a reranker; give --reranker-model DIRECTORY")
    return RerankedRetriever(retriever, reranker)


def required_encoders(name: str) -> frozenset[str]:
    """Return the encoders whose vectors a retriever needs, without loading any model."""
    return RETRIEVERS[name.removesuffix(RERANK_SUFFIX)]().encoders


def needs_reranker(name: str) -> bool:
    return name.endswith(RERANK_SUFFIX)


def check_retriever_models(name: str, directories: ModelDirectories) -> None:
    """Raise `ModelMissing` where a model that the retriever needs cannot be loaded; loads none."""
    models = [*sorted(required_encoders(name)), *(["reranker"] if needs_reranker(name) else [])]
    for model in models:
        directories.of(cast(ModelName, model))
        check_installed(cast(ModelName, model))


def load_encoder(name: str, directories: ModelDirectories) -> SentenceEncoder:
    """Load the encoder of that name. Raises `ModelMissing` where its directory or its library is missing."""
    if name not in ENCODERS:
        raise ValueError(f"no encoder {name!r}; there are {', '.join(ENCODERS)}")
    return ENCODERS[name](directories)


def load_reranker(directories: ModelDirectories) -> Reranker:
    """Load the BGE cross-encoder. Raises `ModelMissing` as `load_encoder` does."""
    return bge_reranker(directories.of("reranker"))
