"""Interfaces that the HTTP service needs from its surroundings: the backend that searches and answers, and metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from fdarx_core.pipeline.uploading import UploadedDocuments
from fdarx_core.rag.flow import RetrievalResult
from fdarx_core.rag.gated_reply import AnswerPiece, CitedAnswer
from fdarx_core.rag.query import RagQuery

FoundT = TypeVar("FoundT")

Record = Callable[..., None]
"""Records a value of a metric, as `serving.metrics.record` does: record(name, value, **labels). It is called in the
event loop, several times per request, and must not block."""

AnswerEvent: TypeAlias = RetrievalResult | AnswerPiece | CitedAnswer | None
"""A part of a streamed answer."""


class Unavailable(Exception):
    """A part of the service is down. `part` is its name in messages (the index, the reranker …), `why` is logged."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part, why)
        self.part, self.why = part, why


class Overloaded(Unavailable):
    """A part of the service rejects requests because its queue is full; the request may be repeated."""


@dataclass(frozen=True, slots=True)
class ServedCorpus:
    """An index in use, and the retrievers that can search it."""

    name: str  # without "/", since chat clients name a model as CORPUS/STRATEGY
    version: str
    kind: Literal["labels", "documents"]
    chunks: int
    documents: int
    retrievers: tuple[str, ...]


class ServiceBackend(Protocol):
    """Corpora and models behind the HTTP service. Methods are called in the event loop, concurrently.

    A question is answered in one call, where its index is. Methods raise Unavailable or Overloaded; a model that is
    down is no error: the result then says what is missing.

    Attributes:
        answerer: name of the model that writes the answers.
        hypothesis: name of the model that writes hypothetical answers.
        postprocessors: the available ones of `none`, `rerank` and `score`.
    """

    @property
    def answerer(self) -> str: ...
    @property
    def hypothesis(self) -> str: ...
    @property
    def postprocessors(self) -> Sequence[str]: ...

    def corpora(self) -> Mapping[str, ServedCorpus]:
        """Return the corpora by name, as of the last update; the first is the default."""

    async def search(self, corpus: str, query: RagQuery) -> RetrievalResult | None:
        """Return the passages for a question; None where no passage passes its filter."""

    async def answer(self, corpus: str, query: RagQuery) -> tuple[RetrievalResult, CitedAnswer] | None:
        """Return the passages for a question, and the answer from them; None as for `search`."""

    def stream_answer(self, corpus: str, query: RagQuery) -> AsyncGenerator[AnswerEvent, None]:
        """Yield what `search` returns, then the pieces of the answer, and at the end the answer."""

    async def look_up(self, corpus: str, find: Callable[..., FoundT], *arguments: Any) -> FoundT:
        """Return what a function finds in a corpus, from its `IndexReader` and the arguments."""

    async def add_documents(self, corpus: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        """Add the documents of a client's file to a corpus as `UploadIndexer.add` does.

        Returns once searches find them; where the call is cancelled, the file is not read any further.

        Raises Unavailable for a backend that takes no documents.
        """

    async def ready(self) -> Mapping[str, str]:
        """Return the parts that are not ready, with the reason; empty where all are."""
