"""HTTP to a batch API: calls in JSON, uploads of any size, and results line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.llm.credentials import Credentials, IssuedKey
from fdarx_core.llm.failures import TRANSIENT, Failure, connection_failure, decode_json, status_failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.transport import HttpTransport
from fdarx_core.llm.wire_formats import WireFormat

_MAX_LINE_BYTES = 8 << 20
_CONNECT_S = 30.0


class BatchTransport(HttpTransport):
    """The session with the server of a batch API. `answered_at` is set by who reads the results of requests.

    `reached` says that a call has succeeded, so that the address and the key are right. Batches take hours, so each
    call first has a key renewed that is no longer valid.
    """

    def __init__(self, config: ModelConfig, credentials: Credentials, wire: WireFormat) -> None:
        super().__init__(config, credentials, wire)
        self.reached = False
        self._call_timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=config.timeout_s)

    async def call(self, method: str, url: str, data: Any = None) -> Any:
        """Return the JSON of a reply with status 200. Raises as `HttpTransport.post`."""
        session, key = await self._opened()
        options = {**self._options, "data": data, "timeout": self._call_timeout}
        if isinstance(data, aiohttp.MultipartWriter):
            options["headers"] = {**self._options["headers"], "Content-Type": data.headers["Content-Type"]}
        try:
            async with session.request(method, self._address(url), **options) as reply:
                body = await self._checked_body(reply, key)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.reached) from None
        self.reached = True
        return decode_json(body)

    async def lines(self, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a reply, of which one is in memory at a time. Raises as `call`."""
        session, key = await self._opened()
        options = {**self._options, "timeout": self._call_timeout}
        try:
            async with session.get(self._address(url), **options) as reply:
                if reply.status != 200:
                    await self._checked_body(reply, key)
                async with aclosing(_lines_of(reply.content)) as lines:
                    async for line in lines:
                        yield self._credentials.redacted_bytes(line)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.reached) from None

    async def _opened(self) -> tuple[aiohttp.ClientSession, IssuedKey]:
        if not self._credentials.valid:
            await self._credentials.refresh()
        return self._open()

    def _address(self, url: str) -> URL:
        return URL(url).update_query(self._config.query)

    def _failure(self, reply: aiohttp.ClientResponse, body: bytes) -> Failure:
        failure = status_failure(reply.status, reply.headers, body, self.reached)
        failure.detail = f"{reply.method} {reply.url.path}: {failure.detail}"
        return failure


async def _lines_of(stream: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise Failure(f"{TRANSIENT}reply_too_large", f"a line of results has more than {_MAX_LINE_BYTES} bytes")
        for line in whole:
            if line.strip():
                yield line
    if rest.strip():
        yield rest
