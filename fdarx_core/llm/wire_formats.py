"""The APIs of model servers: what is sent to one, and how its replies, whole or streamed, are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import orjson

from fdarx_core.llm.failures import TRANSIENT, Failure, decode_json, reported_failure
from fdarx_core.llm.model_config import VOTE
from fdarx_core.plugins import Registry
from fdarx_core.records import Request

OutputMode = Literal["json_schema", "json_object", "text"]
"""The way in which a server is asked to apply the request's schema to its reply."""
Messages = Sequence[Mapping[str, str]]

BLANK_CHARACTERS = 4096
"""White space in a row from which on a reply counts as a loop of white space."""

_MAX_TOKENS = 2**40
_BLANK_LOOP = re.compile(rf"\s{{{BLANK_CHARACTERS},}}")
_REFUSED_SYSTEM = re.compile(
    r"system (?:role|message|instruction|prompt)s?\b.{0,60}(?:not|n't|un)|"
    r"(?:not|n't|un)\w*\b.{0,60}system (?:role|message)|roles must alternate",
    re.IGNORECASE,
)
_REFUSED_LIMIT = re.compile(r"(?:max|min)(?:imum)?_?(?:length|items)", re.I)
"""How servers name the limits of lengths that they refuse; OpenAI and Anthropic refuse those of texts."""
_UNSUPPORTED = re.compile(
    r"response_format|json_schema|json_object|json mode|structured|guided|grammar|output_config|tool_choice|schema",
    re.IGNORECASE,
)
"""How servers name a form of structured output that they do not support."""
_ANTHROPIC_VERSION = "2023-06-01"
_WEAKER: dict[OutputMode, OutputMode] = {"json_schema": "json_object", "json_object": "text"}
_FINISH_REASONS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}


class TokenUsage(NamedTuple):
    """Token counts of one reply. `prompt` includes the tokens read from a prompt cache and those written to one."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    written: int = 0


@dataclass(slots=True)
class Completion:
    """A whole reply, or what one event adds to a streamed reply. `last` says that nothing follows.

    `reason` is "" or says why the reply is not usable (refusal, null_content, whitespace_loop …). The `usage` of an
    event covers the whole reply so far, with 0 for unknown counts.
    """

    text: str = ""
    finish_reason: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    reason: str = ""
    last: bool = True


@dataclass(frozen=True, slots=True)
class ServerFeatures:
    """What a server supports: structured output, the name of its token limit, `stream_options` for token counts, limits
    of lengths in the schema of the reply, and system messages."""

    mode: OutputMode = "text"
    token_limit: str = "max_tokens"
    stream_options: bool = True
    length_limits: bool = True
    system_role: bool = True

    def without_refused(self, failure: Failure, *, may_weaken: bool) -> ServerFeatures | None:
        """Return the features without that which a refused request names; None where it names none of them.

        `may_weaken`: the mode may change to the next weaker one.
        """
        if "max_completion_tokens" in failure.detail and self.token_limit == "max_tokens":
            return replace(self, token_limit="max_completion_tokens")
        if "stream_options" in failure.detail and self.stream_options:
            return replace(self, stream_options=False)
        if self.system_role and _REFUSED_SYSTEM.search(failure.detail):
            return replace(self, system_role=False)
        if self.mode != "text" and self.length_limits and _REFUSED_LIMIT.search(failure.detail):
            return replace(self, length_limits=False)
        refused = failure.reason == "refused_request" and _UNSUPPORTED.search(failure.detail)
        return replace(self, mode=_WEAKER[self.mode]) if may_weaken and self.mode in _WEAKER and refused else None


class OpenAIFormat:
    """The Chat Completions API, for any OpenAI-compatible server. The formats of other APIs derive from it."""

    def url(self, base_url: str) -> str:
        return f"{base_url}/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def payload(self, request: Request, messages: Messages, mode: OutputMode) -> dict[str, Any]:
        """Return the request's body. `messages` are the request's own, followed by those of a repair."""
        payload = {**_sampling(request), "messages": messages}
        if mode == "json_schema":
            schema = {"name": request.task, "schema": request.schema, "strict": True}
            payload["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif mode == "json_object":
            payload["response_format"] = {"type": "json_object"}
        return payload

    def stream_parameters(self, stream_options: bool) -> dict[str, Any]:
        """Return what the payload of a streamed request has besides. `stream_options`: the server supports them."""
        return {"stream": True} | ({"stream_options": {"include_usage": True}} if stream_options else {})

    def completion(self, reply: Mapping[str, Any]) -> Completion:
        """Read a whole reply. Its reason is refusal or null_content where it holds no text of the model's own.

        Raises Failure where the server generated nothing, and KeyError, IndexError, TypeError or AttributeError where
        the reply does not belong to this API.
        """
        if reply.get("error") and not reply.get("choices"):
            raise reported_failure(orjson.dumps(reply), reply["error"])
        if not reply["choices"]:
            raise Failure(f"{TRANSIENT}empty_choices", "the list of choices is empty")
        choice = reply["choices"][0]
        if choice.get("error"):  # of a provider to whom the server passed the request on
            raise reported_failure(orjson.dumps({"error": choice["error"]}), choice["error"])
        message, finish_reason = choice.get("message") or {}, str(choice.get("finish_reason") or "stop")
        if message.get("refusal"):
            return Completion(str(message["refusal"]), finish_reason, _openai_usage(reply), "refusal")
        text = _content_text(message.get("content"))
        reason = "null_content" if text is None and finish_reason != "length" else ""  # all tokens may be reasoning
        return Completion(text or "", finish_reason, _openai_usage(reply), reason)

    def delta(self, event: bytes) -> Completion:
        """Read the data of an event of a streamed reply, or the whole reply of a server that does not stream.

        Reasoning is not part of the text. An event that only counts tokens has no choices. Raises Failure for an error
        that the server reports, and otherwise as `completion`.
        """
        if event == b"[DONE]":
            return Completion()
        reply = decode_json(event)
        if reply.get("error"):
            raise reported_failure(event, reply["error"])
        choice: Mapping[str, Any] = (reply.get("choices") or [{}])[0]
        if "message" in choice:
            return self.completion(reply)
        delta, finish_reason = choice.get("delta") or {}, str(choice.get("finish_reason") or "")
        if refusal := _content_text(delta.get("refusal")):
            return Completion(refusal, finish_reason, _openai_usage(reply), "refusal", last=False)
        text = _content_text(delta.get("content")) or ""
        return Completion(text, finish_reason, _openai_usage(reply), last=False)


class AnthropicFormat(OpenAIFormat):
    """Anthropic's Messages API. The last shared message of a task's requests is marked for the prompt cache."""

    def url(self, base_url: str) -> str:
        return f"{base_url}/messages" if base_url.endswith("/v1") else f"{base_url}/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": _ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})

    def payload(self, request: Request, messages: Messages, mode: OutputMode) -> dict[str, Any]:
        """Return the body. The API lacks the mode json_object: the model must call a tool that takes the reply."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": message["content"]} for message in messages]
        if len(request.messages) > 1:
            blocks[len(request.messages) - 2]["cache_control"] = {"type": "ephemeral"}
        turns = [(message["role"], block) for message, block in zip(messages, blocks, strict=True)]
        payload = {
            **_sampling(request),
            "system": [block for role, block in turns if role == "system"],
            "messages": [{"role": role, "content": [block]} for role, block in turns if role != "system"],
        }
        if mode == "json_schema":
            payload["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        elif mode == "json_object":
            tool = {"name": "reply", "description": "Takes the reply.", "input_schema": request.schema}
            payload |= {"tools": [tool], "tool_choice": {"type": "tool", "name": "reply"}}
        return payload

    def stream_parameters(self, stream_options: bool) -> dict[str, Any]:
        return {"stream": True}

    def completion(self, reply: Mapping[str, Any]) -> Completion:
        text = "".join(
            orjson.dumps(block["input"]).decode() if block["type"] == "tool_use" else str(block["text"])
            for block in reply["content"]
            if block["type"] in ("tool_use", "text")
        )
        finish_reason = _FINISH_REASONS.get(reply["stop_reason"], "stop")
        reason = "refusal" if finish_reason == "refusal" else ""
        if not reply["content"] and finish_reason == "stop":
            reason = "null_content"
        return Completion(text, finish_reason, _anthropic_usage(reply), reason)

    def delta(self, event: bytes) -> Completion:
        """Read one event. Events that carry no text, usage or end (thinking, ping) return an empty Completion."""
        reply = decode_json(event)
        kind = reply.get("type")
        if kind == "error" or reply.get("error"):
            raise reported_failure(event, reply.get("error"))
        if kind == "message":
            return self.completion(reply)
        if kind == "content_block_delta":
            return Completion(str(reply["delta"].get("text") or ""), last=False)
        if kind == "message_start":
            return Completion(usage=_anthropic_usage(reply["message"]), last=False)
        if kind == "message_delta":
            stop_reason = reply["delta"].get("stop_reason")
            finish_reason = _FINISH_REASONS.get(stop_reason, "stop") if stop_reason else ""
            return Completion("", finish_reason, _anthropic_usage(reply), last=False)
        return Completion(last=kind == "message_stop")


WIRE_FORMATS: Registry[OpenAIFormat] = Registry(
    "model kind", {"openai": OpenAIFormat(), "anthropic": AnthropicFormat()}
)
"""By the `kind` of a model's configuration; packages add theirs by entry points of the group `fdarx.model_kinds`."""


def without_system(messages: Messages) -> Messages:
    """Return messages in which the text of the system messages stands before the first turn of the user.

    The templates of some models, such as Gemma's, take no system message.
    """
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    turns = [message for message in messages if message["role"] != "system"]
    if not system or not turns:
        return messages
    first = {**turns[0], "content": f"{system}\n\n{turns[0]['content']}"}
    return [first, *turns[1:]]


def token_count(value: Any) -> int:
    """Return a token count as a server reports it; 0 for any other value."""
    return value if isinstance(value, int) and 0 <= value < _MAX_TOKENS else 0


def cut_whitespace_loop(completion: Completion) -> None:
    """Cut a text before its first 4,096 white spaces in a row, and set the reason whitespace_loop."""
    loop = _BLANK_LOOP.search(completion.text) if len(completion.text) >= BLANK_CHARACTERS else None
    if loop:
        completion.text, completion.reason = completion.text[: loop.start()], "whitespace_loop"


def _sampling(request: Request) -> dict[str, Any]:
    return {name: value for name, value in request.sampling.items() if name not in ("structured", VOTE)}


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, an empty one for any other value: counts of tokens are no reason to lose a reply."""
    return value if isinstance(value, Mapping) else {}


def _openai_usage(reply: Mapping[str, Any]) -> TokenUsage:
    usage = _mapping(reply.get("usage"))
    details = _mapping(usage.get("prompt_tokens_details"))
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    counts = (prompt, details.get("cached_tokens"), completion, details.get("cache_write_tokens"))
    return TokenUsage(*map(token_count, counts))


def _anthropic_usage(reply: Mapping[str, Any]) -> TokenUsage:
    """Return the usage of a reply. Its `input_tokens` exclude tokens read from or written to the cache."""
    usage = _mapping(reply.get("usage"))
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens", "cache_creation_input_tokens")
    fresh, cached, completion, written = (token_count(usage.get(name)) for name in names)
    return TokenUsage(fresh + cached + written, cached, completion, written)


def _content_text(content: Any) -> str | None:
    """Return the text of a message's content: a string or, from some servers, a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    return content
