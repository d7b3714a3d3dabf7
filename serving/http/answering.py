"""From an HTTP request to its reply: resolve the options, retrieve passages, ask the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fdarx_core.llm import AskingStopped, response_to
from fdarx_core.llm.failures import Failure
from fdarx_core.rag.flow import RagConfig, RagReply, RetrievalResult, answer_question, retrieve_contexts, stream_answer
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.records import Response, SearchHit
from fdarx_core.retrieval.index import ChunkFilter
from serving.config import ServiceSettings
from serving.http.backend import BackendTools, Overloaded, RequestMetrics, ServedCorpus, ServiceBackend, Unavailable
from serving.http.logs import RequestLog
from serving.http.responses import ApiError, unknown_name_error
from serving.http.schemas import SearchFilter, SearchOptions

ValueT = TypeVar("ValueT")
_MODEL_FAILURES = (AskingStopped, Failure, Unavailable, asyncio.TimeoutError)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A question and how to answer it. `started` is its arrival on the monotonic clock."""

    question: str
    corpus: ServedCorpus
    retriever: str
    config: RagConfig
    tools: Fallback
    started: float


async def resolve_request(
    question: str, corpus: str | None, options: SearchOptions, backend: ServiceBackend, settings: ServiceSettings
) -> ResolvedRequest:
    """Check a request, and fill in the defaults.

    Raises ApiError 422 for a wrong value, with the valid ones, and 404 where the filter leaves no passage.
    """
    started, question = time.monotonic(), _question(question, settings.longest_question)
    served = select_corpus(corpus, backend)
    strategy = _one_of(STRATEGIES, options.strategy or settings.strategy, "strategy")
    postprocess = options.postprocess or settings.postprocess
    _check_known(postprocess, backend.postprocessors, "postprocess")
    default = settings.retriever if settings.retriever in served.retrievers else served.retrievers[0]
    retriever = options.retriever or default
    _check_known(retriever, served.retrievers, "retriever")
    k, candidates = _counts(options, settings)
    if postprocess == "none" and not strategy.calls(question):
        candidates = k  # a single search needs no pooling: more candidates would be transferred for nothing
    only = _filter(options.filter or SearchFilter(), options.exclude)
    if replace(only, any_drug=False) != ChunkFilter() and not await backend.matches(served.name, only):
        raise ApiError(404, _NOTHING.format(served.name), param="filter", code="no_match")
    config = RagConfig(strategy, postprocess, candidates, k, backend.budget, only)
    return ResolvedRequest(
        question, served, retriever, config, Fallback(backend.tools(served.name, retriever), settings.model_s), started
    )


_NOTHING = "Nothing in {!r} matches the filter; GET /v1/names lists names, and exclude may leave too much out."


def select_corpus(name: str | None, backend: ServiceBackend) -> ServedCorpus:
    """Return the named corpus, by default the first. Raises ApiError 422, or Unavailable while none is loaded."""
    corpora = backend.corpora()
    if not corpora:
        raise Unavailable("the index", "no corpus is loaded")
    return _one_of(corpora, next(iter(corpora)) if name is None else name, "corpus")


class Fallback:
    """Tools for one request, of which a failing model costs only its reply, never the passages.

    A model fails when it is down, or sends nothing for `timeout_s` seconds; its response then has the reason.
    """

    def __init__(self, tools: BackendTools, timeout_s: float) -> None:
        self._tools, self._timeout_s = tools, timeout_s

    @property
    def version(self) -> str:
        return self._tools.version

    async def ask(self, role: Role, asks: Sequence[TaskCall]) -> list[Response]:
        try:
            return await asyncio.wait_for(self._tools.ask(role, asks), self._timeout_s)
        except Overloaded:
            raise
        except _MODEL_FAILURES as error:
            return [_failed_response(ask, error) for ask in asks]

    async def stream(self, role: Role, ask: TaskCall) -> AsyncGenerator[str | Response, None]:
        try:
            async with aclosing(self._tools.stream(role, ask)) as pieces:
                while True:
                    yield await asyncio.wait_for(anext(pieces), self._timeout_s)
        except StopAsyncIteration:
            return
        except Overloaded:
            raise
        except _MODEL_FAILURES as error:
            yield _failed_response(ask, error)

    async def search(self, searches: Sequence[SearchQuery], only: ChunkFilter, k: int) -> list[list[SearchHit]]:
        return await self._tools.search(searches, only, k)

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        return await self._tools.rerank(question, texts)


def _failed_response(ask: TaskCall, error: Exception) -> Response:
    task, slots = ask
    late = isinstance(error, asyncio.TimeoutError)
    reason = error.reason if isinstance(error, Failure) else "too_slow" if late else "unavailable"
    return response_to(task.request(slots, endpoint="model"), str(error), reason=reason)


def _question(given: str, longest: int) -> str:
    question = given.strip()
    if not question:
        raise ApiError(422, "The question is empty: ask something.", param="question", code="empty")
    if len(question) > longest:
        message = f"The question has {len(question)} characters; the maximum is {longest}."
        raise ApiError(422, message, param="question", code="too_long")
    return question


def _counts(options: SearchOptions, settings: ServiceSettings) -> tuple[int, int]:
    k = options.k or settings.k
    candidates = options.candidates or max(settings.candidates, k)
    if candidates < k:
        raise ApiError(
            422, f"candidates ({candidates}) can't be fewer than k ({k}).", param="candidates", code="invalid"
        )
    return k, candidates


def _filter(given: SearchFilter, exclude: Sequence[str]) -> ChunkFilter:
    left_out = tuple(name for one in exclude if (name := one.strip()))
    named = given.drug.strip(), given.set_id.strip(), given.title.strip()
    return ChunkFilter(*named, left_out, any_drug=given.any_drug)


def _check_known(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise unknown_name_error(what, name, known, param=what)


def _one_of(known: Mapping[str, ValueT], name: str, what: str) -> ValueT:
    _check_known(name, [*known], what)
    return known[name]


_PHASES = ("rewrite", "search", "postprocess")


def search_reply(id_: str, request: ResolvedRequest, result: RetrievalResult) -> dict[str, Any]:
    """Return a SearchReply."""
    timings = {phase: _ms(result.seconds.get(phase, 0.0)) for phase in _PHASES}
    return {
        "id": id_,
        "question": request.question,
        "degraded": degraded_parts(result, None),
        "passages": [_passage(number, found) for number, found in enumerate(result.contexts, 1)],
        "strategy": request.config.strategy.name,
        "retriever": request.retriever,
        "postprocess": request.config.postprocess,
        "searches": [search.text for search in result.searches],
        "timings_ms": {**timings, "answer": 0.0, "total": _ms(time.monotonic() - request.started)},
        "index": {"corpus": request.corpus.name, "version": request.tools.version or request.corpus.version},
        "usage": _usage(_responses(result)),
    }


def pending_reply(id_: str, request: ResolvedRequest, result: RetrievalResult, model: str) -> dict[str, Any]:
    """Return an AnswerReply without an answer yet."""
    answer = {"answer": "", "refused": False, "citations": [], "model": model}
    return search_reply(id_, request, result) | answer


def answer_reply(
    pending: dict[str, Any], request: ResolvedRequest, result: RetrievalResult, reply: RagReply
) -> dict[str, Any]:
    """Return the AnswerReply, from the one without an answer."""
    read, took = reply.read, {"answer": _ms(reply.seconds), "total": _ms(time.monotonic() - request.started)}
    responses = [*_responses(result), *([reply.response] if reply.response else [])]
    return pending | {
        "answer": read.text,
        "refused": read.refused,
        "citations": read.citations,
        "degraded": degraded_parts(result, reply),
        "passages": [passage | {"cited": passage["n"] in read.citations} for passage in pending["passages"]],
        "timings_ms": pending["timings_ms"] | took,
        "usage": _usage(responses),
    }


def degraded_parts(result: RetrievalResult, reply: RagReply | None) -> str | None:
    """Return the parts that failed, by fixed names, or None; the servers' own messages are not shown to clients."""
    missing = dict.fromkeys(_names(line) for line in result.missing)
    if reply and reply.reason:
        reason = reply.response.reason if reply.response and reply.response.reason else _names(reply.reason, 1)
        missing[f"answer: {reason}"] = None
    return "; ".join(missing) or None


def _names(line: str, parts: int = 2) -> str:
    """Return the first parts of a line such as "hyde_passage: failed_request: DETAILS"."""
    return ": ".join(line.split(": ")[:parts])


def _passage(number: int, found: SearchHit) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "n": number,
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "title": chunk.title,
        "section": chunk.section,
        "text": chunk.text,
        "set_id": chunk.set_id,
        "drug": chunk.drug,
        "score": found.score,
        "rerank": found.rerank,
        "cited": False,
    }


def _responses(result: RetrievalResult) -> list[Response]:
    return [*result.rewritten, *result.scored]


def _usage(responses: Sequence[Response]) -> dict[str, int]:
    return {
        "prompt_tokens": sum(response.prompt_tokens for response in responses),
        "completion_tokens": sum(response.completion_tokens for response in responses),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


@dataclass(frozen=True, slots=True)
class RetrievedRequest:
    """A question with its passages. `reply` is the AnswerReply without an answer yet."""

    request: ResolvedRequest
    result: RetrievalResult
    reply: dict[str, Any]
    log: RequestLog


class AnswerService:
    """Retrieves passages and answers questions; keeps metrics and the request's log."""

    def __init__(self, backend: ServiceBackend, settings: ServiceSettings, metrics: RequestMetrics) -> None:
        self._backend, self._settings, self._metrics = backend, settings, metrics

    async def search(
        self, question: str, corpus: str | None, options: SearchOptions, log: RequestLog
    ) -> dict[str, Any]:
        """Return a SearchReply. Raises ApiError, Unavailable."""
        request, result = await self._retrieve(question, corpus, options, log)
        reply = search_reply(log.request_id, request, result)
        self._degraded(reply, log)
        return reply

    async def retrieve(
        self, question: str, corpus: str | None, options: SearchOptions, log: RequestLog
    ) -> RetrievedRequest:
        """Retrieve the passages for an answer. Raises ApiError, Unavailable."""
        request, result = await self._retrieve(question, corpus, options, log)
        return RetrievedRequest(
            request, result, pending_reply(log.request_id, request, result, self._backend.answerer), log
        )

    async def answer(self, found: RetrievedRequest) -> dict[str, Any]:
        """Return an AnswerReply. Raises Overloaded."""
        return self._finish(found, await answer_question(found.request.question, found.result, found.request.tools))

    async def stream(self, found: RetrievedRequest) -> AsyncGenerator[str | dict[str, Any], None]:
        """Yield the pieces of the answer, then the complete AnswerReply. Raises Overloaded."""
        found.log.stream = True
        request = found.request
        async with aclosing(stream_answer(request.question, found.result, request.tools)) as pieces:
            async for piece in pieces:
                yield piece if isinstance(piece, str) else self._finish(found, piece)

    async def _retrieve(
        self, question: str, corpus: str | None, options: SearchOptions, log: RequestLog
    ) -> tuple[ResolvedRequest, RetrievalResult]:
        log.question = question
        request = await resolve_request(question, corpus, options, self._backend, self._settings)
        config = request.config
        log.corpus, log.strategy = request.corpus.name, config.strategy.name
        log.retriever, log.postprocess = request.retriever, config.postprocess
        result = await retrieve_contexts(request.question, config, request.tools)
        log.passages = len(result.contexts)
        for phase, seconds in result.seconds.items():
            self._metrics.phase(phase, seconds)
        return request, result

    def _finish(self, found: RetrievedRequest, reply: RagReply) -> dict[str, Any]:
        answered, log = answer_reply(found.reply, found.request, found.result, reply), found.log
        log.citations, log.refused = len(reply.read.citations), reply.read.refused
        log.prompt_tokens = answered["usage"]["prompt_tokens"]
        log.completion_tokens = answered["usage"]["completion_tokens"]
        self._metrics.phase("answer", reply.seconds)
        self._degraded(answered, log)
        return answered

    def _degraded(self, reply: dict[str, Any], log: RequestLog) -> None:
        if reply["degraded"]:
            log.degraded = reply["degraded"]
            self._metrics.degraded(log.degraded)
