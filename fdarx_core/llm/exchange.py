"""What one exchange with a server gives: an answer, or a failure with a fixed name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import orjson

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.sse import Event
from fdarx_core.records import Request

Mode = Literal["json_schema", "json_object", "text"]
Messages = Sequence[Mapping[str, str]]
_DETAIL = 400
_MOST_TOKENS = 2**40


class AskingStopped(Exception):
    """Nothing more is asked; what was answered is stored, and running again goes on from there."""

    def copy(self) -> AskingStopped:
        """For each who is to hear of it: an error that is raised twice carries both tracebacks."""
        return type(self)(*self.args)


class EndpointStopped(AskingStopped):
    """An endpoint that will answer nobody: its key, model or address is wrong, or it is gone."""


@dataclass(slots=True)
class Answer:
    """A reply as the server gave it; `reason` says why it is no reply. `prompt_tokens` includes those that were read
    from a cache, and those written to one."""

    text: str
    finish_reason: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    written_tokens: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one event of a streamed reply adds. Token counts are those of the whole reply so far, 0 where not told.

    `refusal` is text in which the model says that it won't answer; `last`: the reply is whole.
    """

    text: str = ""
    refusal: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    written_tokens: int = 0
    last: bool = False


class Failure(Exception):
    """One exchange that gave no answer. `reason` is a fixed name; one with `transient_` may be tried again.

    `fatal`: no other request will fare better. `told_to_wait`: the server is well and asks for fewer requests, after
    `retry_after` seconds where it says so. `status` is 0 where there was no HTTP reply.
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        status: int = 0,
        fatal: bool = False,
        told_to_wait: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, " ".join(detail.split())[:_DETAIL]
        self.status, self.fatal = status, fatal
        self.told_to_wait, self.retry_after = told_to_wait, retry_after

    @property
    def transient(self) -> bool:
        return self.reason.startswith(TRANSIENT)


class Wire(Protocol):
    """How one kind of server is spoken to."""

    def url(self, base_url: str) -> str: ...

    def headers(self, key: str) -> dict[str, str]: ...

    def payload(self, request: Request, messages: Messages, mode: Mode) -> dict[str, Any]:
        """The request's body. The messages are the request's own, and after those what a repair adds."""
        ...

    def answer(self, reply: Mapping[str, Any]) -> Answer:
        """What the reply holds: with the reason refusal or null_content where that is no text of the model's own.

        Raises Failure where the server gave none this time, and KeyError, IndexError, TypeError or AttributeError where
        the reply is none of such a server.
        """
        ...

    def streaming(self, stream_options: bool) -> dict[str, Any]:
        """What a payload has besides where the reply is to come in pieces. `stream_options`: the server knows them."""
        ...

    def piece(self, event: Event) -> Piece:
        """What an event of a streamed reply adds, or the whole reply of a server that does not stream.

        Raises Failure for an error that the server reports, else as `answer`.
        """
        ...


def decoded(body: bytes) -> Any:
    """The JSON value in a body. Raises Failure transient_bad_reply: a proxy's error page, a body cut off."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)  # takes half surrogate pairs, which servers do send
    except (ValueError, RecursionError) as error:
        seen = body[:80].decode("utf-8", "replace")
        raise Failure(f"{TRANSIENT}bad_reply", f"the reply is no JSON ({error}); it begins {seen!r}") from None


def complaint(body: bytes) -> str:
    """What a server says is wrong, out of the shapes in which servers say it; "" where it says nothing."""
    try:
        said = decoded(body)
    except Failure:
        return body[:_DETAIL].decode("utf-8", "replace").strip()
    if isinstance(said, dict):
        said = said.get("error") or said.get("message") or said.get("detail") or said
    if isinstance(said, dict):
        named = [said.get(field) for field in ("code", "type", "param", "message")]
        said = ": ".join(str(part) for part in named if part) or said
    return str(said)


def whole(answer: Answer) -> Piece:
    """A reply that came in one piece."""
    refused = answer.reason == "refusal" and answer.finish_reason != "refusal"
    return Piece(
        "" if refused else answer.text,
        answer.text if refused else "",
        answer.finish_reason,
        answer.prompt_tokens,
        answer.cached_tokens,
        answer.completion_tokens,
        answer.written_tokens,
        last=True,
    )


def tokens(value: Any) -> int:
    """A token count as a server gives it; 0 for what is none."""
    return value if isinstance(value, int) and 0 <= value < _MOST_TOKENS else 0
