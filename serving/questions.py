"""Answering a question where its index is: names, retrieval, models and the gate, over one version of the index."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import nan
from typing import Any

from fdarx_core.llm import AskingStopped, response_to
from fdarx_core.llm.failures import Failure
from fdarx_core.rag.answers import answer_question, stream_answer
from fdarx_core.rag.flow import RetrievalResult, retrieve_contexts
from fdarx_core.rag.gated_reply import CitedAnswer
from fdarx_core.rag.query import RagQuery
from fdarx_core.rag.search import IndexNames, Role, SearchQuery, TaskCall, search_index
from fdarx_core.records import Response, SearchHit
from fdarx_core.retrieval.encoders import Vectors
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.retrievers import Retriever
from fdarx_core.telemetry import below, span
from fdarx_core.verify import VerificationEngine
from serving.http.backend import AnswerEvent, FoundT, Overloaded, Unavailable
from serving.model_clients import ModelClients

_FEW_CHUNKS = 5_000
"""The most chunks that are searched by words without a thread: the search takes about a millisecond, and the change
between threads, which wait for each other's turn, up to five."""
_MODEL_FAILURES = (AskingStopped, Failure, Unavailable, asyncio.TimeoutError)


class QuestionAnswering(ABC):
    """Answers questions to corpora. A subclass has the indexes, the models and the reranker.

    The argument `parent` is the span of the request that asks, as `trace_parent` returns it.

    Attributes:
        models: asks the models.
        answerer: the name of the model that writes the answers.
        budget: how many characters of contexts it can be shown; None for any number.
        model_s: the seconds that a model may take for a reply, or for its next piece.
        verifier: the engine that verifies the statements of answers; None for the model that answers.
    """

    models: ModelClients
    answerer: str
    budget: int | None
    model_s: float
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

    async def search(self, corpus: str, query: RagQuery, parent: str = "") -> RetrievalResult | None:
        """Return the passages for a question; None where no passage passes its filter."""
        with below(parent):
            found = await self._retrieve(corpus, query)
            return found and _sent(found[0])

    async def answer(
        self, corpus: str, query: RagQuery, parent: str = ""
    ) -> tuple[RetrievalResult, CitedAnswer] | None:
        """Return the passages for a question, and the answer from them; None as for `search`."""
        with below(parent):
            if (found := await self._retrieve(corpus, query)) is None:
                return None
            result, tools = found
            with span("answer", {"fdarx.contexts": len(result.contexts)}):
                return _sent(result), await answer_question(result, tools, self.verifier)

    async def stream_answer(self, corpus: str, query: RagQuery, parent: str = "") -> AsyncGenerator[AnswerEvent, None]:
        """Yield what `search` returns, then the pieces of the answer, and at the end the answer."""
        with below(parent):
            found = await self._retrieve(corpus, query)
            yield found and _sent(found[0])
            if found is None:
                return
            result, tools = found
            with span("answer", {"fdarx.contexts": len(result.contexts)}):
                async with aclosing(stream_answer(result, tools, tools.stream, self.verifier)) as pieces:
                    async for piece in pieces:
                        yield piece

    async def look_up(self, corpus: str, find: Callable[..., FoundT], *arguments: Any) -> FoundT:
        """Return what a function finds in a corpus, from its index and the arguments."""
        return await asyncio.to_thread(find, self.index_of(corpus), *arguments)

    async def _retrieve(self, corpus: str, query: RagQuery) -> tuple[RetrievalResult, QuestionTools] | None:
        index = self.index_of(corpus)
        if replace(query.filter, any_drug=False) != ChunkFilter() and not index.matching(query.filter).any():
            return None
        tools = QuestionTools(index, query.retriever, self)
        result = await retrieve_contexts(query, tools)
        result.missing += tools.missing
        result.version = index.version
        return result, tools


def _sent(result: RetrievalResult) -> RetrievalResult:
    """Return a result without what replies do not have."""
    return replace(result, candidates=[], prompt_contexts=[])


class QuestionTools(IndexNames):
    """Search, models and reranker for one question (`RagBackend`).

    If a model fails, only its reply is missing; the passages are still returned. A model fails when it is down, or
    sends nothing for `model_s` seconds; its response then has the reason. If the reranker fails, the candidates keep
    their order, and `missing` has the reason.
    """

    def __init__(self, index: IndexReader, retriever: str | Retriever, parts: QuestionAnswering) -> None:
        super().__init__(index)
        self._retriever, self._parts = retriever, parts
        self.answerer, self.budget = parts.answerer, parts.budget
        self.missing: list[str] = []

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        index, retriever = self._index, self._retriever
        needs = isinstance(retriever, str) and index.needs_vectors(retriever)
        if isinstance(retriever, str) and not needs and len(index) <= _FEW_CHUNKS:
            return search_index(index, queries, filter, k, retriever, None)
        vectors = await self._parts.encode(queries) if needs else None
        return await asyncio.to_thread(search_index, index, queries, filter, k, retriever, vectors)

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        try:
            return await asyncio.wait_for(self._parts.rerank(question, texts), self._parts.model_s)
        except Overloaded:
            raise
        except (Unavailable, asyncio.TimeoutError) as error:
            self.missing.append(f"rerank: {_reason(error)}: {error}")
            return [nan] * len(texts)

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        try:
            return await asyncio.wait_for(self._parts.models.ask(role, calls), self._parts.model_s)
        except Overloaded:
            raise
        except _MODEL_FAILURES as error:
            return [_failed_response(call, error) for call in calls]

    async def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        try:
            async with aclosing(self._parts.models.stream(role, call)) as pieces:
                while True:
                    yield await asyncio.wait_for(anext(pieces), self._parts.model_s)
        except StopAsyncIteration:
            return
        except Overloaded:
            raise
        except _MODEL_FAILURES as error:
            yield _failed_response(call, error)


def _failed_response(call: TaskCall, error: Exception) -> Response:
    task, slots = call
    return response_to(task.request(slots, endpoint="model"), str(error), reason=_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, Failure):
        return error.reason
    return "too_slow" if isinstance(error, asyncio.TimeoutError) else "unavailable"
