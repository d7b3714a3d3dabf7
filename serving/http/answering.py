"""The steps from an HTTP request to its reply: resolve the options, retrieve passages, ask the model."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from math import nan
from typing import Any, TypeVar

from fdarx_core.labels.drugs import Mention
from fdarx_core.llm import AskingStopped, response_to
from fdarx_core.llm.failures import Failure
from fdarx_core.rag.answers import AnswerPiece, CitedAnswer, answer_question, stream_answer
from fdarx_core.rag.conversation import Turn, standalone_question
from fdarx_core.rag.flow import (
    RagConfig,
    RetrievalResult,
    retrieve_contexts,
)
from fdarx_core.rag.gate import INSTRUCTIONS_WITHHELD, GateReport, repeats
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.rag.tasks import RAG_TASKS
from fdarx_core.rag.verifying import named_engine
from fdarx_core.records import AbsentDrug, Citation, NumberDifference, OtherLabel, Response, SearchHit
from fdarx_core.retrieval.index import ChunkFilter
from fdarx_core.telemetry import span
from serving.http.backend import Overloaded, Record, ServedCorpus, ServiceBackend, Unavailable
from serving.http.feedback import FeedbackFile
from serving.http.logs import RequestLog
from serving.http.responses import ApiError, unknown_name_error
from serving.http.schemas import SearchFilter, SearchOptions
from serving.settings import ServiceSettings

ValueT = TypeVar("ValueT")
_MODEL_FAILURES = (AskingStopped, Failure, Unavailable, asyncio.TimeoutError)
_PHASES = ("rewrite", "search", "postprocess")
_SHOWN = (
    *("document_id", "title", "section", "section_code", "section_number", "table_header"),
    *("text", "set_id", "drug", "moieties"),
)
_SHOWN_OF_LABEL = ("labeler", "document_type", "document_type_name", "version", "effective_date")
_NO_MATCH = (
    "Nothing in {!r} matches the filter; GET /v1/names and /v1/filters list values; exclude may leave too much out."
)


@dataclass(frozen=True, slots=True)
class RetrievedRequest:
    """A standalone question with its passages.

    `reply` is the reply without an answer; `started` is on the monotonic clock.
    """

    question: str
    result: RetrievalResult
    tools: RequestTools
    reply: dict[str, Any]
    log: RequestLog
    started: float


class AnswerService:
    """Retrieves passages and answers questions; records metrics and fills in the request's log."""

    def __init__(
        self, backend: ServiceBackend, settings: ServiceSettings, record: Record, feedback: FeedbackFile | None = None
    ) -> None:
        self._backend, self._settings, self._record, self._feedback = backend, settings, record, feedback
        self._verifier = named_engine(settings.verifier, backend.answerer)

    async def search(
        self,
        question: str,
        corpus: str | None,
        options: SearchOptions,
        log: RequestLog,
        history: Sequence[Turn] = (),
    ) -> dict[str, Any]:
        """Return a SearchReply. Raises ApiError, Unavailable."""
        retrieved = await self._retrieve(question, corpus, options, log, history)
        self._record_degraded(retrieved)
        return retrieved.reply

    async def retrieve(
        self,
        question: str,
        corpus: str | None,
        options: SearchOptions,
        log: RequestLog,
        history: Sequence[Turn] = (),
    ) -> RetrievedRequest:
        """Retrieve the passages for an answer. `reply` is then an AnswerReply without an answer.

        Raises ApiError, Unavailable.
        """
        retrieved = await self._retrieve(question, corpus, options, log, history)
        retrieved.reply.update(
            answer="",
            refused=False,
            withheld=False,
            statements=[],
            citations=[],
            gate=asdict(GateReport()),
            columns=[],
            groups=[],
            model=self._backend.answerer,
            signature="",
        )
        return retrieved

    async def answer(self, retrieved: RetrievedRequest) -> dict[str, Any]:
        """Return an AnswerReply. Raises Overloaded."""
        with span("answer", {"fdarx.contexts": len(retrieved.result.contexts)}):
            reply = await answer_question(retrieved.question, retrieved.result, retrieved.tools, self._verifier)
        return self._finish(retrieved, reply)

    async def stream(self, retrieved: RetrievedRequest) -> AsyncGenerator[AnswerPiece | dict[str, Any], None]:
        """Yield the pieces of the answer, then the complete AnswerReply. Raises Overloaded."""
        retrieved.log.stream = True
        answer = stream_answer(retrieved.question, retrieved.result, retrieved.tools, self._verifier)
        with span("answer", {"fdarx.contexts": len(retrieved.result.contexts)}):
            async with aclosing(answer) as pieces:
                async for piece in pieces:
                    yield piece if isinstance(piece, AnswerPiece) else self._finish(retrieved, piece)

    async def _retrieve(
        self,
        question: str,
        corpus: str | None,
        options: SearchOptions,
        log: RequestLog,
        history: Sequence[Turn],
    ) -> RetrievedRequest:
        log.question, started = question, time.monotonic()
        question = _checked_question(question, self._settings.longest_question)
        served = select_corpus(corpus, self._backend)
        retriever, config = await self._resolve(question, served, options)
        log.corpus, log.strategy = served.name, config.strategy.name
        log.retriever, log.postprocess = retriever, config.postprocess
        tools = RequestTools(self._backend, served.name, retriever, self._settings.model_s)
        standalone = await standalone_question(question, history, tools)
        result = await retrieve_contexts(standalone.text, config, tools)
        standalone.add_to(result)
        result.missing.extend(tools.missing)
        log.passages = len(result.contexts)
        for phase, seconds in result.seconds.items():
            self._record("fdarx_phase_seconds", seconds, phase=phase)
        timings = {phase: _ms(result.seconds.get(phase, 0.0)) for phase in _PHASES}
        texts = [standalone.text, *(search.text for search in result.searches)]
        standalone_text, *searches = _without_instructions(texts, question, result)
        reply = {
            "id": log.request_id,
            "question": question,
            "standalone_question": standalone_text,
            "degraded": degraded_parts(result, None),
            "passages": [_passage(number, hit) for number, hit in enumerate(result.contexts, 1)],
            "absent": [_absent(one) for one in result.absent],
            "strategy": config.strategy.name,
            "retriever": retriever,
            "postprocess": config.postprocess,
            "searches": searches,
            "timings_ms": {**timings, "answer": 0.0, "total": _ms(time.monotonic() - started)},
            "index": {"corpus": served.name, "version": tools.version or served.version},
            **_asked(result),
        }
        return RetrievedRequest(standalone.text, result, tools, reply, log, started)

    async def _resolve(self, question: str, corpus: ServedCorpus, options: SearchOptions) -> tuple[str, RagConfig]:
        """Check the options of a request and fill in the defaults; return the retriever and the configuration.

        Raises ApiError 422 for a wrong value, with the valid ones, and 404 where the filter leaves no passage.
        """
        settings, backend = self._settings, self._backend
        strategy = _select(STRATEGIES, options.strategy or settings.strategy, "strategy")
        postprocess = options.postprocess or settings.postprocess
        _check_known(postprocess, backend.postprocessors, "postprocess")
        retriever = options.retriever or settings.default_retriever(corpus.retrievers)
        _check_known(retriever, corpus.retrievers, "retriever")
        k = options.k or settings.k
        candidates = options.candidates or max(settings.candidates, k)
        if candidates < k:
            message = f"candidates ({candidates}) can't be fewer than k ({k})."
            raise ApiError(422, message, param="candidates", code="invalid")
        if postprocess == "none" and not strategy.calls(question):
            candidates = k  # a single search needs no pooling: more candidates would be transferred for nothing
        excluded = tuple(name for one in options.exclude if (name := one.strip()))
        filter = (options.filter or SearchFilter()).chunk_filter(excluded)
        if replace(filter, any_drug=False) != ChunkFilter() and not await backend.matches(corpus.name, filter):
            raise ApiError(404, _NO_MATCH.format(corpus.name), param="filter", code="no_match")
        return retriever, RagConfig(strategy, postprocess, candidates, k, backend.budget, filter)

    def _finish(self, retrieved: RetrievedRequest, reply: CitedAnswer) -> dict[str, Any]:
        """Return the AnswerReply."""
        pending, log = retrieved.reply, retrieved.log
        took = {"answer": _ms(reply.seconds), "total": _ms(time.monotonic() - retrieved.started)}
        asked = _asked(retrieved.result, [*reply.responses, *reply.checks])
        pending |= {
            "answer": reply.text,
            "refused": reply.refused,
            "withheld": reply.withheld,
            "statements": [asdict(one) for one in reply.statements],
            "citations": [_citation(one) for one in reply.citations],
            "gate": asdict(reply.gate),
            "columns": [asdict(one) for one in reply.columns],
            "groups": [asdict(one) for one in reply.groups],
            "degraded": degraded_parts(retrieved.result, reply),
            "passages": [passage | {"cited": passage["n"] in reply.cited} for passage in pending["passages"]],
            "timings_ms": pending["timings_ms"] | took,
            **asked,
        }
        if self._feedback:
            pending["signature"] = self._feedback.sign(pending)
        log.citations, log.refused = len(reply.cited), reply.refused
        self._record_gate(reply.gate, log)
        usage = asked["usage"]
        log.prompt_tokens, log.completion_tokens = usage["prompt_tokens"], usage["completion_tokens"]
        self._record("fdarx_phase_seconds", reply.seconds, phase="answer")
        self._record_degraded(retrieved)
        return pending

    def _record_gate(self, gate: GateReport, log: RequestLog) -> None:
        log.supported, log.unsupported, log.undecided = gate.supported, gate.unsupported, gate.undecided
        log.uncited, log.dropped = gate.uncited, len(gate.dropped)
        outcomes = Counter(supported=gate.supported, undecided=gate.undecided, kept_uncited=gate.uncited)
        outcomes["unsupported"] = gate.unsupported
        outcomes.update(one.reason for one in gate.dropped)
        for outcome, count in outcomes.items():
            if count:
                self._record("fdarx_gate_statements", count, outcome=outcome)

    def _record_degraded(self, retrieved: RetrievedRequest) -> None:
        if retrieved.reply["degraded"]:
            retrieved.log.degraded = retrieved.reply["degraded"]
            self._record("fdarx_degraded", reason=retrieved.log.degraded)


def select_corpus(name: str | None, backend: ServiceBackend) -> ServedCorpus:
    """Return the named corpus, by default the first. Raises ApiError 422, or Unavailable while none is loaded."""
    corpora = backend.corpora()
    if not corpora:
        raise Unavailable("the index", "no corpus is loaded")
    return _select(corpora, next(iter(corpora)) if name is None else name, "corpus")


def _checked_question(given: str, longest: int) -> str:
    question = given.strip()
    if not question:
        raise ApiError(422, "The question is empty: ask something.", param="question", code="empty")
    if len(question) > longest:
        message = f"The question has {len(question)} characters; the maximum is {longest}."
        raise ApiError(422, message, param="question", code="too_long")
    return question


def _check_known(name: str, known: Sequence[str], param: str) -> None:
    if name not in known:
        raise unknown_name_error(name, known, param=param)


def _select(known: Mapping[str, ValueT], name: str, param: str) -> ValueT:
    _check_known(name, [*known], param)
    return known[name]


class RequestTools:
    """Search, models and reranker for one request. `version` is that of the index that answered the last search.

    If a model fails, only its reply is missing; the passages are still returned. A model fails when it is down, or
    sends nothing for `timeout_s` seconds; its response then has the reason. If the reranker fails, the candidates keep
    their order, and `missing` has the reason.
    """

    def __init__(self, backend: ServiceBackend, corpus: str, retriever: str, timeout_s: float) -> None:
        self._backend, self._corpus, self._retriever, self._timeout_s = backend, corpus, retriever, timeout_s
        self.version = ""
        self.missing: list[str] = []

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        self.version, hits = await self._backend.search(self._corpus, queries, filter, k, self._retriever)
        return hits

    async def absent_drugs(self, text: str) -> list[AbsentDrug]:
        return await self._backend.absent_drugs(self._corpus, text)

    async def has_labels(self) -> bool:
        known = self._backend.corpora().get(self._corpus)
        return known is None or known.kind == "labels"

    async def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]]:
        return await self._backend.find_drugs(self._corpus, texts)

    @property
    def answerer(self) -> str:
        return self._backend.answerer

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        try:
            return await asyncio.wait_for(self._backend.rerank(question, texts), self._timeout_s)
        except Overloaded:
            raise
        except (Unavailable, asyncio.TimeoutError) as error:
            self.missing.append(f"rerank: {_reason(error)}: {error}")
            return [nan] * len(texts)

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        try:
            return await asyncio.wait_for(self._backend.ask(role, calls), self._timeout_s)
        except Overloaded:
            raise
        except _MODEL_FAILURES as error:
            return [_failed_response(call, error) for call in calls]

    async def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        try:
            async with aclosing(self._backend.stream(role, call)) as pieces:
                while True:
                    yield await asyncio.wait_for(anext(pieces), self._timeout_s)
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


def degraded_parts(result: RetrievalResult, reply: CitedAnswer | None) -> str | None:
    """Return the parts that failed, by fixed names, or None; the servers' own messages are not shown to clients."""
    missing = dict.fromkeys(_first_parts(line, 2) for line in result.missing)
    if reply and reply.reason:
        own = next((one.reason for one in reply.responses if one.reason), "")
        missing[f"answer: {own or _first_parts(reply.reason, 1)}"] = None
    return "; ".join(missing) or None


def _first_parts(line: str, count: int) -> str:
    """Return the first parts of a line such as "hyde_passage: failed_request: DETAILS"."""
    return ": ".join(line.split(": ")[:count])


def _citation(one: Citation) -> dict[str, Any]:
    place = {"n": one.n, "start": one.start, "end": one.end, "page": one.page, "quote": one.quote}
    statement_start, statement_end = one.statement
    place |= {"statement_start": statement_start, "statement_end": statement_end, "verdict": one.verdict}
    place |= {"uploaded_by": one.uploaded_by}
    return place | {"differences": [_difference(each) for each in one.differences]}


def _passage(number: int, hit: SearchHit) -> dict[str, Any]:
    shown = {name: getattr(hit, name) for name in _SHOWN}
    label = {name: getattr(hit.label, name) for name in _SHOWN_OF_LABEL}
    scores = {"score": hit.score, "rerank": hit.rerank}
    others = {"copies": hit.copies, "copied_by": [_other_label(one) for one in hit.copied_by]}
    others["differences"] = [_difference(one) for one in hit.differences]
    place = {"url": hit.url, "page": hit.chunk.page, "uploaded_by": hit.uploaded_by}
    return {"n": number, "chunk_id": hit.chunk.id, **shown, **label, **others, **place, **scores, "cited": False}


def _other_label(one: OtherLabel) -> dict[str, str]:
    return {"set_id": one.set_id, "drug": one.drug, "effective_date": one.effective_date}


def _difference(one: NumberDifference) -> dict[str, Any]:
    others = [_other_label(other) | {"sentence": other.text} for other in one.others]
    return {"sentence": one.sentence, "others": others}


def _absent(one: AbsentDrug) -> dict[str, Any]:
    mentioned_by = [_other_label(label) for label in one.mentioned_by]
    named = {"name": one.name, "medicine": one.medicine, "nearest": one.nearest}
    return named | {"mentions": one.mentions, "mentioned_by": mentioned_by}


def _asked(result: RetrievalResult, answers: Sequence[Response] = ()) -> dict[str, Any]:
    """Return the prompts with which models were asked, each once, and the tokens of all their responses."""
    responses = [*result.rewritten, *result.scored, *answers]
    prompts = dict.fromkeys((response.task, response.task_version, response.endpoint) for response in responses)
    return {
        "prompts": [{"name": name, "version": version, "model": model} for name, version, model in prompts],
        "usage": {
            "prompt_tokens": sum(response.prompt_tokens for response in responses),
            "completion_tokens": sum(response.completion_tokens for response in responses),
        },
    }


def _without_instructions(texts: Sequence[str], question: str, result: RetrievalResult) -> list[str]:
    """Return texts to search with; one in which a model repeats its instructions is withheld."""
    prompts = [RAG_TASKS[one.task].prompt.system for one in result.rewritten]
    return [
        INSTRUCTIONS_WITHHELD if text != question and any(repeats(text, prompt) for prompt in prompts) else text
        for text in texts
    ]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
