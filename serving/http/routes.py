"""Routes of the service's own API: answers, searches, lookups and health."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from fdarx_core.rag.strategies import STRATEGIES
from serving.http.answering import AnswerService, RetrievedRequest, select_corpus
from serving.http.backend import ServiceBackend
from serving.http.logs import request_log
from serving.http.responses import ApiError, EventStream, json_reply, sse_event
from serving.http.schemas import (
    AnswerReply,
    AnswerRequest,
    CorporaReply,
    PassageReply,
    SearchReply,
    SearchRequest,
    ShortText,
    error_responses,
)
from serving.settings import ServiceSettings

_Corpus = Annotated[ShortText | None, Query(description="One of GET /v1/corpora; by default the first.")]
_Prefix = Annotated[ShortText, Query(description="Text that names begin with or contain. Empty: any name.")]
_Limit = Annotated[int, Query(ge=1, le=100, description="Maximum number of names.")]
_ChunkId = Annotated[ShortText, Path(description="The `chunk_id` of a retrieved passage.")]
_DEFAULTS = ("strategy", "postprocess", "retriever", "k", "candidates", "longest_question")


class ReadinessReply(BaseModel):
    """Whether questions can be answered."""

    ready: bool
    missing: dict[str, str] = Field(description="Parts that are not available, with the reason.")


def answer_routes(service: AnswerService) -> APIRouter:
    """Return the routes POST /v1/answers and POST /v1/search."""
    router = APIRouter(prefix="/v1", tags=["Questions"])
    streamed = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
    answers = {200: {"model": AnswerReply, "description": "The answer.", **streamed}} | error_responses(404)
    searches = {200: {"model": SearchReply, "description": "The passages found."}} | error_responses(404)

    @router.post("/answers", responses=answers, response_class=Response)
    async def answer(body: AnswerRequest, request: Request) -> Response:
        """Answer a question from a corpus, with citations.

        If the model can't be asked, the reply has the passages without an answer, and `degraded` says why.
        """
        retrieved = await service.retrieve(body.question, body.corpus, body, request_log(request.scope))
        if body.stream:
            return EventStream(_events(service, retrieved), retrieved.log)
        return json_reply(await service.answer(retrieved))

    @router.post("/search", responses=searches, response_class=Response)
    async def search(body: SearchRequest, request: Request) -> Response:
        """Find passages, without an answer."""
        return json_reply(await service.search(body.question, body.corpus, body, request_log(request.scope)))

    return router


async def _events(service: AnswerService, retrieved: RetrievedRequest) -> AsyncGenerator[bytes, None]:
    yield sse_event("passages", retrieved.reply)
    async with aclosing(service.stream(retrieved)) as pieces:
        async for piece in pieces:
            yield sse_event("delta", {"text": piece}) if isinstance(piece, str) else sse_event("done", piece)


def lookup_routes(backend: ServiceBackend, settings: ServiceSettings) -> APIRouter:
    """Return the routes GET /v1/corpora, /v1/names and /v1/passages, for building requests and showing citations."""
    router = APIRouter(prefix="/v1", tags=["Corpora"])

    def responses(model: Any, *errors: int) -> dict[int | str, dict[str, Any]]:
        return {200: {"model": model}} | error_responses(*errors)

    @router.get("/corpora", responses=responses(CorporaReply), response_class=Response)
    async def corpora() -> Response:
        """List the corpora, strategies and post-processors, and the defaults of requests."""
        served = backend.corpora()
        candidates = settings.candidates
        strategies = [{"name": name, "title": one.title(candidates)} for name, one in STRATEGIES.items()]
        defaults = {field: getattr(settings, field) for field in _DEFAULTS}
        return json_reply(
            {
                "corpora": [{**asdict(one), "retrievers": list(one.retrievers)} for one in served.values()],
                "strategies": strategies,
                "postprocessors": list(backend.postprocessors),
                "defaults": {"corpus": next(iter(served), None), **defaults},
            }
        )

    @router.get("/names", responses=responses(dict[str, list[str]]), response_class=Response)
    async def names(request: Request, corpus: _Corpus = None, prefix: _Prefix = "", limit: _Limit = 10) -> Response:
        """Complete the name of a drug or document."""
        name = request_log(request.scope).corpus = select_corpus(corpus, backend).name
        return json_reply({"names": await backend.names(name, prefix, limit)})

    @router.get("/passages/{chunk_id}", responses=responses(PassageReply, 404), response_class=Response)
    async def passage(request: Request, chunk_id: _ChunkId, corpus: _Corpus = None) -> Response:
        """Return a passage with its section."""
        name = request_log(request.scope).corpus = select_corpus(corpus, backend).name
        found = await backend.passage(name, chunk_id)
        if found is None:
            message = f"There is no passage {chunk_id[:60]!r} in {name!r}; a newer index may have others: search again."
            raise ApiError(404, message, param="chunk_id", code="no_passage")
        chunk, around = found
        neighbors = [
            {
                "chunk_id": near.id,
                "title": near.title,
                "section": near.section,
                "text": near.text,
                "here": near == chunk,
            }
            for near in around
        ]
        return json_reply({"chunk": asdict(chunk), "around": neighbors})

    return router


def health_routes(backend: ServiceBackend) -> APIRouter:
    """Return the routes GET /healthz and GET /readyz, which need no key, for load balancers and supervisors."""
    router = APIRouter(tags=["Health"])
    readiness: dict[int | str, dict[str, Any]] = {status: {"model": ReadinessReply} for status in (200, 503)}

    @router.get("/healthz", responses={200: {"model": dict[str, str]}}, response_class=Response)
    async def healthz() -> Response:
        """Reply 200 while this process runs."""
        return json_reply({"status": "ok"})

    @router.get("/readyz", responses=readiness, response_class=Response)
    async def readyz() -> Response:
        """Reply 200 while questions can be answered, otherwise 503 with the missing parts."""
        missing = dict(await backend.ready())
        return json_reply({"ready": not missing, "missing": missing}, 503 if missing else 200)

    return router
