"""POST /v1/chat/completions and GET /v1/models: any chat client can ask. Source: OpenAI's API reference, Chat."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from fdarx_core.rag.strategies import STRATEGIES
from serving.http import sse
from serving.http.answering import Answering, Found
from serving.http.chat_schemas import ChatReply, ChatRequest, Message, Model, ModelsReply, UserTurn
from serving.http.errors import Problem, invalid, unknown
from serving.http.logs import note_of
from serving.http.replies import json_reply
from serving.http.schemas import Options, errors
from serving.http.settings import ServiceSettings
from serving.http.world import World

_EXTENSION = ("id", "refused", "degraded", "passages", "citations", "searches", "timings_ms", "index")
_STARTED = int(time.time())


class Chat:
    """Questions and answers in the form that chat clients speak."""

    def __init__(self, world: World, settings: ServiceSettings, answering: Answering) -> None:
        self._world, self._settings, self._answering = world, settings, answering

    def routes(self) -> APIRouter:
        router = APIRouter(prefix="/v1", tags=["Chat"])
        streamed = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
        answered = {"model": ChatReply, "description": "The answer.", **streamed}
        chats = errors(400, 404, without=(422,)) | {200: answered}
        router.add_api_route("/chat/completions", self.chat, methods=["POST"], responses=chats, response_class=Response)
        listed = {200: {"model": ModelsReply}} | errors()
        router.add_api_route("/models", self.models, methods=["GET"], responses=listed, response_class=Response)
        one = {200: {"model": Model}} | errors(404)
        router.add_api_route(
            "/models/{model:path}", self.model, methods=["GET"], responses=one, response_class=Response
        )
        return router

    async def chat(self, body: ChatRequest, request: Request) -> Response:
        """Answer the user's last message, as POST /v1/answers does, in the form of OpenAI's Chat Completions."""
        corpus, strategy = self._way(body)
        options = (body.fdarx or Options()).model_copy(update={"strategy": strategy} if strategy else {})
        found = await self._answering.find(_question(body.messages), corpus, options, note_of(request.scope))
        head = {"id": f"chatcmpl-{found.note.request_id}", "created": int(time.time()), "model": body.model}
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return sse.stream(self._chunks(found, head, usage), found.note)
        reply = await self._answering.answer(found)
        message = {"role": "assistant", "content": _content(reply)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json_reply(
            {
                **head,
                "object": "chat.completion",
                "choices": [choice],
                "usage": _usage(reply),
                "fdarx": _extension(reply),
            }
        )

    async def models(self) -> Response:
        """Each corpus with each strategy, as a model; a corpus alone is asked by the default strategy."""
        return json_reply({"object": "list", "data": [_model(name) for name in self._ids()]})

    async def model(self, model: str) -> Response:
        """One of GET /v1/models."""
        if model not in self._ids():
            raise _unknown_model(model, self._ids())
        return json_reply(_model(model))

    def _ids(self) -> list[str]:
        corpora = self._world.corpora()
        return [one for corpus in corpora for one in (corpus, *(f"{corpus}/{strategy}" for strategy in STRATEGIES))]

    def _way(self, body: ChatRequest) -> tuple[str, str]:
        ids = self._ids()
        if ids and body.model not in ids:
            raise _unknown_model(body.model, ids)
        corpus, _, strategy = body.model.partition("/")
        return corpus, strategy

    async def _chunks(self, found: Found, head: dict[str, Any], usage: bool) -> AsyncGenerator[bytes, None]:
        """Source: OpenAI's API reference, Chat, streaming; `fdarx` comes with the chunk that ends the answer."""
        head = {**head, "object": "chat.completion.chunk", **({"usage": None} if usage else {})}
        yield _chunk(head, {"role": "assistant", "content": ""})
        said = ""
        async for piece in self._answering.stream(found):
            if isinstance(piece, str):
                said += piece
                yield _chunk(head, {"content": piece})
                continue
            if not said:
                yield _chunk(head, {"content": _content(piece)})
            yield _chunk(head | {"fdarx": _extension(piece)}, {}, "stop")
            if usage:
                yield sse.data(head | {"choices": [], "usage": _usage(piece)})
        yield b"data: [DONE]\n\n"


def _question(messages: list[Message]) -> str:
    """The user's last message. Raises Problem where there is none, or it holds anything but text."""
    place = next((place for place in reversed(range(len(messages))) if messages[place].role == "user"), None)
    if place is None:
        raise Problem(422, "No message has the role user: its last one is the question.", param="messages")
    try:
        return UserTurn(content=messages[place].content).text  # type: ignore[arg-type]  # checked here
    except ValidationError as error:
        problem = invalid([{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()])
        message = f"messages[{place}]: only text can be asked; {problem.message}"
        raise Problem(422, message, param=f"messages[{place}].content", code="invalid") from None


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    return sse.data(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _content(reply: dict[str, Any]) -> str:
    """The answer; where the model could not be asked, that, and what was found."""
    if reply["answer"] or not reply["degraded"]:
        return str(reply["answer"])
    lines = [f"[{one['n']}] {' — '.join(filter(None, (one['title'], one['section'])))}" for one in reply["passages"]]
    return "\n".join(["The model could not be asked, so there is no answer. These passages were found:", *lines])


def _extension(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: reply[name] for name in _EXTENSION}


def _usage(reply: dict[str, Any]) -> dict[str, int]:
    usage: dict[str, int] = reply["usage"]
    return usage | {"total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _STARTED, "owned_by": "fdarx"}


def _unknown_model(given: str, known: list[str]) -> Problem:
    problem = unknown("model", given, known, param="model", status=404)
    problem.code = "model_not_found"
    return problem
