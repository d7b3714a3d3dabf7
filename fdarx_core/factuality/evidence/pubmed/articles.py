"""PubMed's XML to articles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lxml import etree

from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.xml import Element

_PARSER = etree.XMLParser(
    resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_POWER = re.compile(r"[-−–+]?\d")
_UNNAMED = ("", "UNLABELLED")
_DATES = ("Article/Journal/JournalIssue/PubDate", "Book/PubDate", "Article/ArticleDate", "ContributionDate")
_TITLES = ("Article/ArticleTitle", "ArticleTitle", "Article/VernacularTitle", "Book/BookTitle")


@dataclass(frozen=True, slots=True)
class Article:
    """`abstract` has a line for each of its sections, "METHODS: …", and is "" where there is none; `year` may be 0."""

    pmid: str
    title: str
    abstract: str
    year: int


def parse_articles(data: bytes) -> list[Article]:
    """The articles and book chapters of an efetch reply, in its order.

    No entity is resolved, no file or address opened. Raises ValueError for what is no such reply, cut ones included,
    and for one that reports an error or declares entities.
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
    return [article for article in found if article.pmid]


def _article(citation: Element) -> Article:
    """Of MedlineCitation or BookDocument: they name the same things, on other paths."""
    pmid = citation.find("PMID")
    titles = (_text(citation.find(path)) for path in _TITLES)
    title = next((one for one in titles if one and one.lower() != "[not available]."), "")
    sections = citation.findall("Article/Abstract/AbstractText") or citation.findall("Abstract/AbstractText")
    abstract = "\n".join(filter(None, map(_section, sections)))
    return Article(_text(pmid), title, abstract, _year(citation))


def _section(element: Element) -> str:
    text, label = _text(element), str(element.get("Label", "")).strip()
    return text if not text or label.upper() in _UNNAMED else f"{label}: {text}"


def _year(citation: Element) -> int:
    """Of the issue's date, be it in parts or as MedlineDate ("2019 Jan-Feb"); else of the next date that has one."""
    dates = (date for path in _DATES if (date := citation.find(path)) is not None)
    written = (" ".join(str(part) for part in date.itertext()) for date in dates)
    return next((int(found[0]) for date in written if (found := _YEAR.search(date))), 0)


def _text(element: Element | None) -> str:
    """One line, tags aside: "10<sup>9</sup>/L" is 10^9/L, "CO<sub>2</sub>" CO2."""
    if element is None:
        return ""
    for power in element.iter("sup"):
        before = power.getprevious()
        parent = power.getparent()
        stands_on = before.tail if before is not None else parent.text if parent is not None else ""
        if (stands_on or "")[-1:].isdigit() and _POWER.match(power.text or ""):
            power.text = f"^{power.text}"
    return clean(raw_text(element))
