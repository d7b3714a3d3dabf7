"""The HTTP service as an ASGI application: its own API, its web page and the API's documentation."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from fdarx_core.documents.chunks import READ_ENDINGS
from fdarx_core.rag.gated_reply import AnswerPiece
from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.specs.serve import ServiceSettings
from serving.backend import RayServeBackend
from serving.http.access import ApiKeys
from serving.http.answering import AnswerService, select_corpus
from serving.http.backend import Record
from serving.http.chat import chat_routes
from serving.http.feedback import FeedbackFile, feedback_routes
from serving.http.labels import label_routes
from serving.http.logs import request_log
from serving.http.mcp import McpServer
from serving.http.middleware import AdmissionMiddleware, HostMiddleware, RequestMiddleware
from serving.http.responses import (
    STREAMED,
    ApiError,
    EventStream,
    error_responses,
    json_reply,
    raise_api_error,
    sse_event,
)
from serving.http.schemas import (
    AnswerReply,
    AnswerRequest,
    CorporaReply,
    FiltersReply,
    NamesReply,
    NeighborChunk,
    PassageReply,
    SearchReply,
    SearchRequest,
    ShortText,
    reply_fields,
)
from serving.http.uploads import upload_routes

_Corpus = Annotated[ShortText | None, Query(description="One of GET /v1/corpora; by default the first.")]
_Prefix = Annotated[ShortText, Query(description="Text that names begin with or contain. Empty: any name.")]
_Labeler = Annotated[ShortText, Query(description="Text that labelers contain. Empty: any labeler.")]
_Limit = Annotated[int, Query(ge=1, le=100, description="Maximum number of names.")]
_ChunkId = Annotated[ShortText, PathParameter(description="The `chunk_id` of a retrieved passage.")]
_DEFAULTS = ("strategy", "postprocess", "k", "candidates", "longest_question")


class ReadinessReply(BaseModel):
    """Whether questions can be answered."""

    ready: bool
    missing: dict[str, str] = Field(description="Parts that are not available, with the reason.")


def answer_routes(service: AnswerService) -> APIRouter:
    """Return the routes POST /v1/answers and POST /v1/search."""
    router = APIRouter(prefix="/v1", tags=["Questions"], responses=error_responses() | error_responses(404))

    @router.post("/answers", response_model=AnswerReply, responses=STREAMED, response_description="The answer.")
    async def answer(body: AnswerRequest, request: Request) -> Response:
        """Answer a question from a corpus, with citations; with `history`, as the next question of a conversation.

        If the model can't be asked, the reply has the passages without an answer, and `degraded` says why.
        """
        log = request_log(request.scope)
        if body.stream:
            events = service.stream(body, log)
            return EventStream(_events(await anext(events), events))
        return json_reply(await service.answer(body, log))

    @router.post("/search", response_model=SearchReply, response_description="The passages found.")
    async def search(body: SearchRequest, request: Request) -> Response:
        """Find passages, without an answer."""
        return json_reply(await service.search(body, request_log(request.scope)))

    return router


async def _events(
    reply: Any, events: AsyncGenerator[AnswerPiece | dict[str, Any], None]
) -> AsyncGenerator[bytes, None]:
    yield sse_event("passages", reply)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, AnswerPiece):
                yield sse_event("delta", {"text": event.text, "statements": event.statements})
            else:
                yield sse_event("done", event)


def lookup_routes(backend: RayServeBackend, settings: ServiceSettings) -> APIRouter:
    """Return the routes GET /v1/corpora, /names, /filters and /passages, for building requests and citing."""
    router = APIRouter(prefix="/v1", tags=["Corpora"], responses=error_responses())
    uploaders = ApiKeys.of(settings).uploaders

    @router.get("/corpora", response_model=CorporaReply)
    async def corpora(request: Request) -> Response:
        """List the corpora, strategies and post-processors, and the defaults of requests."""
        served = backend.corpora()
        candidates = settings.candidates
        strategies = [{"name": name, "title": strategy.title(candidates)} for name, strategy in STRATEGIES.items()]
        first = next(iter(served.values()), None)
        defaults = {
            "corpus": first and first.name,
            "retriever": first and settings.default_retriever(first.retrievers),
            **{field: getattr(settings, field) for field in _DEFAULTS},
        }
        return json_reply(
            {
                "corpora": list(served.values()),
                "strategies": strategies,
                "postprocessors": list(backend.postprocessors),
                "feedback": settings.feedback is not None,
                "upload": list(READ_ENDINGS) if request_log(request.scope).key in uploaders else [],
                "model": backend.answerer,
                "defaults": defaults,
            }
        )

    @router.get("/names", response_model=NamesReply)
    async def names(request: Request, corpus: _Corpus = None, prefix: _Prefix = "", limit: _Limit = 10) -> Response:
        """Complete the name of a drug, by any of its names, or of a document."""
        name = request_log(request.scope).corpus = select_corpus(corpus, backend).name
        return json_reply({"names": await backend.run_on_index(name, IndexReader.names, prefix, limit)})

    @router.get("/filters", response_model=FiltersReply)
    async def filters(request: Request, corpus: _Corpus = None, labeler: _Labeler = "", limit: _Limit = 10) -> Response:
        """List the sections, types of labels and labelers by which a search can be filtered."""
        name = request_log(request.scope).corpus = select_corpus(corpus, backend).name
        return json_reply(await backend.run_on_index(name, IndexReader.filter_values, labeler, limit))

    @router.get("/passages/{chunk_id}", response_model=PassageReply, responses=error_responses(404))
    async def passage(request: Request, chunk_id: _ChunkId, corpus: _Corpus = None) -> Response:
        """Return a passage with its section."""
        name = request_log(request.scope).corpus = select_corpus(corpus, backend).name
        found = await backend.run_on_index(name, IndexReader.passage, chunk_id)
        if found is None:
            message = f"There is no passage {chunk_id[:60]!r} in {name!r}; a newer index may have others: search again."
            raise ApiError(404, message, param="chunk_id", code="no_passage")
        chunk, around = found
        neighbors = [
            {**reply_fields(NeighborChunk, near), "chunk_id": near.id, "here": near == chunk} for near in around
        ]
        file = re.split(r"[!/\\]", chunk.source)[-1]  # without the path on the server
        about = {"chunk": replace(chunk, source=file), "uploaded_by": chunk.uploaded_by}
        return json_reply({**about, "around": neighbors})

    return router


def health_routes(backend: RayServeBackend) -> APIRouter:
    """Return the routes GET /healthz and GET /readyz, which need no key, for load balancers and supervisors."""
    router = APIRouter(tags=["Health"])

    @router.get("/healthz", response_model=dict[str, str])
    async def healthz() -> Response:
        """Reply 200 while this process runs."""
        return json_reply({"status": "ok"})

    @router.get("/readyz", response_model=ReadinessReply, responses={503: {"model": ReadinessReply}})
    async def readyz() -> Response:
        """Reply 200 while questions can be answered, otherwise 503 with the missing parts."""
        missing = dict(await backend.ready())
        return json_reply({"ready": not missing, "missing": missing}, 503 if missing else 200)

    return router


_TEMPLATE = Path(__file__).with_name("docs.html.j2")
PAGE = Path(__file__).parent.parent / "page"
_DESCRIPTION = (
    "Answers to questions about FDA drug labels and regulatory guidelines, with citations of the supporting passages."
    " Not for clinical use: check every answer against its passages."
)
_SECURITY = {
    "Bearer": {"type": "http", "scheme": "bearer"},
    "X-API-Key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def make_app(backend: RayServeBackend, settings: ServiceSettings, record: Record) -> FastAPI:
    """Build the application.

    Raises ValueError where the file of keys or of feedback can't be used, or the default post-processing is missing.
    """
    settings = settings.resolved(backend.hypothesis, backend.postprocessors)
    if settings.postprocess not in backend.postprocessors:
        available = ", ".join(backend.postprocessors)
        raise ValueError(f"postprocess is {settings.postprocess!r}; available are {available}")
    feedback = FeedbackFile(settings.feedback, settings.feedback_bytes) if settings.feedback else None
    answers = AnswerService(backend, settings, record, feedback)
    mcp = McpServer(backend, answers, settings)
    own_pages: dict[str, Any] = {"openapi_url": None, "docs_url": None, "redoc_url": None}
    app = FastAPI(
        title="FDARx",
        version="1",
        description=_DESCRIPTION,
        lifespan=lambda _: mcp.run(),
        redirect_slashes=False,
        exception_handlers={RequestValidationError: raise_api_error, HTTPException: raise_api_error},
        **own_pages,
    )
    for router in (
        answer_routes(answers),
        chat_routes(backend, answers),
        lookup_routes(backend, settings),
        label_routes(backend),
        *([feedback_routes(feedback)] if feedback else []),
        *([upload_routes(backend)] if ApiKeys.of(settings).uploaders else []),
        health_routes(backend),
        *([] if settings.no_docs else [_documentation_routes(app)]),
        _page_routes(),
    ):
        app.include_router(router)
    app.router.routes.append(mcp.route)
    _complete_document(app.openapi(), settings)
    app.add_middleware(AdmissionMiddleware, settings=settings, record=record)
    app.add_middleware(HostMiddleware, settings=settings, record=record)
    paths = frozenset([*app.openapi()["paths"], mcp.route.path])
    app.add_middleware(RequestMiddleware, record=record, paths=paths, log_questions=settings.log_questions)
    return app


def _complete_document(document: dict[str, Any], settings: ServiceSettings) -> None:
    """State this server's limits, keys and error format in the OpenAPI document, which FastAPI makes once."""
    schemas = document["components"]["schemas"]
    document["paths"]["/v1/chat/completions"]["post"]["responses"].pop("422", None)
    for name in ("SearchRequest", "AnswerRequest"):
        schemas[name]["properties"]["question"]["maxLength"] = settings.longest_question
    if settings.keys_file:
        document["components"]["securitySchemes"] = _SECURITY
        for path, methods in document["paths"].items():
            for route in methods.values() if path.startswith("/v1/") else ():
                route["security"] = [{name: []} for name in _SECURITY]


def _documentation_routes(app: FastAPI) -> APIRouter:
    """Return the routes GET /docs and /openapi.json. The page loads nothing from other hosts."""
    router = APIRouter(include_in_schema=False)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    page = cache(lambda: template.render(app.openapi()))

    @router.api_route("/docs", methods=["GET", "HEAD"])
    async def docs() -> Response:
        return Response(page(), headers={"Cache-Control": "no-cache"}, media_type="text/html")

    @router.api_route("/openapi.json", methods=["GET", "HEAD"])
    async def document() -> Response:
        return json_reply(app.openapi())

    return router


def _page_routes() -> APIRouter:
    """Return the routes GET / and GET /static/NAME for the web page's files, which browsers revalidate."""
    router = APIRouter(include_in_schema=False)
    files = StaticFiles(directory=PAGE)

    @router.api_route("/static/{name}", methods=["GET", "HEAD"])
    async def file(name: str, request: Request) -> Response:
        found = await files.get_response(name, request.scope)
        found.headers["Cache-Control"] = "no-cache"
        return found

    @router.api_route("/", methods=["GET", "HEAD"])
    async def home(request: Request) -> Response:
        return await file("index.html", request)

    return router
