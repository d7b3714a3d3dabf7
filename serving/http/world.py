"""What the HTTP side needs of the world behind it: corpora to search in, someone to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fdarx_core.rag.tools import StreamingTools
from fdarx_core.records import Chunk
from fdarx_core.retrieval.index import Only


class Unavailable(Exception):
    """A part of the service is down. `part` is a plain name (the index, the reranker …), `why` for the logs."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part, why)
        self.part, self.why = part, why


class Overloaded(Unavailable):
    """A part of the service has more to do than it takes on; the same request may fare better in a moment."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """An index as it is now served. A name holds no "/": chat clients write CORPUS/STRATEGY."""

    name: str
    version: str
    kind: Literal["labels", "documents"]
    chunks: int
    documents: int
    retrievers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A chunk and its section, in order, itself included; of a document without sections: its neighbours."""

    chunk: Chunk
    around: list[Chunk]


class ServedTools(StreamingTools, Protocol):
    """The tools of one request. A search or a reranking raises Unavailable or Overloaded where it can't be had.

    Asking a model gives a Response with a reason, or raises AskingStopped, Failure or Unavailable, where the model is
    down, and raises Overloaded where it is busy.
    """

    @property
    def version(self) -> str:
        """Of the index that answered the latest search; "" before the first."""
        ...


class World(Protocol):
    """All of it is called in the event loop that serves, for many requests at once."""

    @property
    def answerer(self) -> str:
        """The name of the model that answers."""
        ...

    @property
    def budget(self) -> int | None:
        """Characters of passages that the answering model can be shown; None: any number."""
        ...

    @property
    def postprocessors(self) -> Sequence[str]:
        """Those of `none`, `rerank` and `score` that can be had here."""
        ...

    def corpora(self) -> Mapping[str, Corpus]:
        """By name, as last heard of; the first is the default."""
        ...

    def tools(self, corpus: str, retriever: str) -> ServedTools:
        """For one request."""
        ...

    async def matches(self, corpus: str, only: Only) -> bool:
        """True where a filter leaves anything to search in."""
        ...

    async def names(self, corpus: str, prefix: str, limit: int) -> list[str]:
        """Drugs' or documents' names that begin with, or hold, a prefix."""
        ...

    async def passage(self, corpus: str, chunk_id: str) -> Surroundings | None:
        """None where the index holds no such chunk."""
        ...

    async def ready(self) -> Mapping[str, str]:
        """What can't serve now, by its name, with the reason; empty where all can."""
        ...
