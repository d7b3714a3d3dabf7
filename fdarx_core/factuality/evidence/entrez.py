"""PubMed as an endpoint: an HTTP client of NCBI Entrez with a rate limit and retries.

Source: NCBI's E-utilities (Entrez Programming Utilities Help).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
from pydantic import BaseModel, ConfigDict, Field
from yarl import URL

from fdarx_core.factuality.evidence.pubmed_search import format_abstracts, parse_articles
from fdarx_core.factuality.evidence.sources import PUBMED
from fdarx_core.llm import response_to
from fdarx_core.llm.attempts import AsyncEndpoint, PendingRequest
from fdarx_core.llm.failures import TRANSIENT, Failure, connection_failure, decode_json, status_failure
from fdarx_core.llm.limits import RequestLimiter
from fdarx_core.llm.transport import read_body
from fdarx_core.records import Evidence, Request, Response

ReplyT = TypeVar("ReplyT")

_RATE, _RATE_WITH_KEY = 3, 10
"""Requests a second, and in flight. Source: NCBI's E-utilities, usage guidelines."""
_PACE = 0.75
"""The share of the rate at which requests start, since some take longer to arrive than others."""
_CONNECT_S = 15.0
_LONGEST_QUERY = 1800
"""Characters of parameters above which they are posted: servers and proxies refuse long addresses."""
_MOST_FAILED_SEARCHES = 8
_REMEDY = "check its address and the network; what was found is kept, run again to go on"


class PubMedSettings(BaseModel):
    """Settings for requests to Entrez. The settings hold the name of the key's environment variable, not the key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(
        "https://eutils.ncbi.nlm.nih.gov/entrez/eutils",
        pattern=r"^https?://[^\s/?#@]+(?:/[^\s?#]*)?$",
        description="Address of esearch.fcgi and efetch.fcgi: NCBI's, or a mirror's.",
    )
    key_env: str = Field(
        "NCBI_API_KEY",
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="Environment variable with a key of NCBI, which allows 10 requests a second instead of 3.",
    )
    tool: str = Field("fdarx", min_length=1, description="Name of the program, which is sent to NCBI.")
    email: str = Field("", description="Address that NCBI may write to before it blocks a program that asks too much.")
    timeout_s: float = Field(30, gt=0, description="Seconds for one reply.")
    max_tries: int = Field(
        6, ge=1, description="Attempts that may fail before a search fails; being told to wait is not counted."
    )
    max_wait_s: float = Field(300, ge=0, description="Seconds that one search may wait between its attempts.")

    def key(self) -> str:
        """Return the key from the environment, "" without one. Raises ValueError where it is malformed."""
        key = os.environ.get(self.key_env, "").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError(f"environment variable {self.key_env} holds no plain key; set it again or unset it")
        return key


class EntrezClient:
    """Connections to an Entrez server, opened at the first use; `key` is NCBI's, "" without one."""

    def __init__(self, settings: PubMedSettings, key: str) -> None:
        self._settings, self._key = settings, key
        self._session: aiohttp.ClientSession | None = None
        self._reached = False

    async def search(self, term: str, years: tuple[int, int], limit: int) -> list[str]:
        """Return the PubMed ids that match best, best first. Raises Failure."""
        dates = {"datetype": "pdat", "mindate": str(years[0]), "maxdate": str(years[1])}
        options = {"retmode": "json", "retmax": str(limit), "sort": "relevance"}
        data = await self._get("esearch.fcgi", db="pubmed", term=term, **options, **dates)
        ids = _search_result(data).get("idlist")
        if not isinstance(ids, list) or not all(isinstance(one, str) and one.isdecimal() for one in ids):
            raise Failure(f"{TRANSIENT}wrong_shape", f"no list of PubMed ids: {data[:200]!r}")
        return ids[:limit]

    async def fetch(self, pmids: list[str]) -> list[Evidence]:
        """Return the articles with these ids, in order; those that PubMed no longer has are missing. Raises Failure."""
        data = await self._get("efetch.fcgi", db="pubmed", id=",".join(pmids), retmode="xml")
        if data.lstrip()[:1] == b"{":
            _search_result(data)
        try:
            articles = {one.place: one for one in parse_articles(data)}
        except ValueError as error:
            raise Failure(f"{TRANSIENT}bad_reply", str(error)) from None
        if not articles:
            detail = f"PubMed gave none of the articles that it found: {', '.join(pmids)}"
            raise Failure(f"{TRANSIENT}no_record", detail)
        return [articles[pmid] for pmid in pmids if pmid in articles]

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _get(self, program: str, **parameters: str) -> bytes:
        """Return the body of a reply with status 200. Raises Failure."""
        settings = self._settings
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=settings.timeout_s, sock_connect=_CONNECT_S),
                headers={"User-Agent": f"{settings.tool} ({settings.email})" if settings.email else settings.tool},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        identity = {"tool": settings.tool, "email": settings.email, "api_key": self._key}
        query = urlencode(parameters | {name: value for name, value in identity.items() if value})
        address = f"{settings.base_url.rstrip('/')}/{program}"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        if len(query) > _LONGEST_QUERY:
            request = self._session.post(address, data=query, headers=form, allow_redirects=False)
        else:
            request = self._session.get(URL(f"{address}?{query}", encoded=True), allow_redirects=False)
        try:
            async with request as reply:
                data = self._without_key(await read_body(reply.content))
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            failure = connection_failure(error, self._reached)
            failure.detail = self._without_key(failure.detail.encode()).decode()
            raise failure from None  # the context would hold the address, and so the key
        if reply.status != 200:
            raise _fatal_for_key(status_failure(reply.status, reply.headers, data, self._reached))
        self._reached = True
        return data

    def _without_key(self, data: bytes) -> bytes:
        """Remove the key from a reply, because Entrez repeats it in error messages."""
        return data.replace(self._key.encode(), b"[key]") if self._key else data


def _search_result(data: bytes) -> dict[str, Any]:
    """Return the result of esearch. Raises Failure for errors, which Entrez reports in replies with status 200."""
    reply = decode_json(data)
    if not isinstance(reply, dict):
        raise Failure(f"{TRANSIENT}wrong_shape", f"no reply of Entrez: {data[:200]!r}")
    result = reply.get("esearchresult")
    error = reply.get("error") or (result.get("ERROR") if isinstance(result, dict) else "no esearchresult")
    if error and "rate limit" in str(error).lower():
        raise Failure(f"{TRANSIENT}rate_limited", str(error), status=429, throttled=True)
    if error:
        raise _fatal_for_key(Failure(f"{TRANSIENT}reported_error", f"Entrez reports: {error}"))
    assert isinstance(result, dict)
    return result


def _fatal_for_key(failure: Failure) -> Failure:
    """Return the failure, as a fatal one for all requests where Entrez does not know the key."""
    if "api key" not in failure.detail.lower():
        return failure
    return Failure("no_access", failure.detail, status=failure.status or 400, fatal=True)


class PubMed(AsyncEndpoint):
    """Answers requests of `search_request`, within one rate limit for all of them. It belongs to one event loop.

    A search takes two requests to Entrez, and another one for each broader query. An empty result is a valid response.
    Transient failures are tried again; eight failed searches in a row stop the endpoint.
    Raises ValueError where the environment variable of the key holds no key.
    """

    def __init__(self, settings: PubMedSettings) -> None:
        key = settings.key()
        rate = _RATE_WITH_KEY if key else _RATE
        super().__init__(PUBMED, RequestLimiter(rate, _PACE * rate * 60, None))
        self._settings, self._client = settings, EntrezClient(settings, key)
        self._failed_searches = 0

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        """See `AsyncEndpoint`. The text of the response is that of `format_abstracts`."""
        search = PendingRequest(request, self._settings.max_tries, self._settings.max_wait_s, admit)
        with self.counted():
            try:
                response = response_to(request, await self._search(search))
            except Failure as failure:
                response = response_to(request, failure.detail, failure.reason)
        response.attempts, response.latency_s = 1 + search.retries, search.latency_s
        self.count(response)
        return response

    async def close(self) -> None:
        await self._client.close()

    async def _search(self, search: PendingRequest) -> str:
        slots = search.request.slots
        first, last = slots["years"]
        pmids: list[str] = []
        for term in slots["query"]:
            if len(pmids) < slots["k"]:
                more = await self._with_retries(search, self._client.search, term, (first, last), slots["k"])
                pmids = list(dict.fromkeys([*pmids, *more]))[: slots["k"]]
        articles = await self._with_retries(search, self._client.fetch, pmids) if pmids else []
        return format_abstracts(articles, pmids)

    async def _with_retries(
        self, search: PendingRequest, call: Callable[..., Awaitable[ReplyT]], *arguments: object
    ) -> ReplyT:
        """Return the result of a call, retried after transient failures. Raises Failure for any other."""
        while True:
            try:
                async with self.slot(search):
                    search.begin_attempt()
                    started = time.monotonic()
                    reply = await call(*arguments)
                    search.latency_s = time.monotonic() - started
                self._failed_searches = 0
                return reply
            except Failure as failure:
                await self.wait_after(search, failure)

    def delay_after(self, pending: PendingRequest, failure: Failure) -> float:
        """See `AsyncEndpoint`."""
        seconds = pending.delay_after(failure)
        if seconds is None:
            self._failed_searches += failure.transient
            if self._failed_searches >= _MOST_FAILED_SEARCHES:
                raise self.stopped(failure) from None
            raise failure
        return seconds

    def explain(self, failure: Failure) -> str:
        """See `AsyncEndpoint`."""
        reason = failure.reason.removeprefix(TRANSIENT)
        remedy = f"check the key in {self._settings.key_env}" if reason == "no_access" else _REMEDY
        return f"PubMed at {self._settings.base_url}: {reason}: {failure.detail}; {remedy}"
