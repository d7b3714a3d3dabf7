"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from serving.http.errors import problem_of
from serving.http.logs import Note
from serving.http.world import Unavailable


def event(name: str, content: Any) -> bytes:
    """One named event; its data is JSON, which holds no line end."""
    return b"event: " + name.encode() + b"\n" + data(content)


def data(content: Any) -> bytes:
    """One event without a name."""
    return b"data: " + orjson.dumps(content) + b"\n\n"


def stream(events: AsyncGenerator[bytes, None], note: Note) -> StreamingResponse:
    """A reply of events, the last of which is `error` where a part of the service fails on the way."""
    return _Stream(events, note)


class _Stream(StreamingResponse):
    """Closes its events whichever way it ends. The gate watches for the client's leaving; it need not."""

    def __init__(self, events: AsyncGenerator[bytes, None], note: Note) -> None:
        self._events = _to_the_end(events, note)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._events, headers=headers, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await self.stream_response(send)


async def _to_the_end(events: AsyncGenerator[bytes, None], note: Note) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(events):
            async for one in events:
                yield one
    except Unavailable as error:
        problem = problem_of(error)
        note.error, note.detail = problem.code or "", error.why
        yield event("error", problem.body)
