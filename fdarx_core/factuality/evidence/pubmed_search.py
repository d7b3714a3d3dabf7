"""PubMed searches as requests: the queries for a claim, the parsing of articles, and the abstracts found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson
from lxml import etree

from fdarx_core.baseline.answering import asked_terms
from fdarx_core.factuality.evidence.sources import PUBMED, K
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from fdarx_core.labels.xml import Element, clean, raw_text
from fdarx_core.llm import Unparsable, request_key
from fdarx_core.llm.task import reply_text
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
    found = [_article(one) for one in root.iter("MedlineCitation", "BookDocument")]
    return [article for article in found if article.place]


def _article(citation: Element) -> Evidence:
    """Return the article of a MedlineCitation or BookDocument, which have the same fields on different paths."""
    titles = (_text(citation.find(path)) for path in _TITLES)
    title = next((one for one in titles if one and one.lower() != "[not available]."), "")
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
    return [f"({one}) AND {_CONDITIONS}" for one in dict.fromkeys(queries) if one]


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
        {"pmid": one.place, "title": one.title, "abstract": one.text, "year": one.year} for one in articles if one.text
    ]
    left_out = [pmid for pmid in found if pmid not in {one["pmid"] for one in abstracts}]
    return orjson.dumps({"abstracts": abstracts, "without_abstract": left_out}).decode()


def read_abstracts(response: Response) -> list[Evidence]:
    """Return the abstracts found, best first. Raises Unparsable for a failed search."""
    try:
        return [_evidence(**one) for one in orjson.loads(reply_text(response))["abstracts"]]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, Unparsable):
            raise
        raise Unparsable("wrong_shape", f"no answer of PubMed's endpoint: {error!r}") from None


def _evidence(pmid: str, title: str, abstract: str, year: int) -> Evidence:
    return Evidence(content_id(PUBMED, pmid, title, abstract), PUBMED, title, abstract, pmid, year=year)
