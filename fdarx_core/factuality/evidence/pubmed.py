"""PubMed as an endpoint: queries for a claim, and an HTTP client of NCBI Entrez with a rate limit and retries.

A search is a request, and its response has the abstracts found. Source: NCBI's E-utilities (Entrez Programming
Utilities Help).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
import orjson
from lxml import etree
from pydantic import BaseModel, ConfigDict, Field
from yarl import URL

from fdarx_core.baseline.answering import asked_terms
from fdarx_core.factuality.evidence.sources import PUBMED, K
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from fdarx_core.labels.xml import Element, clean, raw_text
from fdarx_core.llm import Unparsable, request_key, response_to
from fdarx_core.llm.attempts import AsyncEndpoint, PendingRequest
from fdarx_core.llm.failures import TRANSIENT, Failure, connection_failure, decode_json, status_failure
from fdarx_core.llm.limits import RequestLimiter
from fdarx_core.llm.task import reply_text
from fdarx_core.llm.transport import read_body
from fdarx_core.records import Evidence, Request, Response, content_id
from fdarx_core.text.stems import is_stop_word, terms

SEARCH_TASK = "search_pubmed"
VERSION = 1
YEARS = (2014, 2024)
"""Years of publication, both included. Source: FAS §3.2."""

_PARSER = etree.XMLParser(
    resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_POWER = re.compile(r"[-−–+]?\d")
_UNNAMED = ("", "UNLABELLED")
_DATES = ("Article/Journal/JournalIssue/PubDate", "Book/PubDate", "Article/ArticleDate", "ContributionDate")
_TITLES = ("Article/ArticleTitle", "ArticleTitle", "Article/VernacularTitle", "Book/BookTitle")

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_CONTRACTION = re.compile(r"['’](?:s|re|ve|ll|d|m|t)\b", re.IGNORECASE)
_ACRONYM = re.compile(r"[A-Z].*[A-Z]")
_UNIT_NAMES = "mg mcg µg μg kg ml dl mm cm mmol nmol iu meq kcal mmhg hr hrs min sec percent"
_UNITS = frozenset(_UNIT_NAMES.split())
_MOST_WORDS = 6
"""Words of the narrowest query, which an abstract must have all of; with more words hardly any abstract matches."""
_MOST_QUESTION_WORDS = 2
"""Words of the question in the narrowest query, where claim and question share none."""
_ACRONYM_LENGTH = 12
_CONDITIONS = "hasabstract NOT retracted publication[pt]"


def parse_articles(data: bytes) -> list[Evidence]:
    """Return the articles and book chapters of an efetch reply, in order.

    The text is the abstract, with a line for each section ("METHODS: …"), "" without any; year 0 is unknown. No entity
    is resolved, and no file or address is opened. Raises ValueError for anything else, such as a truncated reply, and
    for a reply that reports an error or declares entities.
    """
    try:
        root = etree.fromstring(data, _PARSER)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"the reply is no whole XML ({error}); it begins {data[:80]!r}") from None
    declared: Any = root.getroottree().docinfo.internalDTD
    if declared is not None and list(declared.iterentities()):
        raise ValueError("the reply declares entities, which PubMed's never does")
    for reported in root.iter("ERROR"):
        raise ValueError(f"the reply reports an error: {clean(raw_text(reported))}")
    if root.tag != "PubmedArticleSet":
        raise ValueError(f"the reply is a {root.tag}, not a PubmedArticleSet")
    found = [_article(citation) for citation in root.iter("MedlineCitation", "BookDocument")]
    return [article for article in found if article.place]


def _article(citation: Element) -> Evidence:
    """Return the article of a MedlineCitation or BookDocument, which have the same fields on different paths."""
    titles = (_text(citation.find(path)) for path in _TITLES)
    title = next((title for title in titles if title and title.lower() != "[not available]."), "")
    sections = []
    for element in citation.findall("Article/Abstract/AbstractText") or citation.findall("Abstract/AbstractText"):
        label = str(element.get("Label", "")).strip()
        if text := _text(element):
            sections.append(text if label.upper() in _UNNAMED else f"{label}: {text}")
    # the year of the issue, also where only MedlineDate ("2019 Jan-Feb") has it, else that of another date
    dates = (date for path in _DATES if (date := citation.find(path)) is not None)
    written = (" ".join(str(part) for part in date.itertext()) for date in dates)
    year = next((int(found[0]) for date in written if (found := _YEAR.search(date))), 0)
    return _evidence(_text(citation.find("PMID")), title, "\n".join(sections), year)


def _text(element: Element | None) -> str:
    """Return the text as one line without tags: "10<sup>9</sup>/L" is 10^9/L, "CO<sub>2</sub>" is CO2."""
    if element is None:
        return ""
    for power in element.iter("sup"):
        before = power.getprevious()
        parent = power.getparent()
        base = before.tail if before is not None else parent.text if parent is not None else ""
        if (base or "")[-1:].isdigit() and _POWER.match(power.text or ""):
            power.text = f"^{power.text}"
    return clean(raw_text(element))


def pubmed_queries(query: ClaimQuery) -> list[str]:
    """Return PubMed queries for a claim, the narrowest first; none where claim and question have no usable word.

    The first query needs the drug and up to six key words of the claim: those that the question has too, then the
    longest. Where the two share none, it also needs the longest words of the question, since many claims do not say
    what they are about. PubMed maps the words to its headings, also as phrases. The second query needs the drug, or
    else a word that claim and question share, and any other key word. The third needs any key word. Numbers and units
    are left out, and so are articles without abstract and retracted articles.
    """
    drug, question = _key_words(query.drug, 0), _key_words(query.question, 1)
    claim = [word for word in _key_words(query.claim, 1) or question if word not in drug]
    shared = [word for word in claim if terms(word) & terms(query.question)]
    subject = drug or shared or question
    others = [word for word in claim if word not in subject]
    needed = subject if drug else _longest(subject, _MOST_WORDS if shared else _MOST_QUESTION_WORDS)
    queries = [
        " ".join([*needed, *_longest(others, max(1, _MOST_WORDS - len(needed)))]),
        f"({' '.join(drug) or _any_of(subject)}) AND ({_any_of(others)})" if subject and others else "",
        _any_of([*subject, *others]),
    ]
    return [f"({query}) AND {_CONDITIONS}" for query in dict.fromkeys(queries) if query]


def _key_words(text: str, kind: int) -> list[str]:
    """Return the content words of a text (kind 0), or only those that say what it is about (kind 1), each once.

    Words are in lower case, acronyms as written. AND, OR and NOT, which are operators of Entrez, are left out. A single
    letter stays with the word before it: "hepatitis c".
    """
    text = _CONTRACTION.sub("", text)
    wanted = asked_terms(text, "")[kind]
    found: list[str] = []
    end = -2
    for place in _WORD.finditer(text):
        word = place[0] if _ACRONYM.match(place[0]) else place[0].lower()
        if len(word) == 1 and place[0].isupper() and place.start() == end + 1:
            found[-1] += f" {word}"
        elif word[0].isalpha() and not is_stop_word(word.lower()) and word not in _UNITS and terms(word) & wanted:
            found.append(word)
            end = place.end()
    return list(dict.fromkeys(found))


def _longest(words: Sequence[str], most: int) -> list[str]:
    """Return the longest words, in order. An acronym counts as a long word, an adverb as a short one."""
    lengths = {word: _ACRONYM_LENGTH if _ACRONYM.match(word) else len(word) * (word[-2:] != "ly") for word in words}
    chosen = sorted(words, key=lambda word: -lengths[word])[:most]
    return [word for word in words if word in chosen]


def _any_of(words: Sequence[str]) -> str:
    return " OR ".join(f"({word})" if " " in word else word for word in words)


def search_request(query: ClaimQuery, k: int = K, years: tuple[int, int] = YEARS) -> Request:
    """Return the request for the k abstracts that match a claim best; equal claims on one question share a request."""
    slots = {"claim": query.claim, "query": pubmed_queries(query), "years": list(years), "k": k}
    request = Request("", SEARCH_TASK, VERSION, PUBMED, slots, [], {}, {"database": "pubmed", "sort": "relevance"})
    request.key = request_key(request)
    return request


def format_abstracts(articles: Sequence[Evidence], found: Sequence[str]) -> str:
    """Return the text of a response: the abstracts, best first, and the ids found that have no abstract or article."""
    abstracts = [
        {"pmid": article.place, "title": article.title, "abstract": article.text, "year": article.year}
        for article in articles
        if article.text
    ]
    left_out = [pmid for pmid in found if pmid not in {abstract["pmid"] for abstract in abstracts}]
    return orjson.dumps({"abstracts": abstracts, "without_abstract": left_out}).decode()


def read_abstracts(response: Response) -> list[Evidence]:
    """Return the abstracts found, best first. Raises Unparsable for a failed search."""
    text = reply_text(response)
    try:
        return [_evidence(**row) for row in orjson.loads(text)["abstracts"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Unparsable("wrong_shape", f"no answer of PubMed's endpoint: {error!r}") from None


def _evidence(pmid: str, title: str, abstract: str, year: int) -> Evidence:
    return Evidence(content_id(PUBMED, pmid, title, abstract), PUBMED, title, abstract, pmid, year=year)


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
        self._settings, self._key = settings, key
        self._session: aiohttp.ClientSession | None = None  # opened at the first use
        self._reached = False
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
        if self._session:
            await self._session.close()
            self._session = None

    async def _search(self, search: PendingRequest) -> str:
        slots = search.request.slots
        first, last = slots["years"]
        pmids: list[str] = []
        for term in slots["query"]:
            if len(pmids) < slots["k"]:
                more = await self._with_retries(search, self._find, term, (first, last), slots["k"])
                pmids = list(dict.fromkeys([*pmids, *more]))[: slots["k"]]
        articles = await self._with_retries(search, self._fetch, pmids) if pmids else []
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

    async def _find(self, term: str, years: tuple[int, int], limit: int) -> list[str]:
        """Return the PubMed ids that match best, best first. Raises Failure."""
        dates = {"datetype": "pdat", "mindate": str(years[0]), "maxdate": str(years[1])}
        options = {"retmode": "json", "retmax": str(limit), "sort": "relevance"}
        data = await self._get("esearch.fcgi", db="pubmed", term=term, **options, **dates)
        ids = _search_result(data).get("idlist")
        if not isinstance(ids, list) or not all(isinstance(pmid, str) and pmid.isdecimal() for pmid in ids):
            raise Failure(f"{TRANSIENT}wrong_shape", f"no list of PubMed ids: {data[:200]!r}")
        return ids[:limit]

    async def _fetch(self, pmids: list[str]) -> list[Evidence]:
        """Return the articles with these ids, in order; those that PubMed no longer has are missing. Raises Failure."""
        data = await self._get("efetch.fcgi", db="pubmed", id=",".join(pmids), retmode="xml")
        if data.lstrip()[:1] == b"{":
            _search_result(data)
        try:
            articles = {article.place: article for article in parse_articles(data)}
        except ValueError as error:
            raise Failure(f"{TRANSIENT}bad_reply", str(error)) from None
        if not articles:
            detail = f"PubMed gave none of the articles that it found: {', '.join(pmids)}"
            raise Failure(f"{TRANSIENT}no_record", detail)
        return [articles[pmid] for pmid in pmids if pmid in articles]

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
