"""The HTTP client for DailyMed: addresses, request rate, retries and bounded bodies.

Source of the addresses: DailyMed's "Application Development Support: Web Services" (v2) and "Download All Drug Labels".
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import aiohttp
from yarl import URL

from fdarx_core.storage.retry import RateLimiter, parse_retry_after

T = TypeVar("T")

BASE_URL = "https://dailymed.nlm.nih.gov/dailymed"

TRIES = 5
"""Maximum number of attempts at a request with transient failures."""

_CONNECT_S = 30.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 600.0
_MAX_GIVEN_UP = 3
_REMEDY = "complete files are kept; run the same command later"
_MAX_REDIRECTS = 5
_MIN_BYTES = 16 << 10
"""Bytes that must arrive within each timeout, so that a reply that is sent byte by byte ends."""
_SET_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(eq=False)
class FetchError(Exception):
    """An item cannot be fetched.

    Attributes:
        reason: a fixed name, by which failures are counted.
        detail: a description of this failure.
        tries: the maximum number of attempts; 0 if only this item is missing or wrong, and other requests may succeed.
        wait_s: the seconds that the server asks to wait, None if it does not ask.
        progress: the attempt received so much data that it is not counted.
    """

    reason: str
    detail: str
    tries: int = 0
    wait_s: float | None = None
    progress: bool = False

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class DailyMedClient:
    """A client of DailyMed, to be used in an `async with` block.

    It sends no more requests once `stopped` gives a reason: after three consecutive requests that failed, or if the
    server asks to wait for more than ten minutes. Every later request raises FetchError not_asked.

    Args:
        base_url: the address of DailyMed or of a mirror, such as `BASE_URL`.
        agent: the User-Agent header.
        rate: maximum number of requests per second.
        connections: maximum number of concurrent requests.
        timeout_s: seconds within which a reply must begin, and then within which each further 16 KiB must arrive.
    """

    def __init__(self, base_url: str, agent: str, rate: float = 3, connections: int = 2, timeout_s: float = 60) -> None:
        self.base_url, self.connections, self.stopped = URL(base_url.rstrip("/")), connections, ""
        self._agent, self._timeout_s = agent, timeout_s
        self._limiter, self._given_up = RateLimiter(rate), 0

    async def __aenter__(self) -> DailyMedClient:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.connections),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._timeout_s),
            headers={"User-Agent": self._agent},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    def stop(self, reason: str) -> None:
        """Send no more requests. `reason` gives the cause and the remedy in one line; the first one is kept."""
        self.stopped = self.stopped or reason

    async def fetch(self, url: URL, max_bytes: int, parse: Callable[[bytes], T]) -> T:
        """Return the parsed body of a reply. `parse` may raise FetchError, and the body is then requested again."""

        async def attempt() -> T:
            async with self.open(url) as reply:
                body = b"".join([chunk async for chunk in self.chunks(reply, max_bytes)])
            return await asyncio.to_thread(parse, body)

        return await self.retry(attempt)

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, which is repeated after transient failures; meanwhile no request is sent.

        Raises FetchError after a permanent failure or the last attempt.
        """
        tries = 0
        while True:
            try:
                result = await attempt()
            except FetchError as error:
                tries = 1 if error.progress else tries + 1
                if tries >= error.tries:
                    self._count_failure(error, tries)
                    raise
                seconds = _FIRST_WAIT_S * 2.0 ** (tries - 1) if error.wait_s is None else error.wait_s
                if seconds > _LONGEST_WAIT_S:
                    self.stop(f"DailyMed asks for a wait of {seconds / 60:.0f} minutes ({error.detail}); {_REMEDY}")
                else:
                    self._limiter.hold(seconds)
            else:
                self._given_up = 0
                return result

    def _count_failure(self, error: FetchError, tries: int) -> None:
        if not error.tries:
            self._given_up = 0
            return
        error.detail += f" (tried {tries} times)"
        self._given_up += 1
        if self._given_up >= _MAX_GIVEN_UP:
            self.stop(f"DailyMed did not answer {self._given_up} requests in a row (last: {error}); {_REMEDY}")

    @asynccontextmanager
    async def open(self, url: URL, headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a reply with status 200, 206, 304 or 416 after one attempt, its body not read. Raises FetchError."""

        async def send(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            """Send this request, or one that a redirect leads to."""
            if not may_follow(request.url, url):
                raise FetchError("bad_address", f"{url} leads to {str(request.url)[:200]}; only https is followed")
            await self._limiter.wait()
            if self.stopped:
                raise FetchError("not_asked", f"the job stopped before: {self.stopped}")
            return await handler(request)

        try:
            get = self._session.get(url, headers=headers, middlewares=(send,), max_redirects=_MAX_REDIRECTS + 1)
            async with get as reply:
                _check_status(reply)
                yield reply
        except aiohttp.TooManyRedirects:
            raise FetchError("redirected", f"{url}: more than {_MAX_REDIRECTS} redirects") from None
        except aiohttp.RedirectClientError as error:
            raise FetchError("bad_address", f"{url} leads to {str(error)[:200]}, which is no address") from None
        except (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError) as error:
            message = " ".join(str(error).split())[:300] or type(error).__name__
            raise FetchError("no_answer", f"{url}: {message}", TRIES) from None

    async def chunks(self, reply: aiohttp.ClientResponse, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield the body in pieces as they arrive. Raises FetchError too_large or too_slow."""
        size = arrived = 0
        since = time.monotonic()
        async for chunk in reply.content.iter_any():
            size, arrived = size + len(chunk), arrived + len(chunk)
            if size > max_bytes:
                raise FetchError("too_large", f"{reply.url} sends more than {max_bytes:,} bytes")
            yield chunk
            if time.monotonic() - since > self._timeout_s:
                if arrived < _MIN_BYTES:
                    detail = f"{reply.url} sent {arrived:,} bytes in {self._timeout_s:g} s"
                    raise FetchError("too_slow", detail, TRIES)
                since, arrived = time.monotonic(), 0


def _check_status(reply: aiohttp.ClientResponse) -> None:
    status, detail = reply.status, f"{reply.url} answers HTTP {reply.status} {reply.reason or ''}".strip()
    if status in (408, 425, 429) or status >= 500:
        raise FetchError(f"http_{status}", detail, TRIES, parse_retry_after(reply.headers.get("Retry-After")))
    if status in (401, 403):
        raise FetchError(f"http_{status}", detail, tries=1)
    if status not in (200, 206, 304, 416):
        # aiohttp returns a redirect only if it names no address
        reason = "not_found" if status in (404, 410) else "redirected" if status < 400 else f"http_{status}"
        raise FetchError(reason, detail)


def may_follow(url: URL, here: URL) -> bool:
    """Return whether a link or redirect of `here` may be followed: to any https address, and to the same server."""
    return url.scheme == "https" or (url.scheme, url.host, url.port) == (here.scheme, here.host, here.port)


def is_set_id(text: str) -> bool:
    """Return whether a text is a UUID in lower case, which is safe in paths and addresses."""
    return bool(_SET_ID.fullmatch(text))


def iso_date(text: str) -> str:
    """Return a date such as `May 21, 2026` as `2026-05-21`; "" for any other text."""
    match = re.fullmatch(r"([A-Za-z]{3})[a-z]*\.? (\d{1,2}), (\d{4})", text.strip())
    try:
        return datetime.strptime(" ".join(match.groups()), "%b %d %Y").date().isoformat() if match else ""
    except ValueError:
        return ""
