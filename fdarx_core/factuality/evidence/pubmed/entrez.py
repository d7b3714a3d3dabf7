"""Entrez over HTTP: one request, one reply or a `Failure`.

Source: NCBI's E-utilities (Entrez Programming Utilities Help).
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from fdarx_core.factuality.evidence.pubmed.articles import Article, parse_articles
from fdarx_core.factuality.evidence.pubmed.settings import PubMedSettings
from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Failure, decoded
from fdarx_core.llm.faults import connection_failure, status_failure
from fdarx_core.llm.guards import read_body

_CONNECT_S = 15.0
_LONGEST_ADDRESS = 1800
"""Characters of parameters from which they are posted: servers and proxies refuse long addresses."""


class Entrez:
    """Connections to one Entrez server, made when first used; `key` is NCBI's, "" without one."""

    def __init__(self, settings: PubMedSettings, key: str) -> None:
        self._settings, self._key = settings, key
        self._session: aiohttp.ClientSession | None = None
        self._answered = False

    async def search(self, term: str, years: tuple[int, int], most: int) -> list[str]:
        """The PubMed ids that match best, best first. Raises Failure."""
        data = await self._reply(
            "esearch.fcgi",
            db="pubmed",
            term=term,
            retmode="json",
            retmax=str(most),
            sort="relevance",
            datetype="pdat",
            mindate=str(years[0]),
            maxdate=str(years[1]),
        )
        result = _result(data)
        found = result.get("idlist")
        if not isinstance(found, list) or not all(isinstance(one, str) and one.isdecimal() for one in found):
            raise Failure(f"{TRANSIENT}wrong_shape", f"no list of PubMed ids: {data[:200]!r}")
        return found[:most]

    async def fetch(self, pmids: list[str]) -> list[Article]:
        """The articles with these ids, in their order; those that PubMed no longer has are missing. Raises Failure."""
        data = await self._reply("efetch.fcgi", db="pubmed", id=",".join(pmids), retmode="xml")
        if data.lstrip()[:1] == b"{":
            _result(data)
        try:
            articles = {one.pmid: one for one in parse_articles(data)}
        except ValueError as error:
            raise Failure(f"{TRANSIENT}bad_reply", str(error)) from None
        if not articles:
            raise Failure(
                f"{TRANSIENT}no_record", f"PubMed gave none of the articles that it found: {', '.join(pmids)}"
            )
        return [articles[pmid] for pmid in pmids if pmid in articles]

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _reply(self, program: str, **parameters: str) -> bytes:
        """The body of a reply with status 200."""
        session = self._session or self._open()
        settings = self._settings
        known = {"tool": settings.tool, "email": settings.email, "api_key": self._key}
        query = urlencode(parameters | {name: value for name, value in known.items() if value})
        address = f"{settings.base_url.rstrip('/')}/{program}"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        if len(query) > _LONGEST_ADDRESS:
            asked = session.post(address, data=query, headers=form, allow_redirects=False)
        else:
            asked = session.get(URL(f"{address}?{query}", encoded=True), allow_redirects=False)
        try:
            async with asked as reply:
                data = self._without_key(await read_body(reply.content))
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            failure = connection_failure(error, self._answered)
            failure.detail = self._without_key(failure.detail.encode()).decode()
            raise failure from None  # no context: it would hold the address, and so the key
        if reply.status != 200:
            raise _of_status(status_failure(reply.status, reply.headers, data, self._answered))
        self._answered = True
        return data

    def _without_key(self, data: bytes) -> bytes:
        """Entrez says a key back in its errors."""
        return data.replace(self._key.encode(), b"[key]") if self._key else data

    def _open(self) -> aiohttp.ClientSession:
        settings = self._settings
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=settings.timeout_s, sock_connect=_CONNECT_S),
            headers={"User-Agent": f"{settings.tool} ({settings.email})" if settings.email else settings.tool},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        return self._session


def _result(data: bytes) -> dict[str, Any]:
    """What esearch found. Raises Failure for the errors that Entrez reports in replies of status 200."""
    said = decoded(data)
    if not isinstance(said, dict):
        raise Failure(f"{TRANSIENT}wrong_shape", f"no reply of Entrez: {data[:200]!r}")
    result = said.get("esearchresult")
    error = said.get("error") or (result.get("ERROR") if isinstance(result, dict) else "no esearchresult")
    if error:
        raise _reported(str(error))
    assert isinstance(result, dict)
    return result


def _reported(error: str) -> Failure:
    if "rate limit" in error.lower():
        return Failure(f"{TRANSIENT}rate_limited", error, status=429, told_to_wait=True)
    return _of_status(Failure(f"{TRANSIENT}reported_error", f"Entrez reports: {error}"))


def _of_status(failure: Failure) -> Failure:
    """The failure, as it concerns all requests where it is the key that Entrez does not know."""
    if "api key" not in failure.detail.lower():
        return failure
    return Failure("no_access", failure.detail, status=failure.status or 400, fatal=True)
