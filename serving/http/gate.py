"""What a request must pass before work is done for it, and what ends the work: its deadline, its client's leaving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.http.envelope import ClientGone
from serving.http.errors import Problem, busy
from serving.http.keys import Keys, given_key
from serving.http.limits import Full, Rate, Room
from serving.http.logs import note_of
from serving.http.meter import Meter
from serving.http.settings import ServiceSettings

_GUARDED = "/v1/"
_NO_KEY = "Send a key that this server knows, as Authorization: Bearer KEY or X-API-Key: KEY."
_TOO_LATE = "No answer within {:g} s. Ask for less (a strategy without a model, a smaller k), or allow more time."


class Gate:
    """Lets requests to the API in: keys, rate, size, places; then cancels the work that nobody waits for any more.

    The API is whatever path holds /v1/, under whichever prefix the app is mounted.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, meter: Meter) -> None:
        self._app, self._settings, self._meter = app, settings, meter
        self._keys = Keys.load(settings.keys_file) if settings.keys_file else None
        rate = settings.requests_per_minute
        self._rate = Rate(rate, settings.burst) if rate else None
        self._room = Room(settings.in_flight, settings.waiting, settings.wait_s, meter.in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _GUARDED not in scope["path"]:
            await self._app(scope, receive, send)
            return
        self._check_key(scope)
        self._check_rate(scope)
        seconds = self._seconds(scope)
        until = time.monotonic() + seconds
        body = await self._body(scope, receive, seconds)
        work = self._in_room(scope, _Replay(body), send)
        await _while_wanted(work, receive, until - time.monotonic(), _TOO_LATE.format(seconds))

    def _check_key(self, scope: Scope) -> None:
        if self._keys is None:
            return
        name = self._keys.holder(given_key(scope["headers"]))
        if name is None:
            self._meter.rejected("key")
            raise Problem(401, _NO_KEY, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        note_of(scope).key = name

    def _check_rate(self, scope: Scope) -> None:
        """Looking things up costs little and is not counted."""
        if self._rate is None or scope["method"] != "POST":
            return
        wait = self._rate.take(note_of(scope).key or (scope.get("client") or ("unknown",))[0])
        if wait:
            self._meter.rejected("rate")
            raise busy(f"More than {self._settings.requests_per_minute:g} requests a minute.", wait, status=429)

    def _seconds(self, scope: Scope) -> float:
        given = _header(scope, b"x-deadline-ms")
        if not given:
            return self._settings.deadline_s
        if not given.isdigit() or not int(given[:12]) > 0:
            raise Problem(422, "X-Deadline-Ms is a whole number of milliseconds above 0.", param="X-Deadline-Ms")
        return min(int(given[:12]) / 1000, self._settings.deadline_s)

    async def _body(self, scope: Scope, receive: Receive, seconds: float) -> bytes:
        most = self._settings.body_bytes
        declared = _header(scope, b"content-length")
        if declared.isdigit() and int(declared[:20]) > most:
            raise _too_large(most)
        try:
            return await asyncio.wait_for(_read(receive, most), seconds)
        except asyncio.TimeoutError:
            raise Problem(408, f"The request's body did not come within {seconds:g} s.", code="slow_body") from None

    async def _in_room(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._room.enter()
        except Full:
            self._meter.rejected("concurrency")
            raise busy("This server has as many requests as it takes.") from None
        try:
            await self._app(scope, receive, send)
        finally:
            self._room.leave()


class _Replay:
    """`receive` for the app: the body, which has been read; the gate itself watches for the client's leaving."""

    def __init__(self, body: bytes) -> None:
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        if message is None:
            await asyncio.get_running_loop().create_future()  # for ever, that is until the work is done or cancelled
        assert message is not None
        return message


async def _read(receive: Receive, most: int) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        body += piece
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return body


async def _while_wanted(work: Awaitable[None], receive: Receive, seconds: float, too_late: str) -> None:
    """Runs the work to its end, or cancels it. Raises ClientGone, or Problem 504 after `seconds`."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        elif gone.done():
            raise ClientGone
        else:
            raise Problem(504, too_late, code="deadline")
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_large(most: int) -> Problem:
    return Problem(413, f"The body is longer than {most} bytes.", code="too_large")


def _header(scope: Scope, wanted: bytes) -> bytes:
    values: Iterator[bytes] = (value for name, value in scope["headers"] if name == wanted)
    return next(values, b"")
