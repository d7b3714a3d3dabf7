"""Bytes to a server and back, over one warm session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.llm.exchange import EndpointStopped, Wire
from fdarx_core.llm.faults import connection_failure, status_failure
from fdarx_core.llm.guards import MOST_STREAMED, Bound, read_body
from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.sse import Event, Events
from fdarx_core.llm.veil import Veil

_CONNECT_S = 30.0


class Transport:
    """Opened when first used, with the key that the environment then holds; what is pickled is unopened."""

    def __init__(self, config: ModelConfig, wire: Wire) -> None:
        self.answered_at = 0.0
        self._config, self._wire = config, wire
        self._url = URL(wire.url(config.base_url))
        self._session: aiohttp.ClientSession | None = None
        self._key = ""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None, "_key": ""}

    async def post(self, body: bytes) -> bytes:
        """The body of a reply with status 200. Raises Failure for any other, EndpointStopped without a key."""
        session = self._session or self._open()
        try:
            async with session.post(self._url, data=body, allow_redirects=False) as reply:
                data = await read_body(reply.content)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            # no context: it would hold the request, and so its headers
            raise connection_failure(error, self.answered_at > 0) from None
        data = self._without_key(data)
        if reply.status != 200:
            raise status_failure(reply.status, reply.headers, data, self.answered_at > 0)
        self.answered_at = time.monotonic()
        return data

    async def events(self, body: bytes) -> AsyncGenerator[Event, None]:
        """The events of a reply with status 200 as they come; one event where the reply is JSON, and no stream.

        Raises as `post`. Closing the generator before its end closes the connection.
        """
        session = self._session or self._open()
        try:
            async with session.post(self._url, data=body, allow_redirects=False) as reply:
                if reply.status != 200:
                    data = self._without_key(await read_body(reply.content))
                    raise status_failure(reply.status, reply.headers, data, self.answered_at > 0)
                async with aclosing(_events_of(reply)) as events:
                    async for event in events:
                        self.answered_at = time.monotonic()
                        yield replace(event, data=self._without_key(event.data))
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.answered_at > 0) from None

    def _without_key(self, data: bytes) -> bytes:
        return data.replace(self._key.encode(), b"[key]") if self._key else data

    def veil(self) -> Veil:
        """What covers the key in a text that comes in pieces. Raises EndpointStopped without a key."""
        if not self._session:
            self._open()
        return Veil(self._key)

    def scrubbed(self, text: str) -> str:
        """The text without the key, which a server may have said back."""
        return text.replace(self._key, "[key]") if self._key else text

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

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


async def _events_of(reply: aiohttp.ClientResponse) -> AsyncGenerator[Event, None]:
    if reply.content_type == "application/json":
        yield Event("", await read_body(reply.content))
        return
    events, bound = Events(), Bound(MOST_STREAMED)
    async for chunk in reply.content.iter_any():
        for event in events.of(bound.take(chunk)):
            yield event
    for event in events.rest():
        yield event
