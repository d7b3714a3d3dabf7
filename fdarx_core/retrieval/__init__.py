"""Retrieval: which passages answer a question, by words, vectors, both, and rerankers."""

from fdarx_core.retrieval.encoders import Reranker, SentenceEncoder
from fdarx_core.retrieval.lexical import Mask, RankedList, top_k
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.retrieval.retrievers import (
    Collection,
    Queries,
    Retriever,
    get_retriever,
    load_encoder,
    load_reranker,
    needs_reranker,
    passage_search_text,
)

__all__ = [
    "Collection",
    "Mask",
    "ModelDirectories",
    "ModelMissing",
    "Queries",
    "RankedList",
    "Reranker",
    "Retriever",
    "SentenceEncoder",
    "get_retriever",
    "load_encoder",
    "load_reranker",
    "needs_reranker",
    "passage_search_text",
    "top_k",
]
