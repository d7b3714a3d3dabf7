"""Interfaces that the HTTP service needs from its surroundings: the backend that searches and answers, and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fdarx_core.rag.search import StreamingRagBackend
from fdarx_core.records import Chunk
from fdarx_core.retrieval.index import ChunkFilter


class Unavailable(Exception):
    """A part of the service is down. `part` is its name in messages (the index, the reranker …), `why` is logged."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part, why)
        self.part, self.why = part, why


class Overloaded(Unavailable):
    """A part of the service rejects requests because its queue is full; the request may be repeated."""


@dataclass(frozen=True, slots=True)
class ServedCorpus:
    """An index in use. Its name contains no "/", since chat clients name a model as CORPUS/STRATEGY."""

    name: str
    version: str
    kind: Literal["labels", "documents"]
    chunks: int
    documents: int
    retrievers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """A chunk, and the chunks of its section in order, itself included; without sections, its neighbours."""

    chunk: Chunk
    around: list[Chunk]


class BackendTools(StreamingRagBackend, Protocol):
    """Search, models and reranker for one request. Search and reranking raise Unavailable or Overloaded.

    A model that is down gives a Response with a reason, or raises AskingStopped, Failure or Unavailable; one that is
    busy raises Overloaded.
    """

    @property
    def version(self) -> str:
        """Version of the index that answered the last search; "" before the first."""
        ...


class ServiceBackend(Protocol):
    """What the HTTP service is built on. Its methods are called in the event loop, for many requests concurrently."""

    @property
    def answerer(self) -> str:
        """Name of the model that writes the answers."""
        ...

    @property
    def budget(self) -> int | None:
        """Characters of passages that fit into the answering model's prompt; None: any number."""
        ...

    @property
    def postprocessors(self) -> Sequence[str]:
        """The available ones of `none`, `rerank` and `score`."""
        ...

    def corpora(self) -> Mapping[str, ServedCorpus]:
        """Return the corpora by name, as of the last update; the first is the default."""
        ...

    def tools(self, corpus: str, retriever: str) -> BackendTools:
        """Return the tools for one request."""
        ...

    async def matches(self, corpus: str, only: ChunkFilter) -> bool:
        """Return whether any chunk passes the filter."""
        ...

    async def names(self, corpus: str, prefix: str, limit: int) -> list[str]:
        """Return names of drugs or documents that begin with, or contain, the prefix."""
        ...

    async def passage(self, corpus: str, chunk_id: str) -> ChunkContext | None:
        """Return a chunk with its context, None where the index has no such chunk."""
        ...

    async def ready(self) -> Mapping[str, str]:
        """Return the parts that are not ready, with the reason; empty where all are."""
        ...


Rejection = Literal["key", "rate", "concurrency"]


class RequestMetrics(Protocol):
    """Metrics of requests. The methods are called in the event loop, several times per request, and must not block."""

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request ended. `route` is a template like /v1/passages/{chunk_id}; 499: client closed."""
        ...

    def phase(self, phase: str, seconds: float) -> None:
        """Duration of rewrite, search, postprocess or answer."""
        ...

    def in_flight(self, requests: int) -> None:
        """Number of requests in progress."""
        ...

    def degraded(self, reason: str) -> None:
        """An answer was given without a part of the service. `reason` is a fixed name."""
        ...

    def rejected(self, why: Rejection) -> None:
        """A request was rejected before processing."""
        ...
