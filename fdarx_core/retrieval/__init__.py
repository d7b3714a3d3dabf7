"""Retrieval: which passages answer a question, by words, vectors, both, and rerankers."""

from fdarx_core.retrieval.lexical import Mask as Mask
from fdarx_core.retrieval.lexical import RankedList as RankedList
from fdarx_core.retrieval.lexical import top_k as top_k
from fdarx_core.retrieval.models import ModelDirectories as ModelDirectories
from fdarx_core.retrieval.retrievers import Collection as Collection
from fdarx_core.retrieval.retrievers import Queries as Queries
from fdarx_core.retrieval.retrievers import Retriever as Retriever
from fdarx_core.retrieval.retrievers import get_retriever as get_retriever
from fdarx_core.retrieval.retrievers import load_encoder as load_encoder
from fdarx_core.retrieval.retrievers import load_reranker as load_reranker
from fdarx_core.retrieval.retrievers import passage_search_text as passage_search_text
