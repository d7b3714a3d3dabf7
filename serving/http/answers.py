"""POST /v1/answers and POST /v1/search."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request
from starlette.responses import Response

from serving.http import sse
from serving.http.answering import Answering, Found
from serving.http.logs import note_of
from serving.http.replies import json_reply
from serving.http.schemas import AnswerReply, AnswerRequest, SearchReply, SearchRequest, errors


class Answers:
    """The service's own form of questions and answers."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def routes(self) -> APIRouter:
        router = APIRouter(prefix="/v1", tags=["Questions"])
        streamed = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
        answers = {200: {"model": AnswerReply, "description": "The answer.", **streamed}} | errors(404)
        router.add_api_route("/answers", self.answer, methods=["POST"], responses=answers, response_class=Response)
        found = {200: {"model": SearchReply, "description": "What was found."}} | errors(404)
        router.add_api_route("/search", self.search, methods=["POST"], responses=found, response_class=Response)
        return router

    async def answer(self, body: AnswerRequest, request: Request) -> Response:
        """Answer a question from a corpus, with citations.

        Where the model can't be asked, the passages come all the same, and `degraded` says why there is no answer.
        """
        found = await self._answering.find(body.question, body.corpus, body, note_of(request.scope))
        if body.stream:
            return sse.stream(self._events(found), found.note)
        return json_reply(await self._answering.answer(found))

    async def search(self, body: SearchRequest, request: Request) -> Response:
        """Find passages, without an answer."""
        return json_reply(await self._answering.search(body.question, body.corpus, body, note_of(request.scope)))

    async def _events(self, found: Found) -> AsyncGenerator[bytes, None]:
        yield sse.event("passages", found.reply)
        async with aclosing(self._answering.stream(found)) as pieces:
            async for piece in pieces:
                yield sse.event("delta", {"text": piece}) if isinstance(piece, str) else sse.event("done", piece)
