"""HTTP to a model server: one session, bounded bodies, and an API key that no text reveals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.llm.failures import TRANSIENT, EndpointStopped, Failure, connection_failure, status_failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.wire_formats import EventDecoder, WireFormat

_CONNECT_S = 30.0
_MAX_BODY_BYTES = 8 << 20
_MAX_STREAM_BYTES = 64 << 20
"""Of a streamed reply: each few characters of its text come in some hundred bytes."""
_MAX_BLANK_BYTES = 64 << 10
_BLANK = b" \t\r\n\\nrt"
"""White space as a JSON body holds it: plain between values, escaped within them."""
_HIDDEN = "[key]"


class Transport:
    """The session with one server. It opens at first use, with the key that the environment then holds.

    A pickled transport holds neither session nor key.
    """

    def __init__(self, config: ModelConfig, wire: WireFormat) -> None:
        self.answered_at = 0.0
        self._config, self._wire = config, wire
        self._url = URL(wire.url(config.base_url))
        self._session: aiohttp.ClientSession | None = None
        self._key = ""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None, "_key": ""}

    async def post(self, body: bytes) -> bytes:
        """Return the body of a reply with status 200. Raises Failure for any other, EndpointStopped without a key."""
        session = self._session or self._open()
        try:
            async with session.post(self._url, data=body, allow_redirects=False) as reply:
                data = await self._checked_body(reply)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            # no context: it would hold the request, and so the key in its headers
            raise connection_failure(error, self.answered_at > 0) from None
        self.answered_at = time.monotonic()
        return data

    async def events(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """Yield the data of the events of a reply as they arrive; a reply in plain JSON is one event.

        Raises as `post`. Closing the generator before its end closes the connection.
        """
        session = self._session or self._open()
        try:
            async with session.post(self._url, data=body, allow_redirects=False) as reply:
                if reply.status != 200 or reply.content_type == "application/json":
                    data = await self._checked_body(reply)
                    self.answered_at = time.monotonic()
                    yield data
                    return
                async with aclosing(_events_of(reply)) as events:
                    async for data in events:
                        self.answered_at = time.monotonic()
                        yield self._without_key(data)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.answered_at > 0) from None

    def redactor(self) -> Redactor:
        """Return what removes the key from a streamed text. Raises EndpointStopped without a key."""
        if not self._session:
            self._open()
        return Redactor(self._key)

    def redacted(self, text: str) -> str:
        """Return the text without the key, which a server may have repeated."""
        return text.replace(self._key, _HIDDEN) if self._key else text

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _checked_body(self, reply: aiohttp.ClientResponse) -> bytes:
        data = self._without_key(await read_body(reply.content))
        if reply.status != 200:
            raise status_failure(reply.status, reply.headers, data, self.answered_at > 0)
        return data

    def _without_key(self, data: bytes) -> bytes:
        return data.replace(self._key.encode(), _HIDDEN.encode()) if self._key else data

    def _open(self) -> aiohttp.ClientSession:
        config = self._config
        try:
            self._key = config.key()
        except ValueError as error:
            raise EndpointStopped(f"model {config.name}: {error}") from None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=config.max_in_flight),
            timeout=aiohttp.ClientTimeout(total=config.timeout_s, sock_connect=_CONNECT_S),
            headers={"Content-Type": "application/json", **self._wire.headers(self._key)},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session


class Redactor:
    """Replaces a secret in a streamed text, also where the secret is spread over several pieces."""

    def __init__(self, secret: str) -> None:
        self._secret, self._held_back = secret, ""

    def feed(self, piece: str) -> str:
        """Return the text that is safe to show so far; a possible beginning of the secret is held back."""
        if not self._secret:
            return piece
        text = (self._held_back + piece).replace(self._secret, _HIDDEN)
        longest = min(len(text), len(self._secret) - 1)
        size = next((size for size in range(longest, 0, -1) if text.endswith(self._secret[:size])), 0)
        self._held_back = text[len(text) - size :]
        return text[: len(text) - size]

    def finish(self) -> str:
        """Return what was held back, at the end of the text."""
        rest, self._held_back = self._held_back, ""
        return rest


async def read_body(stream: aiohttp.StreamReader) -> bytes:
    """Return a whole body of at most 8 MiB, with at most 64 KiB of nothing but white space in a row.

    Raises Failure whitespace_loop or transient_reply_too_large, without reading the rest.
    """
    return b"".join([chunk async for chunk in _chunks(stream, _MAX_BODY_BYTES)])


async def _chunks(stream: aiohttp.StreamReader, max_bytes: int) -> AsyncGenerator[bytes, None]:
    size = blank = 0
    async for chunk in stream.iter_any():
        size += len(chunk)
        blank = 0 if chunk.strip(_BLANK) else blank + len(chunk)
        if blank > _MAX_BLANK_BYTES:
            raise Failure("whitespace_loop", f"gave up after {size} bytes, the last {blank} all white space")
        if size > max_bytes:
            raise Failure(f"{TRANSIENT}reply_too_large", f"gave up after {size} bytes")
        yield chunk


async def _events_of(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    decoder = EventDecoder()
    async with aclosing(_chunks(reply.content, _MAX_STREAM_BYTES)) as chunks:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                yield event
    for event in decoder.finish():
        yield event
