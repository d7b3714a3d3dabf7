"""A chat server on this machine that answers as it is told, and fails as it is told.

    python -m tests.llm.loopback_server --port 8000 --latency 0.5

It speaks the Chat Completions API (/v1/chat/completions) and Anthropic's Messages API (/v1/messages), whole or streamed
as a request asks. In a test it runs in a thread with an event loop of its own:

    with LoopbackServer(answer=my_function) as server:
        server.faults = lambda call: Fault(status=429, retry_after="1") if call.attempt == 1 else None
        ... ask server.openai_url ...
        assert server.most_in_flight <= 4
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson
from aiohttp import web

from tests.in_thread import InThread, listening

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


Answer = Callable[[Mapping[str, Any]], str]


@dataclass
class Call:
    """One request as the server saw it. `attempt` counts calls with the same messages, from 1."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    prompt: str
    attempt: int
    number: int
    at: float
    port: int
    query: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """What goes wrong with one call. Fields left alone go right; `reply` stands in for the whole JSON of a reply, and
    `message` for that of its one message. `stream` is how a reply goes that is asked for in pieces."""

    status: int = 200
    error: Any = None
    retry_after: str | None = None
    latency: float | None = None
    drop: bool = False
    cut: bool = False
    endless: bytes = b""
    raw: bytes | None = None
    reply: Any = None
    message: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"
    text: str | None = None
    stream: Trouble = field(default_factory=Trouble)


def echo(body: Mapping[str, Any]) -> str:
    """The last message."""
    return text_of(body["messages"][-1])


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text, a string in one API and a list of blocks in the other."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


class LoopbackServer(InThread):
    """Counts what it sees: `calls` in order, `by_prompt` (a digest of the messages), `answered`, `most_in_flight`, and
    `abandoned`: calls whose client was gone before the reply was whole."""

    def __init__(
        self,
        answer: Answer = echo,
        latency: float = 0.0,
        keep_calls: bool = True,
        ssl_context: Any = None,
        port: int = 0,
    ) -> None:
        self.answer, self.latency = answer, latency
        self.faults: Callable[[Call], Fault | None] = lambda call: None
        self.calls: list[Call] = []
        self.by_prompt: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.in_flight = self.most_in_flight = self.number = self.abandoned = 0
        self.first_at = self.last_at = 0.0
        self.port = port
        self._keep_calls, self._ssl = keep_calls, ssl_context
        super().__init__()

    @property
    def url(self) -> str:
        """What an Anthropic client takes as its base."""
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    async def start(self) -> web.AppRunner:
        runner = await listening(self.application(), self.port, ssl_context=self._ssl, backlog=1024)
        self.port = runner.addresses[0][1]
        return runner

    def application(self) -> web.Application:
        """Return the addresses that the server knows."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", self._serve)
        app.router.add_post("/v1/messages", self._serve)
        app.router.add_get("/seen", self._tell)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            call = self._seen(request, await request.read())
            fault = self.faults(call) or Fault()
            await asyncio.sleep(self.latency if fault.latency is None else fault.latency)
            return await self._reply(request, call, fault)
        except ConnectionError:
            self.abandoned += 1
            return web.Response()
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        finally:
            self.in_flight -= 1
            self.last_at = time.monotonic()

    async def _tell(self, request: web.Request) -> web.Response:
        """What another process wants to know: calls so far, seconds from the first call to the last reply."""
        seen = {"calls": self.number, "answered": self.answered.total(), "most_in_flight": self.most_in_flight}
        return web.json_response(seen | {"window_s": self.last_at - self.first_at})

    def _seen(self, request: web.Request, data: bytes) -> Call:
        assert request.transport is not None
        port = request.transport.get_extra_info("peername")[1]
        return self.seen(request.path, orjson.loads(data), dict(request.headers), port, dict(request.query))

    def seen(
        self,
        path: str,
        body: dict[str, Any],
        headers: dict[str, str],
        port: int = 0,
        query: dict[str, str] | None = None,
    ) -> Call:
        """Count a request, and return it as the server saw it."""
        prompt = blake2b(orjson.dumps(body["messages"]), digest_size=8).hexdigest()
        self.by_prompt[prompt] += 1
        self.number += 1
        now = time.monotonic()
        self.first_at = self.first_at or now
        attempt = self.by_prompt[prompt]
        call = Call(path, body, headers, prompt, attempt, self.number, now, port, query or {})
        if self._keep_calls:
            self.calls.append(call)
        return call

    async def _reply(self, request: web.Request, call: Call, fault: Fault) -> web.StreamResponse:
        if fault.drop:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = {"Content-Type": "application/json"}
        if fault.retry_after is not None:
            headers["Retry-After"] = fault.retry_after
        if fault.endless:
            return await self._without_end(request, fault.endless)
        body = self.reply_body(call, fault)
        if call.body.get("stream") and fault.status == 200 and fault.raw is None and fault.reply is None:
            self.answered[call.prompt] += 1
            return await send(request, events(call.path, orjson.loads(body), fault.stream), fault.stream)
        if fault.cut:
            return await self._cut(request, body)
        if fault.status == 200:
            self.answered[call.prompt] += 1
        return web.Response(body=body, status=fault.status, headers=headers)

    async def _without_end(self, request: web.Request, chunk: bytes) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        while True:
            await stream.write(chunk)
            await asyncio.sleep(0.001)

    async def _cut(self, request: web.Request, body: bytes) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await stream.prepare(request)
        await stream.write(body[: len(body) // 2])
        assert request.transport is not None
        request.transport.close()
        return stream

    def reply_body(self, call: Call, fault: Fault) -> bytes:
        """Return the body of the reply to a call with that fault."""
        if fault.raw is not None:
            return fault.raw
        if fault.status != 200:
            error = fault.error if fault.error is not None else {"message": f"told to fail with {fault.status}"}
            return orjson.dumps({"error": error})
        if fault.reply is not None:
            return orjson.dumps(fault.reply)
        text = self.answer(call.body) if fault.text is None else fault.text
        shape = _messages_reply if call.path == "/v1/messages" else _chat_reply
        reply = shape(text, fault, len(orjson.dumps(call.body["messages"])) // 4)
        return orjson.dumps({"model": call.body.get("model"), **reply})


def _chat_reply(text: str, fault: Fault, prompt_tokens: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **fault.message}
    completion_tokens = len(text) // 4 + 1
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": fault.finish_reason}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": prompt_tokens // 2},
        },
    }


def _messages_reply(text: str, fault: Fault, prompt_tokens: int) -> dict[str, Any]:
    stop = {"stop": "end_turn", "length": "max_tokens"}.get(fault.finish_reason, fault.finish_reason)
    return {
        "type": "message",
        "content": [{"type": "text", "text": text, **fault.message}],
        "stop_reason": stop,
        "usage": {
            "input_tokens": prompt_tokens // 2,
            "cache_read_input_tokens": prompt_tokens - prompt_tokens // 2,
            "output_tokens": len(text) // 4 + 1,
        },
    }


async def _forever(server: LoopbackServer) -> None:
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until killed; prints the port. Every reply is `--text`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--text", default='{"items": []}')
    parser.add_argument("--refuse-tenth", action="store_true", help="429 with Retry-After 1 to a tenth of first calls")
    options = parser.parse_args()
    server = LoopbackServer(lambda body: options.text, options.latency, keep_calls=False, port=options.port)
    if options.refuse_tenth:
        server.faults = refuse_tenth
    asyncio.run(_forever(server))


def refuse_tenth(call: Call) -> Fault | None:
    """429 with Retry-After 1, at once, to the first call of one prompt in ten."""
    refused = call.attempt == 1 and int(call.prompt, 16) % 10 == 0
    return Fault(status=429, retry_after="1", latency=0.0) if refused else None


if __name__ == "__main__":
    main()
