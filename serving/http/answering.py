"""The steps from an HTTP request to its reply: check the options, ask the backend, and write the reply."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from fdarx_core.rag.flow import PHASES, RetrievalResult
from fdarx_core.rag.gate import INSTRUCTIONS_WITHHELD, GateReport, repeats
from fdarx_core.rag.gated_reply import AnswerPiece, CitedAnswer
from fdarx_core.rag.query import RagQuery, Turn
from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.rag.tasks import RAG_TASKS
from fdarx_core.records import Citation, Response, SearchHit
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.specs.serve import ServiceSettings
from serving.backend import RayServeBackend
from serving.http.backend import Record, ServedCorpus, Unavailable
from serving.http.feedback import FeedbackFile
from serving.http.logs import RequestLog
from serving.http.responses import ApiError, unknown_name_error
from serving.http.schemas import (
    AbsentDrugReply,
    AnswerReply,
    LocatedCitation,
    RetrievedPassage,
    SearchFilter,
    SearchReply,
    SearchRequest,
    reply_fields,
)

_MAX_NAMES = 5
_NO_MATCH = (
    "Nothing in {!r} matches the filter; GET /v1/names and /v1/filters list values; exclude may leave too much out."
)


class AnswerService:
    """Retrieves passages and answers questions; records metrics and fills in the request's log."""

    def __init__(
        self, backend: RayServeBackend, settings: ServiceSettings, record: Record, feedback: FeedbackFile | None = None
    ) -> None:
        self._backend, self._settings, self._record, self._feedback = backend, settings, record, feedback

    async def search(self, asked: SearchRequest, log: RequestLog) -> dict[str, Any]:
        """Return a SearchReply. Raises ApiError, Unavailable."""
        started = time.monotonic()
        corpus, query = self._query(asked, log)
        if (result := await self._backend.search(corpus.name, query)) is None:
            raise await self._no_match(corpus, query)
        reply = self._reply(corpus, query, result, log, started)
        self._record_degraded(reply, log)
        return reply

    async def answer(self, asked: SearchRequest, log: RequestLog) -> dict[str, Any]:
        """Return an AnswerReply. Raises ApiError, Unavailable."""
        started = time.monotonic()
        corpus, query = self._query(asked, log)
        if (answered := await self._backend.answer(corpus.name, query)) is None:
            raise await self._no_match(corpus, query)
        result, answer = answered
        return self._finish(self._reply(corpus, query, result, log, started), result, answer, log, started)

    async def stream(self, asked: SearchRequest, log: RequestLog) -> AsyncGenerator[AnswerPiece | dict[str, Any], None]:
        """Yield an AnswerReply without an answer, the pieces of the answer, and the complete AnswerReply.

        Raises ApiError before the first of these, and Unavailable.
        """
        started, log.stream = time.monotonic(), True
        corpus, query = self._query(asked, log)
        async with aclosing(self._backend.stream_answer(corpus.name, query)) as events:
            result = await anext(events)
            if not isinstance(result, RetrievalResult):
                raise await self._no_match(corpus, query)
            reply = self._reply(corpus, query, result, log, started)
            yield reply | self._answer_fields(CitedAnswer(""))
            async for event in events:
                if isinstance(event, AnswerPiece):
                    yield event
                elif isinstance(event, CitedAnswer):
                    yield self._finish(reply, result, event, log, started)

    def _query(self, asked: SearchRequest, log: RequestLog) -> tuple[ServedCorpus, RagQuery]:
        """Check a request and fill in the defaults. Raises ApiError 422 for a wrong value, with the valid ones."""
        log.question, settings = asked.question, self._settings
        question = asked.question.strip()
        if not question:
            raise ApiError(422, "The question is empty: ask something.", param="question", code="empty")
        if len(question) > settings.longest_question:
            message = f"The question has {len(question)} characters; the maximum is {settings.longest_question}."
            raise ApiError(422, message, param="question", code="too_long")
        corpus = select_corpus(asked.corpus, self._backend)
        strategy = asked.strategy or settings.strategy
        _check_known(strategy, [*STRATEGIES], "strategy")
        postprocess = asked.postprocess or settings.postprocess
        _check_known(postprocess, self._backend.postprocessors, "postprocess")
        retriever = asked.retriever or settings.default_retriever(corpus.retrievers)
        _check_known(retriever, corpus.retrievers, "retriever")
        k = asked.k or settings.k
        candidates = asked.candidates or max(settings.candidates, k)
        if candidates < k:
            message = f"candidates ({candidates}) can't be fewer than k ({k})."
            raise ApiError(422, message, param="candidates", code="invalid")
        if postprocess == "none" and not STRATEGIES[strategy].calls(question):
            candidates = k  # a single search needs no pooling: more candidates would be ranked for nothing
        excluded = tuple(name for text in asked.exclude if (name := text.strip()))
        filter = (asked.filter or SearchFilter()).chunk_filter(excluded)
        log.corpus, log.strategy, log.retriever, log.postprocess = corpus.name, strategy, retriever, postprocess
        history = tuple(Turn(turn.question, turn.answer) for turn in asked.history)
        return corpus, RagQuery(question, k, strategy, retriever, postprocess, candidates, filter, history)

    async def _no_match(self, corpus: ServedCorpus, query: RagQuery) -> ApiError:
        """Return the error where the filter leaves no passage, with names that are similar."""
        wanted = [name for name in (query.filter.drug, query.filter.title) if name]
        names = [await similar_names(self._backend, corpus.name, name) for name in wanted]
        return ApiError(404, _NO_MATCH.format(corpus.name) + "".join(names), param="filter", code="no_match")

    def _reply(
        self, corpus: ServedCorpus, query: RagQuery, result: RetrievalResult, log: RequestLog, started: float
    ) -> dict[str, Any]:
        """Return a SearchReply."""
        log.passages = len(result.contexts)
        for phase, seconds in result.seconds.items():
            self._record("fdarx_phase_seconds", seconds, phase=phase)
        timings = {phase: _ms(result.seconds.get(phase, 0.0)) for phase in PHASES}
        texts = [result.question, *(search.text for search in result.searches)]
        standalone_text, *searches = _without_instructions(texts, query.question, result)
        return {
            **reply_fields(SearchReply, query),
            "id": log.request_id,
            "standalone_question": standalone_text,
            "degraded": degraded_parts(result, None),
            "passages": [_passage(number, hit) for number, hit in enumerate(result.contexts, 1)],
            "corrections": [{"written": written, "name": name} for written, name in result.corrections],
            "absent": [reply_fields(AbsentDrugReply, drug) for drug in result.absent],
            "searches": searches,
            "timings_ms": {**timings, "answer": 0.0, "total": _ms(time.monotonic() - started)},
            "index": {"corpus": corpus.name, "version": result.version},
            **_asked(result),
        }

    def _finish(
        self, reply: dict[str, Any], result: RetrievalResult, answer: CitedAnswer, log: RequestLog, started: float
    ) -> dict[str, Any]:
        """Return the AnswerReply."""
        took = {"answer": _ms(answer.seconds), "total": _ms(time.monotonic() - started)}
        asked = _asked(result, [*answer.responses, *answer.checks])
        whole = {
            **reply,
            **self._answer_fields(answer),
            "degraded": degraded_parts(result, answer),
            "passages": [passage | {"cited": passage["n"] in answer.cited} for passage in reply["passages"]],
            "timings_ms": reply["timings_ms"] | took,
            **asked,
        }
        if self._feedback:
            whole["signature"] = self._feedback.sign(whole)
        log.citations, log.refused = len(answer.cited), answer.refused
        self._record_gate(answer.gate, log)
        usage = asked["usage"]
        log.prompt_tokens, log.completion_tokens = usage["prompt_tokens"], usage["completion_tokens"]
        self._record("fdarx_phase_seconds", answer.seconds, phase="answer")
        self._record_degraded(whole, log)
        return whole

    def _answer_fields(self, answer: CitedAnswer) -> dict[str, Any]:
        """Return the fields of an AnswerReply that an answer has itself, and its model."""
        own = {"answer": answer.text, "citations": [_citation(citation) for citation in answer.citations]}
        return {**reply_fields(AnswerReply, answer), **own, "model": self._backend.answerer, "signature": ""}

    def _record_gate(self, gate: GateReport, log: RequestLog) -> None:
        log.supported, log.unsupported, log.undecided = gate.supported, gate.unsupported, gate.undecided
        log.uncited, log.dropped = gate.uncited, len(gate.dropped)
        outcomes = Counter(supported=gate.supported, undecided=gate.undecided, kept_uncited=gate.uncited)
        outcomes["unsupported"] = gate.unsupported
        outcomes.update(statement.reason for statement in gate.dropped)
        for outcome, count in outcomes.items():
            if count:
                self._record("fdarx_gate_statements", count, outcome=outcome)

    def _record_degraded(self, reply: Mapping[str, Any], log: RequestLog) -> None:
        if reply["degraded"]:
            log.degraded = reply["degraded"]
            self._record("fdarx_degraded", reason=log.degraded)


def select_corpus(name: str | None, backend: RayServeBackend) -> ServedCorpus:
    """Return the named corpus, by default the first. Raises ApiError 422, or Unavailable while none is loaded."""
    corpora = backend.corpora()
    if not corpora:
        raise Unavailable("the index", "no corpus is loaded")
    name = next(iter(corpora)) if name is None else name
    _check_known(name, [*corpora], "corpus")
    return corpora[name]


async def similar_names(backend: RayServeBackend, corpus: str, name: str) -> str:
    """Return a sentence with the names of drugs or documents that begin like a name, "" where there are none."""
    completions = await backend.run_on_index(corpus, IndexReader.names, name.strip()[:4], _MAX_NAMES)
    return f" Names that are similar: {', '.join(found.name for found in completions)}." if completions else ""


def _check_known(name: str, known: Sequence[str], param: str) -> None:
    if name not in known:
        raise unknown_name_error(name, known, param=param)


def degraded_parts(result: RetrievalResult, reply: CitedAnswer | None) -> str | None:
    """Return the parts that failed, by fixed names, or None; the servers' own messages are not shown to clients."""
    missing = dict.fromkeys(_first_parts(line, 2) for line in result.missing)
    if reply and reply.reason:
        own = next((response.reason for response in reply.responses if response.reason), "")
        missing[f"answer: {own or _first_parts(reply.reason, 1)}"] = None
    return "; ".join(missing) or None


def _first_parts(line: str, count: int) -> str:
    """Return the first parts of a line such as "hyde_passage: failed_request: DETAILS"."""
    return ": ".join(line.split(": ")[:count])


def _citation(citation: Citation) -> dict[str, Any]:
    start, end = citation.statement
    return {**reply_fields(LocatedCitation, citation, citation.hit), "statement_start": start, "statement_end": end}


def _passage(number: int, hit: SearchHit) -> dict[str, Any]:
    own = {"n": number, "chunk_id": hit.chunk.id, "cited": False}
    return {**reply_fields(RetrievedPassage, hit, hit.chunk, hit.label), **own}


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
    prompts = [RAG_TASKS[response.task].prompt.system for response in result.rewritten]
    return [
        INSTRUCTIONS_WITHHELD if text != question and any(repeats(text, prompt) for prompt in prompts) else text
        for text in texts
    ]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
