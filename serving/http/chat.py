"""POST /v1/chat/completions and GET /v1/models for chat clients. Source: OpenAI API reference, Chat."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.responses import Response

from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.cited_text import marked_text
from fdarx_core.rag.comparison import PARAGRAPH
from fdarx_core.rag.gate import dropped_text
from fdarx_core.rag.gated_reply import AnswerPiece
from fdarx_core.rag.query import Turn
from fdarx_core.rag.strategies import STRATEGIES
from serving.backend import RayServeBackend
from serving.http.answering import AnswerService
from serving.http.logs import request_log
from serving.http.responses import (
    STREAMED,
    ApiError,
    EventStream,
    error_responses,
    json_reply,
    sse_data,
    unknown_name_error,
    validation_error,
)
from serving.http.schemas import MAX_TURNS, PlainText, SearchOptions, SearchRequest

_NOT_IN_DETAILS = (
    "question",
    "answer",
    "strategy",
    "retriever",
    "postprocess",
    "prompts",
    "usage",
    "model",
    "signature",
)
"""Fields of an AnswerReply that a chat has elsewhere, or not."""
_CREATED = int(time.time())
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_LINK = re.compile(r"\]\(")


class TextPart(BaseModel):
    """A piece of a message's text."""

    model_config = ConfigDict(strict=True)

    type: Literal["text"]
    text: PlainText


class ChatMessage(BaseModel):
    """A message. The user's last message is the question; the earlier ones of user and assistant are its history."""

    model_config = ConfigDict(strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


_CONTENT: TypeAdapter[str | list[TextPart]] = TypeAdapter(PlainText | list[TextPart])
"""Content of the message that is answered: a text, or a list of text parts."""


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(strict=True)

    include_usage: bool = False


class ResponseFormat(BaseModel):
    """Answers are plain text."""

    type: Literal["text"]


class ChatRequest(BaseModel):
    """A conversation. Other fields of OpenAI's API (temperature, max_tokens …) are accepted and have no effect."""

    model_config = ConfigDict(strict=True)

    model: str = Field(max_length=1100, description="CORPUS/STRATEGY or CORPUS, as GET /v1/models lists them.")
    messages: list[ChatMessage] = Field(min_length=1, max_length=2000)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1, description="There is always one answer.")] | None = None
    tools: Annotated[list[Any], Field(max_length=0, description="Tools are not supported.")] | None = None
    functions: Annotated[list[Any], Field(max_length=0, description="Tools are not supported.")] | None = None
    response_format: ResponseFormat | None = None
    fdarx: SearchOptions | None = Field(None, description="Options of POST /v1/answers.")


class ChatReply(BaseModel):
    """A chat.completion, with citations in `fdarx`. Source: OpenAI API reference, Chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]] = Field(
        description="One choice: index 0, message {role: assistant, content} with the answer, finish_reason stop, or "
        "content_filter where no statement of the answer passed the check."
    )
    usage: dict[str, int] = Field(description="prompt_tokens, completion_tokens and total_tokens of all models asked.")
    fdarx: dict[str, Any] = Field(description=f"Fields of an AnswerReply, without {', '.join(_NOT_IN_DETAILS)}.")


class ModelInfo(BaseModel):
    """A corpus with a strategy."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsReply(BaseModel):
    """The models that a chat may name."""

    object: Literal["list"]
    data: list[ModelInfo]


def chat_routes(backend: RayServeBackend, service: AnswerService) -> APIRouter:
    """Return the routes POST /v1/chat/completions and GET /v1/models."""
    router = APIRouter(prefix="/v1", tags=["Chat"], responses=error_responses())
    chat_responses = STREAMED | error_responses(400, 404)

    def model_ids() -> list[str]:
        return [
            model_id
            for corpus in backend.corpora()
            for model_id in (corpus, *(f"{corpus}/{strategy}" for strategy in STRATEGIES))
        ]

    @router.post(
        "/chat/completions", response_model=ChatReply, responses=chat_responses, response_description="The answer."
    )
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Answer the user's last message, as POST /v1/answers does, in the format of OpenAI's Chat Completions.

        The messages before it are the history.
        """
        known = model_ids()
        if known and body.model not in known:
            raise unknown_name_error(body.model, known, param="model", status=404, code="model_not_found")
        corpus, _, strategy = body.model.partition("/")
        options = (body.fdarx or SearchOptions()).model_copy(update={"strategy": strategy} if strategy else {})
        question, history = _conversation(body.messages)
        # the question is checked as others are, and the messages are validated already
        fields = {**dict(options), "question": question, "corpus": corpus, "history": history}
        asked = SearchRequest.model_construct(**fields)
        log = request_log(request.scope)
        head = {"id": f"chatcmpl-{log.request_id}", "created": int(time.time()), "model": body.model}
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            events = service.stream(asked, log)
            await anext(events)  # what can't be answered is an error reply
            return EventStream(_chunks(events, head, usage))
        reply = await service.answer(asked, log)
        message = {"role": "assistant", "content": _content(reply)}
        choices = [{"index": 0, "message": message, "finish_reason": _finish_reason(reply)}]
        reply_parts = {"choices": choices, "usage": _usage(reply), "fdarx": _details(reply)}
        return json_reply({**head, "object": "chat.completion", **reply_parts})

    @router.get("/models", response_model=ModelsReply)
    async def models() -> Response:
        """List each corpus with each strategy as a model; a corpus alone uses the default strategy."""
        return json_reply({"object": "list", "data": [_model(model_id) for model_id in model_ids()]})

    @router.get("/models/{model:path}", response_model=ModelInfo, responses=error_responses(404))
    async def model(model: str) -> Response:
        """Return one of GET /v1/models."""
        known = model_ids()
        if model not in known:
            raise unknown_name_error(model, known, param="model", status=404, code="model_not_found")
        return json_reply(_model(model))

    return router


async def _chunks(
    events: AsyncGenerator[AnswerPiece | dict[str, Any], None], head: dict[str, Any], usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a streamed reply; `fdarx` comes with the last one of the answer.

    Source: OpenAI API reference, Chat, streaming.
    """
    head = {**head, "object": "chat.completion.chunk", **({"usage": None} if usage else {})}

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        return sse_data({**head, **more, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    has_text = False
    async with aclosing(events):
        async for piece in events:
            if isinstance(piece, AnswerPiece):
                has_text = has_text or bool(piece.text)
                yield chunk({"content": _marked(piece)})
                continue
            if not has_text:
                yield chunk({"content": _content(piece)})
            elif following := _removed(piece) + _sources(piece):
                yield chunk({"content": following})
            yield chunk({}, _finish_reason(piece), fdarx=_details(piece))
            if usage:
                yield sse_data(head | {"choices": [], "usage": _usage(piece)})
    yield b"data: [DONE]\n\n"


def _conversation(messages: Sequence[ChatMessage]) -> tuple[str, list[Turn]]:
    """Return the user's last message, and the turns before it, of which the last `MAX_TURNS` are kept.

    Raises ApiError where there is no message of the user, or the last one has parts other than text.
    """
    place = next((place for place in reversed(range(len(messages))) if messages[place].role == "user"), None)
    if place is None:
        raise ApiError(422, "No message has the role user; the last such message is the question.", param="messages")
    try:
        content = _CONTENT.validate_python(messages[place].content, strict=True)
    except ValidationError as error:
        fault = validation_error([{**detail, "loc": ("body", "content", *detail["loc"])} for detail in error.errors()])
        text = f"messages[{place}]: only parts of type text are supported; {fault.message}"
        raise ApiError(422, text, param=f"messages[{place}].content", code="invalid") from None
    question = content if isinstance(content, str) else "\n".join(part.text for part in content)
    turns = list[Turn]()
    for message in messages[:place]:
        # parts of other types in earlier messages are ignored
        raw = message.content
        parts = [part.get("text") for part in raw] if isinstance(raw, list) else [raw]
        text = "\n".join(part for part in parts if isinstance(part, str)).strip()
        if text and message.role == "user":
            turns.append(Turn(text))
        elif text and message.role == "assistant" and turns:
            turns[-1] = Turn(turns[-1].question, f"{turns[-1].answer}\n{text}".strip())
    return question, turns[-MAX_TURNS:]


def _content(reply: dict[str, Any]) -> str:
    """Return the answer with marks, or a list of the passages found where the model could not be asked."""
    if reply["answer"] or not reply["degraded"]:
        piece = AnswerPiece(reply["answer"], 0, tuple(reply["statements"]))
        return _marked(piece) + _removed(reply) + _sources(reply)
    return f"The model could not be asked, so there is no answer. These passages were found:\n{_listed(reply)}"


def _sources(reply: dict[str, Any]) -> str:
    """Return the list of the passages found that follows their quotations where there is no model."""
    return f"\n\nPassages:\n{_listed(reply)}" if reply["model"] == BASELINE and reply["passages"] else ""


def _listed(reply: dict[str, Any]) -> str:
    lines = list[str]()
    for passage in reply["passages"]:
        uploaded = passage["uploaded_by"] and f"uploaded by {passage['uploaded_by']}"
        lines.append(f"[{passage['n']}] {' — '.join(filter(None, (passage['title'], passage['section'], uploaded)))}")
    return _plain("\n".join(lines))


def _removed(reply: dict[str, Any]) -> str:
    """Return a paragraph on the statements that the gate dropped from an answer that is not withheld, "" for none."""
    dropped = reply["gate"].dropped
    return f"{PARAGRAPH}Removed from the answer: {dropped_text(dropped)}." if dropped and not reply["withheld"] else ""


def _finish_reason(reply: dict[str, Any]) -> str:
    return "content_filter" if reply["withheld"] else "stop"


def _marked(piece: AnswerPiece) -> str:
    """Return a piece of the answer, with a mark before each statement that is not supported."""
    return _plain(marked_text(piece.text, piece.statements, piece.start))


def _plain(text: str) -> str:
    """Return a text, which clients show as Markdown, without markup that can hide a mark or strike words out."""
    return _LINK.sub("] (", _TAG.sub("&lt;", text)).replace("~~", r"\~\~")


def _details(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reply.items() if name not in _NOT_IN_DETAILS}


def _usage(reply: dict[str, Any]) -> dict[str, int]:
    usage: dict[str, int] = reply["usage"]
    return usage | {"total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "fdarx"}
