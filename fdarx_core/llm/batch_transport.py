"""HTTP to a batch API: calls in JSON, uploads of any size, and results line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.llm.failures import TRANSIENT, Failure, connection_failure, decode_json, status_failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.transport import Transport, read_body
from fdarx_core.llm.wire_formats import WireFormat

_MAX_LINE_BYTES = 8 << 20
_CONNECT_S = 30.0


class BatchTransport(Transport):
    """The session with the server of a batch API. `answered_at` is set by who reads the results of requests.

    `reached` says that a call has succeeded, so that the address and the key are right.
    """

    def __init__(self, config: ModelConfig, wire: WireFormat) -> None:
        super().__init__(config, wire)
        self.reached = False
        self._call_timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=config.timeout_s)

    async def call(self, method: str, url: str, data: Any = None) -> Any:
        """Return the JSON of a reply with status 200. Raises as `Transport.post`."""
        session = self._session or self._open()
        headers = {"Content-Type": data.headers["Content-Type"]} if isinstance(data, aiohttp.MultipartWriter) else {}
        try:
            async with session.request(
                method, URL(url), data=data, headers=headers, allow_redirects=False, timeout=self._call_timeout
            ) as reply:
                body = self._without_key(await read_body(reply.content))
                if reply.status != 200:
                    raise status_failure(reply.status, reply.headers, body, self.reached)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.reached) from None
        self.reached = True
        return decode_json(body)

    async def lines(self, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a reply, of which one is in memory at a time. Raises as `call`."""
        session = self._session or self._open()
        try:
            async with session.get(URL(url), allow_redirects=False, timeout=self._call_timeout) as reply:
                if reply.status != 200:
                    body = self._without_key(await read_body(reply.content))
                    raise status_failure(reply.status, reply.headers, body, self.reached)
                async with aclosing(_lines_of(reply.content)) as lines:
                    async for line in lines:
                        yield self._without_key(line)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.reached) from None


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
