"""Which passages of a label, or of many, bear on a question."""

from fdarx_core.retrieval.collection import Collection, Queries, searchable
from fdarx_core.retrieval.dense import Encoder
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.retrieval.ranking import Ranked
from fdarx_core.retrieval.registry import encoder, load_reranker, needs_reranker, retriever
from fdarx_core.retrieval.rerank import Reranker
from fdarx_core.retrieval.retriever import Retriever

__all__ = [
    "Collection",
    "Encoder",
    "ModelDirectories",
    "ModelMissing",
    "Queries",
    "Ranked",
    "Reranker",
    "Retriever",
    "encoder",
    "load_reranker",
    "needs_reranker",
    "retriever",
    "searchable",
]
