"""Searching PubMed as a request and its response: what is asked for a claim, and what is read from the answer."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from fdarx_core.factuality.evidence.pubmed.articles import Article
from fdarx_core.factuality.evidence.pubmed.queries import queries_of
from fdarx_core.factuality.evidence.pubmed.settings import NAME
from fdarx_core.factuality.evidence.source import K, Query
from fdarx_core.llm import Unparsable, request_key
from fdarx_core.llm.task import complete_text
from fdarx_core.records import Evidence, Request, Response, content_id

TASK = "search_pubmed"
VERSION = 1
YEARS = (2014, 2024)
"""Of publication, both included. Source: FAS §3.2."""


def search_request(query: Query, k: int = K, years: tuple[int, int] = YEARS) -> Request:
    """Asks for the k abstracts that match the claim best. Claims that read alike under one question are asked once."""
    slots = {"claim": query.claim, "query": queries_of(query), "years": list(years), "k": k}
    request = Request("", TASK, VERSION, NAME, slots, [], {}, {"database": "pubmed", "sort": "relevance"})
    request.key = request_key(request)
    return request


def answer_text(articles: Sequence[Article], found: Sequence[str]) -> str:
    """A response's text: the abstracts, best first, and the ids found whose articles have none, or are gone."""
    abstracts = [article for article in articles if article.abstract]
    left_out = [pmid for pmid in found if pmid not in {article.pmid for article in abstracts}]
    return orjson.dumps({"abstracts": abstracts, "without_abstract": left_out}).decode()


def read_abstracts(response: Response) -> list[Evidence]:
    """The abstracts that were found, best first; none where PubMed has none. Raises Unparsable where asking failed."""
    try:
        articles = [Article(**one) for one in orjson.loads(complete_text(response))["abstracts"]]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, Unparsable):
            raise
        raise Unparsable("wrong_shape", f"no answer of PubMed's endpoint: {error!r}") from None
    return [
        Evidence(
            content_id(NAME, one.pmid, one.title, one.abstract), NAME, one.title, one.abstract, one.pmid, year=one.year
        )
        for one in articles
    ]
