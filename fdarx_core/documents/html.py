"""HTML pages as the text that a reader sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from fdarx_core.documents.found import Flaw, Text
from fdarx_core.documents.text import decode, tidy, title_of, visible
from fdarx_core.storage.archives import BadSource

_HIDDEN = "head script style nav noscript template svg iframe object canvas"
_PARAGRAPHS = "p h1 h2 h3 h4 h5 h6 ul ol dl table pre blockquote section article hr"
_LINES = (
    "div li dt dd br caption body main header footer aside address form fieldset figure figcaption details summary "
    "option button thead tbody tfoot"
)
_LINE, _PARAGRAPH, _CELL, _ROW = "\1", "\2", "\3", "\4"
_MARKS = {"tr": _ROW, "td": _CELL, "th": _CELL}
_MARKS |= dict.fromkeys(_PARAGRAPHS.split(), _PARAGRAPH) | dict.fromkeys(_LINES.split(), _LINE)
_DROPPED = frozenset(_HIDDEN.split())

_CHARSET = re.compile(rb"<meta[^>]{1,200}charset\s*=\s*[\"']?\s*((?:windows-125|iso-8859-)\d{1,2})\b", re.I)
_TAG = re.compile(r"<[a-zA-Z!/?]")
_SPACE = re.compile(r"[\0-\x20\x7f-\xa0\u2000-\u200a\u2028\u2029\u202f\u3000]+")
_SPACES = re.compile(" {2,}")
_WITHIN_CELL = f"{_LINE}{_PARAGRAPH} "
_BREAK = re.compile(f" ?[{_LINE}{_PARAGRAPH}{_ROW}][{_LINE}{_PARAGRAPH}{_ROW} ]*")
_EMPTY_ROW = re.compile(r"(?m)^[ |]+$\n?")


def read_html(stream: BinaryIO) -> Iterator[Text | Flaw]:
    """Headings, paragraphs, list items and table rows as lines, cells parted by " | ".

    What a page shows no reader, and its navigation, is left out. The title is <title>, else the first <h1>. Besides
    `decode`'s, the encodings windows-125x and iso-8859-x are read where the page declares them.
    """
    page = _decoded(stream.read())
    if not _TAG.search(page):
        raise BadSource("not_html", "there is no tag in it; give text a name that ends in .txt")
    root = _parsed(page)
    heading = root.find(".//h1")
    named = title_of(root.findtext(".//title") or "")
    named = named or ("" if heading is None else title_of(_laid_out(heading)))
    yield Text(named, tidy(visible(_laid_out(root))))


def _decoded(data: bytes) -> str:
    try:
        return decode(data)
    except BadSource:
        declared = _CHARSET.search(data, 0, 4096)
        if declared is None or b"\0" in data:
            raise
    name = declared[1].decode().lower()
    try:
        return data.decode("windows-1252" if name == "iso-8859-1" else name)
    except (UnicodeDecodeError, LookupError) as error:
        raise BadSource("not_text", f"the page declares {name}, but {error}") from error


def _parsed(page: str) -> etree._Element:
    """Raises `BadSource` where the parser gave up, so that no text is lost in silence."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(page.encode(), parser)
    except etree.LxmlError as error:
        raise BadSource("unreadable_html", str(error)) from error
    given_up = [entry.message for entry in parser.error_log if entry.level == etree.ErrorLevels.FATAL]
    if given_up:
        raise BadSource("unreadable_html", given_up[0])
    if root is None:
        raise BadSource("empty_document", "the page holds nothing")
    return root


def _laid_out(root: etree._Element) -> str:
    """Breaks of the same place are one, the widest; a cell's own end at its edges, a row's don't."""
    first, *others = _SPACES.sub(" ", "".join(_marked(root))).split(_CELL)
    cells = [first, *(cell.lstrip(_WITHIN_CELL) for cell in others)]
    text = " | ".join([*(cell.rstrip(_WITHIN_CELL) for cell in cells[:-1]), cells[-1]])
    lines = _BREAK.sub(lambda found: "\n\n" if _PARAGRAPH in found[0] else "\n", text)
    return _EMPTY_ROW.sub("", lines).strip()


def _marked(root: etree._Element) -> Iterator[str]:
    """Texts with single spaces, and marks where lines, paragraphs, cells and rows part."""
    cells = preformatted = 0
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag, step = str(element.tag), 1 if event == "start" else -1
        cells += step * (_MARKS.get(tag) == _CELL)
        preformatted += step * (tag == "pre")
        if event == "start" and tag in _DROPPED:
            walk.skip_subtree()
            continue
        yield _mark(element, tag, event, in_cell=cells > 0)
        inside = event == "start"
        text = element.text if inside else element.tail if element is not root else ""
        yield _spaced(text or "", preformatted > 0)


def _mark(element: etree._Element, tag: str, event: str, *, in_cell: bool) -> str:
    mark = _MARKS.get(tag, "")
    if mark == _CELL:
        return _CELL if event == "start" and element.getprevious() is not None else ""
    return _LINE if mark == _PARAGRAPH and in_cell else mark


def _spaced(text: str, preformatted: bool) -> str:
    if preformatted:
        return _LINE.join(_SPACE.sub(" ", line) for line in text.split("\n"))
    return _SPACE.sub(" ", text)
