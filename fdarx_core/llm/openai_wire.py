"""The Chat Completions API: payload out, reply in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure, Messages, Mode, tokens
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
        usage = reply.get("usage") or {}
        prompt, completion = tokens(usage.get("prompt_tokens")), tokens(usage.get("completion_tokens"))
        cached = tokens((usage.get("prompt_tokens_details") or {}).get("cached_tokens"))
        return Answer(text, finish_reason, prompt, cached, completion, reason)


def _response_format(request: Request, mode: Mode) -> dict[str, Any]:
    if mode == "json_schema":
        schema = {"name": request.task, "schema": request.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {"response_format": {"type": "json_object"}} if mode == "json_object" else {}


def _said(message: Mapping[str, Any], finish_reason: str) -> tuple[str, str]:
    """Text and reason. Content is a string, with some servers a list of parts, and null where all was reasoning."""
    if message.get("refusal"):
        return str(message["refusal"]), "refusal"
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if content is None:
        return "", "" if finish_reason == "length" else "null_content"
    if not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    return content, ""
