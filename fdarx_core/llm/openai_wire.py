"""The Chat Completions API: payload out, reply in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure, Messages, Mode, Piece, decoded, tokens, whole
from fdarx_core.llm.faults import reported_failure
from fdarx_core.llm.sse import Event
from fdarx_core.records import Request


class OpenAIWire:
    """Any OpenAI-compatible server."""

    def url(self, base_url: str) -> str:
        return f"{base_url}/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def payload(self, request: Request, messages: Messages, mode: Mode) -> dict[str, Any]:
        sampling = {name: value for name, value in request.sampling.items() if name != "structured"}
        return {**sampling, "messages": messages, **_response_format(request, mode)}

    def answer(self, reply: Mapping[str, Any]) -> Answer:
        """Raises Failure transient_empty_choices."""
        if not reply["choices"]:
            raise Failure(f"{TRANSIENT}empty_choices", "the list of choices is empty")
        choice = reply["choices"][0]
        finish_reason = str(choice.get("finish_reason") or "stop")
        text, reason = _said(choice["message"], finish_reason)
        return Answer(text, finish_reason, *_usage(reply), reason)

    def streaming(self, stream_options: bool) -> dict[str, Any]:
        return {"stream": True} | ({"stream_options": {"include_usage": True}} if stream_options else {})

    def piece(self, event: Event) -> Piece:
        """Reasoning is no part of the text; what only counts tokens has no choices."""
        if event.data == b"[DONE]":
            return Piece(last=True)
        said = decoded(event.data)
        if said.get("error"):
            raise reported_failure(event.data, said["error"])
        choice: Mapping[str, Any] = (said.get("choices") or [{}])[0]
        if "message" in choice:
            return whole(self.answer(said))
        delta = choice.get("delta") or {}
        finish_reason = str(choice.get("finish_reason") or "")
        text, refusal = _text(delta.get("content")) or "", _text(delta.get("refusal")) or ""
        return Piece(text, refusal, finish_reason, *_usage(said))


def _usage(reply: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Tokens of the prompt, those of them read from a cache, those of the completion, those written to the cache."""
    usage = reply.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    cached, written = tokens(details.get("cached_tokens")), tokens(details.get("cache_write_tokens"))
    return tokens(usage.get("prompt_tokens")), cached, tokens(usage.get("completion_tokens")), written


def _response_format(request: Request, mode: Mode) -> dict[str, Any]:
    if mode == "json_schema":
        schema = {"name": request.task, "schema": request.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {"response_format": {"type": "json_object"}} if mode == "json_object" else {}


def _said(message: Mapping[str, Any], finish_reason: str) -> tuple[str, str]:
    """Text and reason. Content is null where all was reasoning."""
    if message.get("refusal"):
        return str(message["refusal"]), "refusal"
    content = _text(message["content"])
    if content is None:
        return "", "" if finish_reason == "length" else "null_content"
    return content, ""


def _text(content: Any) -> str | None:
    """Content is a string, with some servers a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    return content
