"""A question to an index, with all that decides how it is searched and answered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from fdarx_core.rag.strategies import ALL_STRATEGIES
from fdarx_core.retrieval.index import ChunkFilter
from fdarx_core.retrieval.retrievers import Retriever

CANDIDATES, CONTEXTS = 24, 6
"""Source: QA-RAG §3.3."""
POSTPROCESSORS: dict[str, str] = {"rerank": "Reranker", "score": "Scoring agent", "none": "None"}
"""The post-processings that order candidates, with their titles in tables: by a cross-encoder, by a model's scores from
1 to 10, or as they were pooled. Source: QA-RAG §2.4.
"""
TURNS = 10
"""How many turns before the question are read, the latest ones."""


class Turn(NamedTuple):
    """An earlier question of a conversation with its answer, "" where it has none."""

    question: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class RagQuery:
    """A question and how to answer it.

    Attributes:
        question: the question, or any text to search with.
        k: how many chunks are returned, and shown to the answering model.
        strategy: what to search with, a name of `fdarx_core.rag.strategies`.
        retriever: the name of a retriever of the index, also as `NAME+rerank`, or a retriever; "" is hybrid where the
            index has vectors and their embedding model is there, else bm25.
        postprocess: how candidates are ordered, a name of `POSTPROCESSORS`.
        candidates: how many chunks the searches give together; at least k.
        filter: which chunks may be found.
        history: the earlier turns of the conversation, oldest first.

    Raises ValueError for unknown names and for k below 1.
    """

    question: str
    k: int = CONTEXTS
    strategy: str = "question"
    retriever: str | Retriever = ""
    postprocess: str = "none"
    candidates: int = CANDIDATES
    filter: ChunkFilter = field(default_factory=ChunkFilter)
    history: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        _check_known(self.strategy, ALL_STRATEGIES, "strategy")
        _check_known(self.postprocess, POSTPROCESSORS, "post-processing")
        if self.k < 1:
            raise ValueError(f"k is {self.k}; it must be 1 or more")

    @classmethod
    def of(cls, question: str, **options: Any) -> RagQuery:
        """Return the query with these options: fields of `RagQuery` and, to choose chunks, of `ChunkFilter`.

        Raises ValueError for a wrong value, TypeError for an unknown option.
        """
        chosen = {option.name: options.pop(option.name) for option in fields(ChunkFilter) if option.name in options}
        if chosen:
            chosen |= {"exclude": tuple(chosen.get("exclude", ()))}
            options["filter"] = ChunkFilter(**chosen)
        options["history"] = tuple(Turn(*turn) for turn in options.get("history", ()))
        return cls(question, **options)


def _check_known(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise ValueError(f"no {what} {name!r}; there are {', '.join(known)}")
