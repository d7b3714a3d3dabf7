"""OpenAI's Chat Completions, as far as this service speaks it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from serving.http.schemas import IndexUsed, Options, PassageFound, Plain, Timings, Usage

_LONGEST_CONVERSATION = 2000


class TextPart(BaseModel):
    """A piece of a message's text."""

    model_config = ConfigDict(strict=True)

    type: Literal["text"]
    text: Plain


class Message(BaseModel):
    """One turn. Only the last of the user's is read: each question is answered by itself."""

    model_config = ConfigDict(strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(BaseModel):
    """What a stream tells beside the answer."""

    model_config = ConfigDict(strict=True)

    include_usage: bool = False


class ResponseFormat(BaseModel):
    """Answers are plain text."""

    type: Literal["text"]


class ChatRequest(BaseModel):
    """A conversation. What is not listed here (temperature, max_tokens …) is accepted and has no effect."""

    model_config = ConfigDict(strict=True)

    model: str = Field(max_length=1100, description="CORPUS/STRATEGY or CORPUS, as GET /v1/models lists them.")
    messages: list[Message] = Field(min_length=1, max_length=_LONGEST_CONVERSATION)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1, description="One answer is given.")] | None = None
    tools: Annotated[list[Any], Field(max_length=0, description="None can be called.")] | None = None
    functions: Annotated[list[Any], Field(max_length=0, description="None can be called.")] | None = None
    response_format: ResponseFormat | None = None
    fdarx: Options | None = Field(None, description="What POST /v1/answers takes beyond the question.")


class UserTurn(BaseModel):
    """The content of the message that is answered: a text, or parts of one."""

    model_config = ConfigDict(strict=True)

    content: Plain | list[TextPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class Extension(BaseModel):
    """What POST /v1/answers tells beside the answer."""

    id: str
    refused: bool
    degraded: str | None
    passages: list[PassageFound]
    citations: list[int]
    searches: list[str]
    timings_ms: Timings
    index: IndexUsed


class Spoken(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str


class Choice(BaseModel):
    """The one answer."""

    index: Literal[0]
    message: Spoken
    finish_reason: Literal["stop"]


class ChatUsage(Usage):
    """Tokens of all models asked."""

    total_tokens: int


class ChatReply(BaseModel):
    """A chat.completion, with citations in `fdarx`."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage
    fdarx: Extension


class Model(BaseModel):
    """A corpus with a strategy."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsReply(BaseModel):
    """All that a chat may name as its model."""

    object: Literal["list"]
    data: list[Model]
