"""Bytes to a server and back, over one warm session."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.llm.exchange import EndpointStopped, Wire
from fdarx_core.llm.faults import connection_failure, status_failure
from fdarx_core.llm.guards import read_body
from fdarx_core.llm.models import ModelConfig

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
        data = data.replace(self._key.encode(), b"[key]") if self._key else data
        if reply.status != 200:
            raise status_failure(reply.status, reply.headers, data, self.answered_at > 0)
        self.answered_at = time.monotonic()
        return data

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
