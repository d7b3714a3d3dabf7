"""Retrievers and encoders by name. A new retriever is a class and a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from fdarx_core.retrieval.dense import ContrieverEncoder, Encoder, SentenceEncoder
from fdarx_core.retrieval.fusion import Fused
from fdarx_core.retrieval.models import ModelDirectories, ModelName, check_installed
from fdarx_core.retrieval.rerank import SUFFIX, BgeReranker, Reranked, Reranker
from fdarx_core.retrieval.retriever import Bm25, Nearest, Retriever, Tfidf

RETRIEVERS: dict[str, Callable[[], Retriever]] = {
    "bm25": Bm25,
    "tfidf": Tfidf,
    "cosine": lambda: Nearest("cosine"),
    "recontriever": lambda: Nearest("recontriever"),
    "hybrid": lambda: Fused("hybrid", (Bm25(), Nearest("cosine"))),
}
ENCODERS: dict[str, Callable[[ModelDirectories], Encoder]] = {
    "cosine": lambda directories: SentenceEncoder(directories.of("cosine")),
    "recontriever": lambda directories: ContrieverEncoder(directories.of("recontriever")),
}


def retriever(name: str, reranker: Reranker | None = None) -> Retriever:
    """The retriever of that name; `NAME+rerank` puts its best in the reranker's order, and needs one.

    Raises ValueError for an unknown name, or `NAME+rerank` without a reranker.
    """
    inner = name.removesuffix(SUFFIX)
    if inner not in RETRIEVERS:
        raise ValueError(f"no retriever {name!r}; there are {', '.join(RETRIEVERS)}, each also as NAME{SUFFIX}")
    if inner == name:
        return RETRIEVERS[inner]()
    if reranker is None:
        raise ValueError(f"{name} needs a reranker; give --reranker-model DIRECTORY")
    return Reranked(RETRIEVERS[inner](), reranker)


def encoders_of(name: str) -> frozenset[str]:
    """The encoders whose vectors a retriever needs, without loading any model."""
    return RETRIEVERS[name.removesuffix(SUFFIX)]().encoders


def needs_reranker(name: str) -> bool:
    return name.endswith(SUFFIX)


def check(name: str, directories: ModelDirectories) -> None:
    """Whether a retriever's models can be loaded, before any is: raises `ModelMissing` where one can't."""
    models = [*sorted(encoders_of(name)), *(["reranker"] if needs_reranker(name) else [])]
    for model in models:
        directories.of(cast(ModelName, model))
        check_installed(cast(ModelName, model))


def encoder(name: str, directories: ModelDirectories) -> Encoder:
    """Loads the encoder of that name. Raises `ModelMissing` where its directory or its extra is not there."""
    if name not in ENCODERS:
        raise ValueError(f"no encoder {name!r}; there are {', '.join(ENCODERS)}")
    return ENCODERS[name](directories)


def load_reranker(directories: ModelDirectories) -> Reranker:
    """The BGE cross-encoder. Raises `ModelMissing` as `encoder` does."""
    return BgeReranker(directories.of("reranker"))
