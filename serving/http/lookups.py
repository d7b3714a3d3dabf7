"""GET /v1/corpora, /v1/names and /v1/passages: what a client needs to build a request and to show a citation."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.records import Chunk
from serving.http.asking import corpus_of
from serving.http.errors import Problem
from serving.http.logs import note_of
from serving.http.replies import json_reply
from serving.http.schemas import CorporaReply, Name, NamesReply, PassageReply, errors
from serving.http.settings import ServiceSettings
from serving.http.world import World

_CorpusName = Annotated[Name | None, Query(description="One of GET /v1/corpora; by default the first.")]
_Prefix = Annotated[Name, Query(description="How names begin, or what they hold. Empty: any.")]
_Limit = Annotated[int, Query(ge=1, le=100, description="The most names.")]
_ChunkId = Annotated[Name, Path(description="As `chunk_id` of a passage found.")]


class Lookups:
    """What there is."""

    def __init__(self, world: World, settings: ServiceSettings) -> None:
        self._world, self._settings = world, settings

    def routes(self) -> APIRouter:
        router = APIRouter(prefix="/v1", tags=["Corpora"])
        for path, handler, model, more in (
            ("/corpora", self.corpora, CorporaReply, ()),
            ("/names", self.names, NamesReply, ()),
            ("/passages/{chunk_id}", self.passage, PassageReply, (404,)),
        ):
            responses = {200: {"model": model}} | errors(*more)
            router.add_api_route(path, handler, methods=["GET"], responses=responses, response_class=Response)
        return router

    async def corpora(self) -> Response:
        """The corpora, strategies and post-processors that there are, and what is taken where none is named."""
        corpora = self._world.corpora()
        served = [{**asdict(one), "retrievers": list(one.retrievers)} for one in corpora.values()]
        candidates = self._settings.candidates
        strategies = [{"name": name, "title": one.title(candidates)} for name, one in STRATEGIES.items()]
        return json_reply(
            {
                "corpora": served,
                "strategies": strategies,
                "postprocessors": list(self._world.postprocessors),
                "defaults": self._defaults(next(iter(corpora), None)),
            }
        )

    async def names(
        self, request: Request, corpus: _CorpusName = None, prefix: _Prefix = "", limit: _Limit = 10
    ) -> Response:
        """Names of drugs or documents, to complete what is typed."""
        name = note_of(request.scope).corpus = corpus_of(corpus, self._world).name
        return json_reply({"names": await self._world.names(name, prefix, limit)})

    async def passage(self, request: Request, chunk_id: _ChunkId, corpus: _CorpusName = None) -> Response:
        """A passage with its section."""
        name = note_of(request.scope).corpus = corpus_of(corpus, self._world).name
        found = await self._world.passage(name, chunk_id)
        if found is None:
            gone = f"There is no passage {chunk_id[:60]!r} in {name!r}; a newer index may have others: search again."
            raise Problem(404, gone, param="chunk_id", code="no_passage")
        around = [_neighbour(chunk, found.chunk) for chunk in found.around]
        return json_reply({"chunk": asdict(found.chunk), "around": around})

    def _defaults(self, corpus: str | None) -> dict[str, Any]:
        settings = self._settings
        fields = ("strategy", "postprocess", "retriever", "k", "candidates", "longest_question")
        return {"corpus": corpus, **{field: getattr(settings, field) for field in fields}}


def _neighbour(chunk: Chunk, asked: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.id,
        "title": chunk.title,
        "section": chunk.section,
        "text": chunk.text,
        "here": chunk.id == asked.id,
    }
