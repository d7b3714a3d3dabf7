"""A server's reply in pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure, Piece, Wire, complaint
from fdarx_core.llm.heard import Heard
from fdarx_core.llm.model_tries import ModelAsking, ModelTries, estimated_tokens
from fdarx_core.llm.sse import Event
from fdarx_core.records import Request, Response

_CLOSING_S = 0.2


async def streamed(
    tries: ModelTries, request: Request, admit: Callable[[], None]
) -> AsyncGenerator[str | Response, None]:
    """See `HttpEndpoint.stream`."""
    with tries.asking(request, admit) as asking:
        answer = None
        while answer is None:
            heard = Heard(tries.transport.veil())
            try:
                async with (
                    tries.slot(asking, estimated_tokens(request.messages)),
                    aclosing(_shown(tries, asking, heard)) as pieces,
                ):
                    async for piece in pieces:
                        yield piece
                answer = heard.answer()
                tries.answered(request.messages, answer)
            except Failure as failure:
                answer = await _after(tries, asking, heard, failure)
    yield tries.response(asking, answer)


async def _shown(tries: ModelTries, asking: ModelAsking, heard: Heard) -> AsyncGenerator[str, None]:
    """In the slot: the pieces of one try. Left before the end, it closes the connection."""
    body = tries.body(asking, asking.request.messages, streamed=True)
    started = time.monotonic()
    async with aclosing(tries.transport.events(body)) as events:
        try:
            async for event in events:
                if text := heard.add(_read(tries.wire, event)):
                    yield text
                if heard.ended:
                    break
            if text := heard.end():
                yield text
        finally:
            asking.latency_s = time.monotonic() - started
        await _read_on(events)


def _read(wire: Wire, event: Event) -> Piece:
    try:
        return wire.piece(event)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Failure(f"{TRANSIENT}wrong_shape", f"no event of this API: {complaint(event.data)}") from None


async def _read_on(events: AsyncGenerator[Event, None]) -> None:
    """Waits a little for the end of a body: the connection of one that was read to its end is used again."""
    reading = asyncio.ensure_future(anext(events, None))  # not wait_for: before 3.12 it may lose a cancellation
    try:
        await asyncio.wait([reading], timeout=_CLOSING_S)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _after(tries: ModelTries, asking: ModelAsking, heard: Heard, failure: Failure) -> Answer | None:
    """What comes of a try that failed; None, once it is due, where another follows."""
    if heard.begun:
        return heard.broken(failure)
    try:
        await tries.wait_after(asking, failure)
    except Failure as final:
        return heard.broken(final)
    return None
