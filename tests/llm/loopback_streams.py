"""The loopback server's replies in pieces: what a streamed reply holds, and how it is sent or breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

_PIECE = 5


@dataclass
class Trouble:
    """What a stream is like, and what goes wrong with it. `after` pieces of text it is dropped, or an error is sent.

    `every`: seconds between pieces. `portion`: it is written so many bytes at a time. `end` false: the events by which
    a server says that it is done are left out. `quirks`: comments, CRLF, null content, events that hold no text.
    """

    every: float = 0.0
    portion: int = 0
    after: int | None = None
    error: Any = None
    usage: bool = True
    end: bool = True
    quirks: bool = False

    @property
    def ends_well(self) -> bool:
        return self.end and self.after is None


def events(path: str, reply: Mapping[str, Any], trouble: Trouble) -> list[bytes]:
    """A whole reply as the events of its API, one an entry; those of text come one piece each."""
    shaped = _messages if path == "/v1/messages" else _chat
    end = "\r\n" if trouble.quirks else "\n"
    written = []
    for event in shaped(reply, trouble):
        name = f"event: {event['type']}{end}" if "type" in event else ""
        written.append(f"{name}data: {orjson.dumps(event).decode()}{end}{end}".encode())
    if trouble.quirks:
        written[1:1] = [b": still thinking\r\n\r\n", b"retry: 1000\r\nid: 7\r\n\r\n"]
    if shaped is _chat and trouble.ends_well:
        written.append(f"data: [DONE]{end}{end}".encode())
    return written


def _chat(reply: Mapping[str, Any], trouble: Trouble) -> Iterator[dict[str, Any]]:
    """Begins as vLLM does, with the role and empty content."""
    [choice] = reply["choices"]
    message = choice["message"]
    yield _delta({"role": "assistant", "content": ""})
    if trouble.quirks:
        yield _delta({"content": None, "reasoning_content": "Let me think."})
        yield {"object": "chat.completion.chunk", "choices": []}
    field = "refusal" if message.get("refusal") else "content"
    for piece in _cut(message[field], trouble):
        yield _delta({field: piece})
    if trouble.error is not None:
        yield {"error": trouble.error}
    elif trouble.ends_well:
        yield _delta({}, choice["finish_reason"])
        if trouble.usage:
            yield {"object": "chat.completion.chunk", "choices": [], "usage": reply["usage"]}


def _delta(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"object": "chat.completion.chunk", "choices": [choice], "usage": None}


def _messages(reply: Mapping[str, Any], trouble: Trouble) -> Iterator[dict[str, Any]]:
    usage = reply["usage"] if trouble.usage else {}
    yield {"type": "message_start", "message": {**reply, "content": [], "usage": {**usage, "output_tokens": 1}}}
    if trouble.quirks:
        yield {"type": "ping"}
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Well."}}
    for index, block in enumerate(reply["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
        for piece in _cut(block["text"], trouble):
            yield {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": piece}}
        yield {"type": "content_block_stop", "index": index}
    if trouble.error is not None:
        yield {"type": "error", "error": trouble.error}
    elif trouble.ends_well:
        counted = {"output_tokens": usage["output_tokens"]} if usage else {}
        yield {"type": "message_delta", "delta": {"stop_reason": reply["stop_reason"]}, "usage": counted}
        yield {"type": "message_stop"}


def _cut(text: str | None, trouble: Trouble) -> list[str]:
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)] if text else []
    return pieces[: trouble.after]


async def send(request: web.Request, written: list[bytes], trouble: Trouble) -> web.StreamResponse:
    """Writes the events; where the stream is to break off without an error, the connection is cut."""
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await stream.prepare(request)
    for event in written:
        for start in range(0, len(event), trouble.portion or len(event)):
            await stream.write(event[start : start + (trouble.portion or len(event))])
            await asyncio.sleep(trouble.every if not start else 0)
    if trouble.after is not None and trouble.error is None:
        assert request.transport is not None
        request.transport.close()
    return stream
