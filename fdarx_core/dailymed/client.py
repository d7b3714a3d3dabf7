"""The HTTP client for DailyMed: addresses, request rate, retries and bounded bodies.

Source of the addresses: DailyMed's "Application Development Support: Web Services" (v2) and "Download All Drug Labels".
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TypeVar

import aiohttp
from yarl import URL

from fdarx_core.storage.retry import RateLimiter, parse_retry_after

T = TypeVar("T")

BASE_URL = "https://dailymed.nlm.nih.gov/dailymed"

TRIES = 5
"""Maximum number of attempts at a request with transient failures."""
PAGE_SIZE = 100
"""Number of labels on one page of a listing, the maximum that the service allows."""

FILTERS = (
    "application_number",
    "boxed_warning",
    "dea_schedule_code",
    "drug_class_code",
    "drug_class_coding_system",
    "labeler",
    "manufacturer",
    "marketing_category_code",
    "name_type",
    "ndc",
    "rxcui",
    "unii_code",
)
"""Further filters of the service's listing, by the names of its parameters."""

_CONNECT_S = 30.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 600.0
_MAX_GIVEN_UP = 3
_REDIRECTS = (301, 302, 303, 307, 308)
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
        tries: the maximum number of attempts after a transient failure, 0 for a permanent failure.
        wait_s: the seconds that the server asks to wait, None if it does not ask.
        busy: the server is overloaded, so all requests wait.
        rejected: the server refused the client, so later requests may fail as well.
        progress: the attempt received so much data that it is not counted.
    """

    reason: str
    detail: str
    _: KW_ONLY
    tries: int = 0
    wait_s: float | None = None
    busy: bool = False
    rejected: bool = False
    progress: bool = False

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class FetchStopped(Exception):
    """No more requests are sent to the server. The message gives the reason and the remedy in one line."""


class DailyMedClient:
    """A client of DailyMed, to be used in an `async with` block.

    Args:
        base_url: the address of DailyMed or of a mirror, such as `BASE_URL`.
        agent: the User-Agent header.
        rate: maximum number of requests per second.
        connections: maximum number of concurrent requests.
        timeout_s: seconds within which a reply must begin, and then within which each further 16 KiB must arrive.
    """

    def __init__(self, base_url: str, agent: str, rate: float = 3, connections: int = 2, timeout_s: float = 60) -> None:
        self._base, self.connections = URL(base_url.rstrip("/")), connections
        self._agent, self._timeout_s = agent, timeout_s
        self._limiter = RateLimiter(rate)
        self._given_up = 0

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

    @property
    def releases_url(self) -> URL:
        """The address of the page that lists the bulk releases."""
        return self._base / "spl-resources-all-drug-labels.cfm"

    def listing_url(self, query: Mapping[str, str], page: int) -> URL:
        """Return the address of a page of the list of labels that match `query`; pages are numbered from 1."""
        parameters = {**query, "pagesize": str(PAGE_SIZE), "page": str(page)}
        return (self._base / "services/v2/spls.json").with_query(parameters)

    def label_url(self, set_id: str) -> URL:
        """Return the address of a label's XML."""
        return self._base / "services/v2/spls" / f"{set_id}.xml"

    def follow(self, here: URL, link: str) -> URL:
        """Return the target of a link or redirect at `here`. Raises FetchError unless it is https or DailyMed's."""
        try:
            url = here.join(URL(link))
            safe = url.scheme == "https" or url.origin() == self._base.origin()
        except ValueError:
            raise FetchError("bad_address", f"{here} leads to {link[:200]!r}, which is no address") from None
        if not safe:
            raise FetchError("bad_address", f"{here} leads to {str(url)[:200]}; only https is followed")
        return url

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, which is repeated after transient failures.

        Raises FetchError after a permanent failure or the last attempt, and FetchStopped after three consecutive
        requests that were rejected or given up, or if the server asks to wait for more than ten minutes.
        """
        tries = 0
        while True:
            tries += 1
            try:
                result = await attempt()
            except FetchError as error:
                tries = 1 if error.progress else tries
                if not error.tries:
                    raise self._counted(error) from None
                if tries >= error.tries:
                    detail = f"{error.detail} (tried {tries} times)"
                    raise self._counted(FetchError(error.reason, detail, rejected=True)) from None
                await self._wait(error, tries)
            else:
                self._given_up = 0
                return result

    async def read(self, url: URL, max_bytes: int) -> bytes:
        """Return the body of a reply with status 200, with one attempt. Raises FetchError."""
        body = bytearray()
        async with self.open(url) as reply:
            if reply.status != 200:
                raise FetchError(f"http_{reply.status}", f"{url} answers HTTP {reply.status}")
            async for chunk in self.chunks(reply, max_bytes):
                body += chunk
        return bytes(body)

    @asynccontextmanager
    async def open(self, url: URL, headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a reply with status 200, 206, 304 or 416 after one attempt, its body not read. Raises FetchError.

        If `headers` ask for the encoding identity, the body is not decompressed.
        """
        try:
            reply = await self._reply(url, headers or {})
            try:
                status, detail = reply.status, f"{reply.url} answers HTTP {reply.status} {reply.reason or ''}".strip()
                if status in (408, 425, 429) or status >= 500:
                    wait_s = parse_retry_after(reply.headers.get("Retry-After"))
                    busy = status in (429, 503)
                    raise FetchError(f"http_{status}", detail, tries=TRIES, wait_s=wait_s, busy=busy)
                if status not in (200, 206, 304, 416):
                    reason = "not_found" if status in (404, 410) else f"http_{status}"
                    raise FetchError(reason, detail, rejected=status in (401, 403))
                yield reply
            finally:
                reply.close()
        except (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError) as error:
            message = " ".join(str(error).split())[:300] or type(error).__name__
            raise FetchError("no_answer", f"{url}: {message}", tries=TRIES) from None

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
                    raise FetchError("too_slow", detail, tries=TRIES)
                since, arrived = time.monotonic(), 0

    async def _reply(self, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        identity = headers.get("Accept-Encoding") == "identity"
        for _ in range(_MAX_REDIRECTS + 1):
            await self._limiter.wait()
            request = self._session.get(url, headers=headers, allow_redirects=False, auto_decompress=not identity)
            reply = await asyncio.wait_for(request, _CONNECT_S + self._timeout_s)
            if reply.status not in _REDIRECTS:
                return reply
            reply.close()
            url = self.follow(url, reply.headers.get("Location", ""))
        raise FetchError("redirected", f"{url}: more than {_MAX_REDIRECTS} redirects")

    async def _wait(self, error: FetchError, tries: int) -> None:
        seconds = _FIRST_WAIT_S * 2.0 ** (tries - 1) if error.wait_s is None else error.wait_s
        if seconds > _LONGEST_WAIT_S:
            request = f"DailyMed asks for a wait of {seconds / 60:.0f} minutes"
            raise FetchStopped(f"{request} ({error.detail}); complete files are kept; run the same command then")
        if error.busy:
            self._limiter.hold(seconds)
        else:
            await asyncio.sleep(seconds)

    def _counted(self, error: FetchError) -> Exception:
        """Return the error to raise: FetchStopped after too many rejected requests in a row."""
        self._given_up = self._given_up + 1 if error.rejected else 0
        if self._given_up < _MAX_GIVEN_UP:
            return error
        times = f"DailyMed did not answer {self._given_up} requests in a row"
        return FetchStopped(f"{times} (last: {error}); complete files are kept; run the same command later")


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
