"""Anthropic's Messages API: payload out, reply in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fdarx_core.llm.exchange import Answer, Messages, Mode, Piece, decoded, tokens, whole
from fdarx_core.llm.faults import reported_failure
from fdarx_core.llm.sse import Event
from fdarx_core.records import Request

_VERSION = "2023-06-01"
_FINISH = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}


class AnthropicWire:
    """Its server marks what may be cached: here all that the requests of a task share, system text and examples."""

    def url(self, base_url: str) -> str:
        return f"{base_url}/messages" if base_url.endswith("/v1") else f"{base_url}/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def payload(self, request: Request, messages: Messages, mode: Mode) -> dict[str, Any]:
        """json_object, which this API has not, is a forced call of a tool that takes the reply."""
        sampling = {name: value for name, value in request.sampling.items() if name != "structured"}
        shared = len(request.messages) - 1  # the last is this request's own
        turns = [_turn(message, marked=position == shared - 1) for position, message in enumerate(messages)]
        system = [block for turn in turns if turn["role"] == "system" for block in turn["content"]]
        spoken = [turn for turn in turns if turn["role"] != "system"]
        return {**sampling, "system": system, "messages": spoken, **_format(request, mode)}

    def answer(self, reply: Mapping[str, Any]) -> Answer:
        text = "".join(_said(block) for block in reply["content"])
        finish_reason = _FINISH.get(reply["stop_reason"], "stop")
        reason = "refusal" if finish_reason == "refusal" else ""
        if not reply["content"] and finish_reason == "stop":
            reason = "null_content"
        return Answer(text, finish_reason, *_usage(reply), reason)

    def streaming(self, stream_options: bool) -> dict[str, Any]:
        return {"stream": True}

    def piece(self, event: Event) -> Piece:
        """Events of kinds that are not text (thinking, ping) add nothing."""
        said = decoded(event.data)
        kind = said.get("type")
        if kind == "error" or said.get("error"):
            raise reported_failure(event.data, said.get("error"))
        if kind == "message":
            return whole(self.answer(said))
        if kind == "content_block_delta":
            return Piece(str(said["delta"].get("text") or ""))
        if kind == "message_start":
            return Piece("", "", "", *_usage(said["message"]))
        if kind == "message_delta":
            stopped = said["delta"].get("stop_reason")
            return Piece("", "", _FINISH.get(stopped, "stop") if stopped else "", *_usage(said))
        return Piece(last=kind == "message_stop")


def _usage(reply: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Tokens of the prompt, those of them read from a cache, those of the completion, those written to the cache."""
    usage = reply.get("usage") or {}
    cached = tokens(usage.get("cache_read_input_tokens"))
    written = tokens(usage.get("cache_creation_input_tokens"))
    prompt = tokens(usage.get("input_tokens")) + cached + written  # here input_tokens leaves those out
    return prompt, cached, tokens(usage.get("output_tokens")), written


def _turn(message: Mapping[str, str], marked: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": message["content"]}
    if marked:
        block["cache_control"] = {"type": "ephemeral"}
    return {"role": message["role"], "content": [block]}


def _format(request: Request, mode: Mode) -> dict[str, Any]:
    if mode == "json_schema":
        return {"output_config": {"format": {"type": "json_schema", "schema": request.schema}}}
    if mode == "text":
        return {}
    tool = {"name": "reply", "description": "Takes the reply.", "input_schema": request.schema}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": "reply"}}


def _said(block: Mapping[str, Any]) -> str:
    if block["type"] == "tool_use":
        return orjson.dumps(block["input"]).decode()
    return str(block["text"]) if block["type"] == "text" else ""
