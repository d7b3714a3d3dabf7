"""How requests reach a model's server: one HTTP session, bounded bodies, and secrets that no text reveals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from fdarx_core.llm import access
from fdarx_core.llm.credentials import Credentials, IssuedKey
from fdarx_core.llm.failures import TRANSIENT, EndpointStopped, Failure, connection_failure, decode_json, status_failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.streaming import EventDecoder
from fdarx_core.llm.wire_formats import OpenAIFormat

_CONNECT_S = 30.0
_IDLE_S = 4.0
"""Seconds after which an idle connection is closed: vLLM closes it after five, and a request sent just then is lost."""
_MAX_BODY_BYTES = 8 << 20
_MAX_LINE_BYTES = 8 << 20
"""Of a file of results."""
_MAX_STREAM_BYTES = 64 << 20
"""Of a streamed reply: each few characters of its text come in some hundred bytes."""
_MAX_BLANK_BYTES = 64 << 10
_BLANK = b" \t\r\n\\nrt"
"""White space as a JSON body holds it: plain between values, escaped within them."""


class HttpTransport:
    """Carries the requests of one model to its server by one aiohttp session, directly or through a proxy.

    It opens at first use, after `credentials` have read the key. A pickled transport holds neither session nor key. No
    secret is in what it returns or raises. `reached` says that the server has answered with status 200, so that its
    address and the key are right; `answered_at` is when it did so last.
    """

    def __init__(self, config: ModelConfig, credentials: Credentials, wire: OpenAIFormat) -> None:
        self.answered_at, self.reached = 0.0, False
        self._config, self._credentials, self._wire = config, credentials, wire
        self._url = URL(wire.url(config.base_url)).update_query(config.query)
        self._session: aiohttp.ClientSession | None = None
        self._key: IssuedKey | None = None
        self._options: dict[str, Any] = {"allow_redirects": False}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None, "_key": None, "_options": {"allow_redirects": False}}

    async def post(self, body: bytes) -> bytes:
        """Return the body of a reply with status 200. Raises Failure for any other, EndpointStopped without access."""
        async with self._request("POST", self._url, body) as (reply, key):
            data = await self._checked_body(reply, key)
        self.answered_at = time.monotonic()
        return data

    async def events(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """Yield the data of the events of a reply as they arrive; a reply in plain JSON is one event.

        Raises as `post`. Closing the generator before its end closes the connection.
        """
        async with self._request("POST", self._url, body) as (reply, key):
            if reply.status != 200 or reply.content_type == "application/json":
                data = await self._checked_body(reply, key)
                self.answered_at = time.monotonic()
                yield data
                return
            key.accepted = self.reached = True
            decoder, counted = EventDecoder(), _CountedBytes(_MAX_STREAM_BYTES)
            while chunk := await reply.content.readany():
                counted.add(chunk)
                for event in decoder.feed(chunk):
                    self.answered_at = time.monotonic()
                    yield self._credentials.redacted_bytes(event)
            for event in decoder.finish():
                yield self._credentials.redacted_bytes(event)

    async def call(self, method: str, url: str, data: Any = None) -> Any:
        """Return the JSON of a reply of a batch API with status 200. Raises as `post`.

        `data` may be of any size: `timeout_s` holds for each wait for the server, not for the whole call. `answered_at`
        is set by who reads the results of requests.
        """
        async with self._batch_request(method, url, data) as (reply, key):
            body = await self._checked_body(reply, key)
        return decode_json(body)

    async def lines(self, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a file of results, of which one is in memory at a time. Raises as `call`."""
        async with self._batch_request("GET", url) as (reply, key):
            if reply.status != 200:
                await self._checked_body(reply, key)
            rest = b""
            async for chunk in reply.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > _MAX_LINE_BYTES:
                    detail = f"a line of results has more than {_MAX_LINE_BYTES} bytes"
                    raise Failure(f"{TRANSIENT}reply_too_large", detail)
                for line in filter(bytes.strip, whole):
                    yield self._credentials.redacted_bytes(line)
            if rest.strip():
                yield self._credentials.redacted_bytes(rest)

    async def close(self) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()
            self._session = self._key = None

    @asynccontextmanager
    async def _request(
        self, method: str, url: URL, data: Any = None, content_type: str = "", **options: Any
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, IssuedKey]]:
        """Send a request; the value is its reply, and the key that it was sent with. Raises Failure without a reply."""
        session, key = self._open()
        options = {**self._options, **options}
        if content_type:
            options["headers"] = {**self._options["headers"], "Content-Type": content_type}
        try:
            async with session.request(method, url, data=data, **options) as reply:
                yield reply, key
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            # no context: it would hold the request, and so the key in its headers
            raise connection_failure(error, self.reached) from None

    @asynccontextmanager
    async def _batch_request(
        self, method: str, url: str, data: Any = None
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, IssuedKey]]:
        """Send a call of a batch API, with a key that is renewed before if it has expired: batches take hours."""
        if not self._credentials.valid:
            await self._credentials.refresh()
        content_type = data.headers["Content-Type"] if isinstance(data, aiohttp.MultipartWriter) else ""
        address = URL(url).update_query(self._config.query)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._config.timeout_s)
        async with self._request(method, address, data, content_type, timeout=timeout) as (reply, key):
            try:
                yield reply, key
            except Failure as failure:
                failure.detail = f"{method} {address.path}: {failure.detail}"
                raise

    async def _checked_body(self, reply: aiohttp.ClientResponse, key: IssuedKey) -> bytes:
        data = self._credentials.redacted_bytes(await read_body(reply.content))
        if reply.status == 200:
            key.accepted = self.reached = True
            return data
        failure = status_failure(reply.status, reply.headers, data, self.reached)
        raise self._credentials.after_401(key, failure) if reply.status == 401 else failure

    def _open(self) -> tuple[aiohttp.ClientSession, IssuedKey]:
        """Return the session and the latest key, which is then among the options of a request.

        The headers are no default of the session, because aiohttp would send them to a proxy too.
        """
        key = self._credentials.key
        if self._session is None:
            self._session = self._new_session()
        if key is not self._key:
            self._options["headers"] = CIMultiDict(self._headers(key.value))
            self._key = key
        return self._session, key

    def _new_session(self) -> aiohttp.ClientSession:
        config = self._config
        try:
            ssl = access.tls_context(config.ca_file) if config.ca_file else True
        except ValueError as error:
            raise EndpointStopped(f"model {config.name}: {error}") from None
        if self._credentials.proxy:
            self._options["proxy"] = self._credentials.proxy.address
            if self._url.scheme == "https" and self._credentials.proxy_authorization:
                self._options["proxy_headers"] = {"Proxy-Authorization": self._credentials.proxy_authorization}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=config.max_in_flight, ssl=ssl, keepalive_timeout=_IDLE_S),
            timeout=aiohttp.ClientTimeout(total=config.timeout_s, sock_connect=_CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _headers(self, key: str) -> dict[str, str]:
        name, credentials = self._config.key_header, self._credentials
        headers = {"Content-Type": "application/json", **self._wire.headers("" if name else key)}
        if name and key:
            headers[name] = f"Bearer {key}" if name.lower() == "authorization" else key
        if credentials.proxy and self._url.scheme == "http" and credentials.proxy_authorization:
            headers["Proxy-Authorization"] = credentials.proxy_authorization  # the proxy reads them without a tunnel
        return headers | credentials.headers


async def read_body(stream: aiohttp.StreamReader) -> bytes:
    """Return a whole body of at most 8 MiB, with at most 64 KiB of nothing but white space in a row.

    Raises Failure whitespace_loop or transient_reply_too_large, without reading the rest.
    """
    counted, chunks = _CountedBytes(_MAX_BODY_BYTES), list[bytes]()
    while chunk := await stream.readany():
        counted.add(chunk)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _CountedBytes:
    """Counts the bytes of a body as they arrive, and raises Failure for too many, or too many of white space."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._size, self._blank = max_bytes, 0, 0

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._blank = 0 if chunk.strip(_BLANK) else self._blank + len(chunk)
        if self._blank > _MAX_BLANK_BYTES:
            detail = f"gave up after {self._size} bytes, the last {self._blank} all white space"
            raise Failure("whitespace_loop", detail)
        if self._size > self._max_bytes:
            raise Failure(f"{TRANSIENT}reply_too_large", f"gave up after {self._size} bytes")
