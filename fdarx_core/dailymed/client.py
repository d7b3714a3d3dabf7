"""Asking DailyMed: few connections, a steady rate, bounded bodies, waits and tries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TypeVar

import aiohttp
from yarl import URL

from fdarx_core.dailymed.addresses import Site
from fdarx_core.dailymed.politeness import Turns
from fdarx_core.dailymed.refusals import Refused, Stopped, Trouble, given_up
from fdarx_core.storage.retry_after import retry_after

T = TypeVar("T")

_CONNECT_S = 30.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 600.0
_GIVEN_UP = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_LEAST = 16 << 10
"""Bytes that have to arrive within the time-out: a body that drips would never end otherwise."""


class Client:
    """Everything asked of DailyMed goes through one of these, within `async with`.

    Args:
        agent: the User-Agent header.
        rate: requests a second, at most.
        connections: requests at once, at most.
        timeout_s: seconds within which a reply has to begin, and then to bring 16 KiB, again and again.
    """

    def __init__(self, site: Site, agent: str, rate: float = 3, connections: int = 2, timeout_s: float = 60) -> None:
        self.site, self.connections = site, connections
        self._agent, self._timeout_s = agent, timeout_s
        self._turns = Turns(rate)
        self._given_up = 0

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.connections),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._timeout_s),
            headers={"User-Agent": self._agent},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._session.close()

    async def persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The attempt's result, tried again while what it meets may pass.

        Raises Refused where it can't be had, and Stopped after three requests in a row that the server turned away or
        that were given up on, or when it asks for more than ten minutes.
        """
        tries = 0
        while True:
            tries += 1
            try:
                result = await attempt()
            except Trouble as trouble:
                tries = 1 if trouble.progress else tries
                if tries >= trouble.tries:
                    raise self._counted(given_up(trouble, tries)) from None
                await self._wait(trouble, tries)
            except Refused as refused:
                raise self._counted(refused) from None
            else:
                self._given_up = 0
                return result

    async def read(self, url: URL, most: int) -> bytes:
        """One try at a whole body of status 200 with at most so many bytes. Raises Refused, and Trouble."""
        body = bytearray()
        async with self.open(url) as reply:
            if reply.status != 200:
                raise Refused(f"http_{reply.status}", f"{url} answers HTTP {reply.status}")
            async for chunk in self.chunks(reply, most):
                body += chunk
        return bytes(body)

    @asynccontextmanager
    async def open(self, url: URL, headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """One try at a reply with status 200, 206, 304 or 416, its body still to come. Raises as `read`.

        A body comes as it was sent where `headers` ask for the encoding identity.
        """
        try:
            reply = await self._reply(url, headers or {})
            try:
                _check_status(reply)
                yield reply
            finally:
                reply.close()
        except (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError) as error:
            raise Trouble("no_answer", f"{url}: {_said(error)}") from None

    async def chunks(self, reply: aiohttp.ClientResponse, most: int) -> AsyncIterator[bytes]:
        """The body as it comes. Raises Refused too_large, and Trouble where it comes too slowly."""
        size = arrived = 0
        since = time.monotonic()
        async for chunk in reply.content.iter_any():
            size, arrived = size + len(chunk), arrived + len(chunk)
            if size > most:
                raise Refused("too_large", f"{reply.url} sends more than {most:,} bytes")
            yield chunk
            if time.monotonic() - since > self._timeout_s:
                if arrived < _LEAST:
                    raise Trouble("too_slow", f"{reply.url} sent {arrived:,} bytes in {self._timeout_s:g} s")
                since, arrived = time.monotonic(), 0

    async def _reply(self, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        plain = headers.get("Accept-Encoding") == "identity"
        for _ in range(_MOST_REDIRECTS + 1):
            await self._turns.turn()
            asked = self._session.get(url, headers=headers, allow_redirects=False, auto_decompress=not plain)
            reply = await asyncio.wait_for(asked, _CONNECT_S + self._timeout_s)
            if reply.status not in _REDIRECTS:
                return reply
            reply.close()
            url = self.site.followed(url, reply.headers.get("Location", ""))
        raise Refused("redirected", f"{url}: more than {_MOST_REDIRECTS} redirects")

    async def _wait(self, trouble: Trouble, tries: int) -> None:
        seconds = _FIRST_WAIT_S * 2.0 ** (tries - 1) if trouble.wait_s is None else trouble.wait_s
        if seconds > _LONGEST_WAIT_S:
            minutes = f"DailyMed asks to be left alone for {seconds / 60:.0f} minutes"
            raise Stopped(f"{minutes} ({trouble.detail}); what is whole is kept, run the same command then")
        if trouble.busy:
            self._turns.hold(seconds)
        else:
            await asyncio.sleep(seconds)

    def _counted(self, refused: Refused) -> Exception:
        self._given_up = self._given_up + 1 if refused.unwelcome else 0
        if self._given_up < _GIVEN_UP:
            return refused
        times = f"DailyMed gave nothing {self._given_up} times in a row"
        return Stopped(f"{times} (last: {refused}); what is whole is kept, run the same command later")


def _check_status(reply: aiohttp.ClientResponse) -> None:
    status, detail = reply.status, f"{reply.url} answers HTTP {reply.status} {reply.reason or ''}".strip()
    if status in (200, 206, 304, 416):
        return
    if status in (408, 425, 429) or status >= 500:
        wait_s = retry_after(reply.headers.get("Retry-After"))
        raise Trouble(f"http_{status}", detail, wait_s=wait_s, busy=status in (429, 503))
    refused = Refused("not_found" if status in (404, 410) else f"http_{status}", detail)
    refused.unwelcome = status in (401, 403)
    raise refused


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
