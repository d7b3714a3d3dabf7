"""Answers questions in the process that holds the index; one question uses one index version."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import nan
from typing import Any

from fdarx_core.llm import AskingStopped, response_to
from fdarx_core.rag.answers import answer_question, stream_answer
from fdarx_core.rag.flow import RetrievalResult, retrieve_contexts
from fdarx_core.rag.gated_reply import CitedAnswer
from fdarx_core.rag.query import RagQuery
from fdarx_core.rag.search import IndexNames, Role, SearchQuery, TaskCall, search_index
from fdarx_core.records import Response, SearchHit
from fdarx_core.retrieval.encoders import Vectors
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.retrievers import Retriever
from fdarx_core.telemetry import child_spans_of, span
from fdarx_core.verify import VerificationEngine
from serving.http.backend import AnswerEvent, FoundT, Overloaded, Unavailable
from serving.model_clients import ModelClients

_FEW_CHUNKS = 5_000
"""The most chunks that are searched by words without a thread: the search takes about a millisecond, and
handing it to a thread, which waits for the interpreter lock, up to five."""
_MODEL_FAILURES = (AskingStopped, asyncio.TimeoutError)


class QuestionAnswering(ABC):
    """Answers questions about corpora. A subclass has the indexes, the models and the reranker.

    The argument `parent_span` is the span of the request that asks, as `trace_parent` returns it.

    Attributes:
        models: asks the models.
        answerer: the name of the model that writes the answers.
        max_context_characters: how many characters of contexts it can be shown; None for any number.
        model_timeout_s: the seconds that a model may take for a reply, or for its next piece.
        verifier: the engine that verifies the statements of answers; None: the answering model verifies.
    """

    models: ModelClients
    answerer: str
    max_context_characters: int | None
    model_timeout_s: float
    verifier: VerificationEngine | None

    @abstractmethod
    def index_of(self, corpus: str) -> IndexReader:
        """Return the version of the corpus's index in use."""

    @abstractmethod
    async def encode(self, queries: Sequence[SearchQuery]) -> Vectors:
        """Return the vectors of queries, shape (queries, dimensions)."""

    @abstractmethod
    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question. Raises Unavailable, Overloaded."""

    async def search(self, corpus: str, query: RagQuery, parent_span: str = "") -> RetrievalResult | None:
        """Return the passages for a question; None where no passage passes its filter."""
        with child_spans_of(parent_span):
            found = await self._retrieve(corpus, query)
            return None if found is None else _without_internal_fields(found[0])

    async def answer(
        self, corpus: str, query: RagQuery, parent_span: str = ""
    ) -> tuple[RetrievalResult, CitedAnswer] | None:
        """Return the passages for a question, and the answer from them; None as for `search`."""
        with child_spans_of(parent_span):
            if (found := await self._retrieve(corpus, query)) is None:
                return None
            result, backend = found
            with span("answer", {"fdarx.contexts": len(result.contexts)}):
                return _without_internal_fields(result), await answer_question(result, backend, self.verifier)

    async def stream_answer(
        self, corpus: str, query: RagQuery, parent_span: str = ""
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Yield what `search` returns, then the pieces of the answer, and at the end the answer."""
        with child_spans_of(parent_span):
            found = await self._retrieve(corpus, query)
            if found is None:
                yield None
                return
            result, backend = found
            yield _without_internal_fields(result)
            with span("answer", {"fdarx.contexts": len(result.contexts)}):
                async with aclosing(stream_answer(result, backend, backend.stream, self.verifier)) as pieces:
                    async for piece in pieces:
                        yield piece

    async def run_on_index(self, corpus: str, function: Callable[..., FoundT], *arguments: Any) -> FoundT:
        """Call a function with the index of a corpus and the arguments, in a thread."""
        return await asyncio.to_thread(function, self.index_of(corpus), *arguments)

    async def _retrieve(self, corpus: str, query: RagQuery) -> tuple[RetrievalResult, QuestionBackend] | None:
        index = self.index_of(corpus)
        has_filter = replace(query.filter, any_drug=False) != ChunkFilter()
        if has_filter and not index.matching(query.filter).any():
            return None
        backend = QuestionBackend(index, query.retriever, self)
        result = await retrieve_contexts(query, backend)
        result.missing += backend.failures
        result.version = index.version
        return result, backend


def _without_internal_fields(result: RetrievalResult) -> RetrievalResult:
    """Return a result without the fields that are not sent to clients."""
    return replace(result, candidates=[], prompt_contexts=[])


class QuestionBackend(IndexNames):
    """Search, models and reranker for one question (`RagBackend`).

    If a model fails, only its reply is missing; the passages are still returned. A model fails when it is down, or
    when a whole reply, or the next piece of a streamed one, takes longer than `model_timeout_s` seconds; its response
    then has the reason. If the reranker fails, the candidates keep their order, and `failures` has the reason.
    """

    def __init__(self, index: IndexReader, retriever: str | Retriever, service: QuestionAnswering) -> None:
        super().__init__(index)
        self._retriever, self._service = retriever, service
        self.answerer, self.max_context_characters = service.answerer, service.max_context_characters
        self.failures: list[str] = []

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        index, retriever = self._index, self._retriever
        needs_vectors = isinstance(retriever, str) and index.needs_vectors(retriever)
        if isinstance(retriever, str) and not needs_vectors and len(index) <= _FEW_CHUNKS:
            return search_index(index, queries, filter, k, retriever, None)
        vectors = await self._service.encode(queries) if needs_vectors else None
        return await asyncio.to_thread(search_index, index, queries, filter, k, retriever, vectors)

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        try:
            return await asyncio.wait_for(self._service.rerank(question, texts), self._service.model_timeout_s)
        except Overloaded:
            raise
        except (Unavailable, asyncio.TimeoutError) as error:
            self.failures.append(f"rerank: {_reason(error)}: {error}")
            return [nan] * len(texts)

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        try:
            return await asyncio.wait_for(self._service.models.ask(role, calls), self._service.model_timeout_s)
        except _MODEL_FAILURES as error:
            return [_failed_response(call, error) for call in calls]

    async def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        try:
            async with aclosing(self._service.models.stream(role, call)) as pieces:
                while True:
                    yield await asyncio.wait_for(anext(pieces), self._service.model_timeout_s)
        except StopAsyncIteration:
            return
        except _MODEL_FAILURES as error:
            yield _failed_response(call, error)


def _failed_response(call: TaskCall, error: Exception) -> Response:
    task, slots = call
    return response_to(task.request(slots, endpoint="model"), str(error), reason=_reason(error))


def _reason(error: Exception) -> str:
    return "too_slow" if isinstance(error, asyncio.TimeoutError) else "unavailable"
