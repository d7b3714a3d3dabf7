"""Interfaces that the HTTP service needs from its surroundings: the backend that searches and answers, and metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fdarx_core.labels.drugs import Mention
from fdarx_core.pipeline.uploading import UploadedDocuments
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.records import AbsentDrug, Chunk, Response, SearchHit
from fdarx_core.retrieval.index import ChunkFilter, FilterValue, LabelSection, NameCompletion

Record = Callable[..., None]
"""Records a value of a metric, as `serving.metrics.record` does: record(name, value, **labels). It is called in the
event loop, several times per request, and must not block."""


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

    Search and reranking raise Unavailable or Overloaded. A model that is down gives a Response with a reason, or raises
    AskingStopped, Failure or Unavailable; one that is busy raises Overloaded.

    Attributes:
        answerer: name of the model that writes the answers.
        hypothesis: name of the model that writes hypothetical answers.
        budget: characters of passages that fit into the answering model's prompt; None: any number.
        postprocessors: the available ones of `none`, `rerank` and `score`.
    """

    @property
    def answerer(self) -> str: ...
    @property
    def hypothesis(self) -> str: ...
    @property
    def budget(self) -> int | None: ...
    @property
    def postprocessors(self) -> Sequence[str]: ...

    def corpora(self) -> Mapping[str, ServedCorpus]:
        """Return the corpora by name, as of the last update; the first is the default."""

    async def search(
        self, corpus: str, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int, retriever: str
    ) -> tuple[str, list[list[SearchHit]]]:
        """Return the version of the index that answers, and from it the k best chunks for each query, best first."""

    async def absent_drugs(self, corpus: str, text: str) -> list[AbsentDrug]:
        """Return the medicines that a text names and that no label of the corpus is of."""

    async def find_drugs(self, corpus: str, texts: Sequence[str]) -> list[list[Mention]]:
        """Return the places of each text that name drugs of the corpus, in order."""

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question; higher is better."""

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        """Return the responses of the model that plays the role, in order."""

    def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        """Yield the text of a reply piece by piece, and at the end the complete Response."""

    async def matches(self, corpus: str, filter: ChunkFilter) -> bool:
        """Return whether any chunk passes the filter."""

    async def names(self, corpus: str, prefix: str, limit: int) -> list[NameCompletion]:
        """Return names of drugs or documents by a prefix, as `NameCompleter` completes them."""

    async def filter_values(self, corpus: str, labeler: str, limit: int) -> dict[str, list[FilterValue]]:
        """Return the values of the filters section, document_type and labeler, of labelers those with this text."""

    async def passage(self, corpus: str, chunk_id: str) -> tuple[Chunk, list[Chunk]] | None:
        """Return a chunk, and the chunks of its section in order, itself included; where it is alone, its neighbors.

        None where the index has no such chunk.
        """

    async def section(self, corpus: str, label: str, section: str) -> LabelSection:
        """Return a section of a label, as `find_section` finds it."""

    async def add_documents(self, corpus: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        """Add the documents of a client's file to a corpus as `UploadIndexer.add` does.

        Returns once searches find them; where the call is cancelled, the file is not read any further.

        Raises Unavailable for a backend that takes no documents.
        """

    async def ready(self) -> Mapping[str, str]:
        """Return the parts that are not ready, with the reason; empty where all are."""
