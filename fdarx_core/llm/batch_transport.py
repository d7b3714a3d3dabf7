"""HTTP to a batch API: calls in JSON, uploads of any size, and results line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.llm.credentials import Credentials
from fdarx_core.llm.failures import TRANSIENT, Failure, connection_failure, decode_json, status_failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.transport import HttpTransport, read_body
from fdarx_core.llm.wire_formats import WireFormat

_MAX_LINE_BYTES = 8 << 20
_CONNECT_S = 30.0


class BatchTransport(HttpTransport):
    """The session with the server of a batch API. `answered_at` is set by who reads the results of requests.

    `reached` says that a call has succeeded, so that the address and the key are right.
    """

    def __init__(self, config: ModelConfig, credentials: Credentials, wire: WireFormat) -> None:
        super().__init__(config, credentials, wire)
        self.reached = False
        self._call_timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=config.timeout_s)

    async def call(self, method: str, url: str, data: Any = None) -> Any:
        """Return the JSON of a reply with status 200. Raises as `HttpTransport.post`."""
        content_type = data.headers["Content-Type"] if isinstance(data, aiohttp.MultipartWriter) else ""
        try:
            async with self._request(method, url, data, content_type) as reply:
                body = await self._checked(reply)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.reached) from None
        self.reached = True
        return decode_json(body)

    async def lines(self, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a reply, of which one is in memory at a time. Raises as `call`."""
        try:
            async with self._request("GET", url) as reply:
                if reply.status != 200:
                    await self._checked(reply)
                async with aclosing(_lines_of(reply.content)) as lines:
                    async for line in lines:
                        yield self._credentials.redacted_bytes(line)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise connection_failure(error, self.reached) from None

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, data: Any = None, content_type: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the reply to a call with a valid key, which is requested first where there is none."""
        while not self._credentials.valid:
            await self._credentials.refresh()
        session, _ = self._open()
        options = {**self._options, "timeout": self._call_timeout}
        if content_type:
            options["headers"] = {**options["headers"], "Content-Type": content_type}
        async with session.request(method, URL(url).update_query(self._config.query), data=data, **options) as reply:
            yield reply

    async def _checked(self, reply: aiohttp.ClientResponse) -> bytes:
        """Return the body of a reply with status 200. Raises Failure for any other."""
        key = self._credentials.key
        data = self._credentials.redacted_bytes(await read_body(reply.content))
        if reply.status == 200:
            key.accepted = True
            return data
        failure = status_failure(reply.status, reply.headers, data, self.reached)
        raise self._credentials.after_401(key, failure) if reply.status == 401 else failure


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
