"""A server on this machine that answers as NCBI's Entrez does for PubMed, and fails as it is told.

    with EntrezServer([Paper("101", "Aspirin in stroke.", "Aspirin prevents stroke.", 2019)]) as server:
        server.faults = lambda call: Fault(status=429) if call.attempt == 1 else None
        ... search server.url ...
        assert server.most_in_a_second() <= 3

It serves esearch.fcgi (JSON) and efetch.fcgi (XML) of the database pubmed, by GET and POST. A search finds papers that
have all words of a query, or one of those parted by OR; groups are parted by AND, filters are left aside.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from aiohttp import web

from tests.in_thread import InThread, listening

_HEAD = (
    '<?xml version="1.0" ?>\n<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n'
)


@dataclass(frozen=True)
class Paper:
    """`abstract` is a text, or the XML of AbstractText elements; "" for none."""

    pmid: str
    title: str
    abstract: str
    year: int = 2020

    @property
    def words(self) -> set[str]:
        return set(re.findall(r"[\w'-]+", f"{self.title} {self.abstract}".lower()))

    @property
    def xml(self) -> str:
        inner = (
            self.abstract
            if "<AbstractText" in self.abstract
            else f"<AbstractText>{escape(self.abstract)}</AbstractText>"
        )
        abstract = f"<Abstract>{inner}<CopyrightInformation>© 2020</CopyrightInformation></Abstract>"
        return (
            '<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM">'
            f'<PMID Version="1">{self.pmid}</PMID><Article PubModel="Print"><Journal>'
            '<JournalIssue CitedMedium="Internet"><PubDate>'
            f"<Year>{self.year}</Year><Month>Mar</Month></PubDate></JournalIssue><Title>A journal</Title></Journal>"
            f"<ArticleTitle>{self.title}</ArticleTitle>{abstract if self.abstract else ''}</Article></MedlineCitation>"
            f'<PubmedData><ArticleIdList><ArticleId IdType="pubmed">{self.pmid}</ArticleId></ArticleIdList>'
            '<ReferenceList><Reference><ArticleIdList><ArticleId IdType="pubmed">9</ArticleId></ArticleIdList>'
            "</Reference></ReferenceList></PubmedData></PubmedArticle>"
        )


@dataclass
class Call:
    """One request as the server saw it. `attempt` counts requests with the same parameters, from 1."""

    program: str
    method: str
    parameters: dict[str, str]
    attempt: int
    at: float

    @property
    def searches(self) -> bool:
        return self.program == "esearch.fcgi"


@dataclass
class Fault:
    """What goes wrong with one reply; `cut` ends the body after so many bytes, as if it were whole; or `drops` it
    halfway."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    latency: float = 0.0
    drops: bool = False


def over_rate(limit: int = 3) -> bytes:
    """What NCBI says to who asks too often; its "api-key" is the address, or the key itself."""
    return b'{"error":"API rate limit exceeded","api-key":"192.0.2.7","count":"%d","limit":"%d"}' % (limit + 1, limit)


class EntrezServer(InThread):
    """`calls` are the requests in order, each at the time at which it came in."""

    def __init__(self, papers: Iterable[Paper] = ()) -> None:
        self.papers = {paper.pmid: paper for paper in papers}
        self.faults: Callable[[Call], Fault | None] = lambda call: None
        self.calls: list[Call] = []
        self._seen: Counter[tuple[str, ...]] = Counter()
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/entrez/eutils"

    @property
    def searches(self) -> list[Call]:
        return [call for call in self.calls if call.searches]

    def most_in_a_second(self) -> int:
        """Requests that came in within one second, wherever that begins."""
        starts = sorted(call.at for call in self.calls)
        return max(bisect_left(starts, at + 1) - number for number, at in enumerate(starts))

    async def start(self) -> web.AppRunner:
        app = web.Application()
        for program in ("esearch.fcgi", "efetch.fcgi"):
            app.router.add_route("*", f"/entrez/eutils/{program}", self._serve)
        runner = await listening(app)
        self.port = runner.addresses[0][1]
        return runner

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        at = time.monotonic()
        given = request.query if request.method == "GET" else await request.post()
        parameters = {name: str(value) for name, value in given.items()}
        same = (request.path, *parameters.values())
        self._seen[same] += 1
        call = Call(request.path.rpartition("/")[2], request.method, parameters, self._seen[same], at)
        self.calls.append(call)
        fault = self.faults(call) or Fault()
        await asyncio.sleep(fault.latency)
        reply = self._answer(call) if fault.body is None and fault.status == 200 else None
        body = fault.body or (reply.body if reply else b"")
        assert isinstance(body, bytes)
        if fault.drops:
            return await _dropped(request, body)
        kind = reply.content_type if reply else "text/plain"
        return web.Response(status=fault.status, body=body[: fault.cut], headers=fault.headers, content_type=kind)

    def _answer(self, call: Call) -> web.Response:
        assert call.parameters["db"] == "pubmed"
        if not call.searches:
            assert call.parameters["retmode"] == "xml"
            found = (self.papers[pmid].xml for pmid in call.parameters["id"].split(",") if pmid in self.papers)
            return web.Response(text=articles(*found), content_type="text/xml")
        assert (call.parameters["retmode"], call.parameters["sort"]) == ("json", "relevance")
        return web.json_response(self._found(call.parameters))

    def _found(self, asked: Mapping[str, str]) -> dict[str, Any]:
        assert asked["datetype"] == "pdat"
        years = range(int(asked["mindate"]), int(asked["maxdate"]) + 1)
        found = [one.pmid for one in self.papers.values() if one.year in years and _matches(asked["term"], one.words)]
        result: dict[str, Any] = {
            "count": str(len(found)),
            "retmax": asked["retmax"],
            "retstart": "0",
            "idlist": found[: int(asked["retmax"])],
            "translationset": [],
            "querytranslation": asked["term"],
        }
        if not found:
            result["errorlist"] = {"phrasesnotfound": [], "fieldsnotfound": []}
            result["warninglist"] = {"phrasesignored": [], "outputmessages": ["No items found."]}
        return {"header": {"type": "esearch", "version": "0.3"}, "esearchresult": result}


def articles(*inner: str) -> str:
    """An efetch reply of these elements."""
    return f"{_HEAD}<PubmedArticleSet>\n{''.join(inner)}</PubmedArticleSet>"


def _matches(term: str, words: set[str]) -> bool:
    groups = term.partition(" AND hasabstract")[0].split(" AND ")
    return all(any(set(re.findall(r"[\w'-]+", one)) <= words for one in group.split(" OR ")) for group in groups)


async def _dropped(request: web.Request, body: bytes) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Length": str(len(body))})
    await stream.prepare(request)
    await stream.write(body[: len(body) // 2])
    await asyncio.sleep(0.05)
    assert request.transport is not None
    request.transport.close()
    return stream
