"""Parser of HTML pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from fdarx_core.documents.parsers import ParsedFile, UnreadablePart, decode, tidy, title_of, visible
from fdarx_core.labels.blocks import image_mark, rewrite_superscript, text_before
from fdarx_core.labels.tables import CELL_TAGS, OWN_MARK, layout_cells, list_mark, row_groups, table_lines
from fdarx_core.labels.xml import CONTENT, ITEM, LIST, PARAGRAPH, clean, raw_text
from fdarx_core.storage.errors import InputError

_HIDDEN = "head script style nav noscript template svg iframe object canvas"
_PARAGRAPHS = "p h1 h2 h3 h4 h5 h6 ul ol dl table pre blockquote section article hr"
_LINES = (
    "div li dt dd br caption body main header footer aside address form fieldset figure figcaption details summary "
    "option button thead tbody tfoot"
)
_LINE, _PARAGRAPH, _CELL, _ROW = "\1", "\2", "\3", "\4"
_MARKS_HTML = {"tr": _ROW, "td": _CELL, "th": _CELL}
_MARKS_HTML |= dict.fromkeys(_PARAGRAPHS.split(), _PARAGRAPH) | dict.fromkeys(_LINES.split(), _LINE)
_DROPPED = frozenset(_HIDDEN.split())

_CHARSET = re.compile(rb"<meta[^>]{1,200}charset\s*=\s*[\"']?\s*((?:windows-125|iso-8859-)\d{1,2})\b", re.I)
_TAG = re.compile(r"<[a-zA-Z!/?]")
_SPACE = re.compile(r"[\0-\x20\x7f-\xa0\u2000-\u200a\u2028\u2029\u202f\u3000]+")
_SPACES = re.compile(" {2,}")
_WITHIN_CELL = f"{_LINE}{_PARAGRAPH} "
_BREAK = re.compile(f" ?[{_LINE}{_PARAGRAPH}{_ROW}][{_LINE}{_PARAGRAPH}{_ROW} ]*")
_EMPTY_ROW = re.compile(r"(?m)^[ |]+$\n?")


def read_html(stream: BinaryIO) -> Iterator[ParsedFile | UnreadablePart]:
    """Read an HTML page. Headings, paragraphs, list items and table rows become lines, with " | " between cells.

    A value of a table has the headers of its row and columns, as those of labels. Items of ordered lists have their
    numbers, superscripts are powers or marks in brackets, and an image in a line leaves "[image]" with its alternative
    text. Hidden elements, navigation and deleted text are left out. The title is that of <title>, else of the first
    <h1>. In addition to the encodings of `decode`, windows-125x and iso-8859-x are read if the page declares them.
    """
    page = _decode_page(stream.read())
    if not _TAG.search(page):
        raise InputError("not_html", "the file has no tag; if it is text, give it a name that ends in .txt")
    root = _parse_page(page)
    heading = root.find(".//h1")
    named = title_of(root.findtext(".//title") or "")
    named = named or ("" if heading is None else title_of(_layout(heading)))
    _rewrite(root)
    yield ParsedFile(named, tidy(visible(_layout(root))))


def _decode_page(data: bytes) -> str:
    try:
        return decode(data)
    except InputError:
        declared = _CHARSET.search(data, 0, 4096)
        if declared is None or b"\0" in data:
            raise
    name = declared[1].decode().lower()
    try:
        return data.decode("windows-1252" if name == "iso-8859-1" else name)
    except (UnicodeDecodeError, LookupError) as error:
        raise InputError("not_text", f"the page declares {name}, but {error}") from error


def _parse_page(page: str) -> etree._Element:
    """Parse a page. Raises InputError if the parser stops before the end, so that no text is lost silently."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(page.encode(), parser)
    except etree.LxmlError as error:
        raise InputError("unreadable_html", str(error)) from error
    given_up = [entry.message for entry in parser.error_log if entry.level == etree.ErrorLevels.FATAL]
    if given_up:
        raise InputError("unreadable_html", given_up[0])
    if root is None:
        raise InputError("empty_document", "the page is empty")
    return root


_STYLES = {"a": "LittleAlpha", "A": "BigAlpha", "i": "LittleRoman", "I": "BigRoman"}
_SPL_TAGS = {"p": PARAGRAPH, "div": PARAGRAPH, "ul": LIST, "ol": LIST, "li": ITEM, "b": CONTENT, "strong": CONTENT}
_RAISED = re.compile(r"vertical-align:\s*super", re.IGNORECASE)
_CELL_WORDS = 30
"""The mean number of words of a cell from which a table without headers is taken for one that only lays text out."""


def _rewrite(root: etree._Element) -> None:
    """Rewrite in place what plain text would lose: deletions, images, superscripts, numbers of items, tables."""
    for element in list(root.iter("del", "s", "strike", "span")):
        if element.tag != "span" or "line-through" in (element.get("style") or ""):
            element[:], element.text = [], ""
    for image in list(root.iter("img")):
        _mark_image(image)
    for element in list(root.iter()):
        if _RAISED.search(element.get("style") or ""):
            element.tag = "sup"
    for raised in list(root.iter("sup")):
        rewrite_superscript(raised)
    for ordered in root.iter("ol"):
        _number_items(ordered)
    for table in list(root.iter("table")):
        if _has_values(table):
            _write_lines(table)


def _mark_image(image: etree._Element) -> None:
    """Leave a mark for an image that stands in a line of text, unless the page calls it decoration (`alt=""`)."""
    previous = image.getprevious()
    before = "" if previous is not None and previous.tag in _MARKS_HTML else text_before(image)
    line = clean(before + (image.tail or ""))
    if line and image.get("alt") != "":
        image.tail = image_mark(clean(image.get("alt") or ""), line) + (image.tail or "")


def _number_items(ordered: etree._Element) -> None:
    number, style = _whole(ordered.get("start"), 1), _STYLES.get(ordered.get("type") or "", "")
    for item in ordered.iterchildren("li"):
        number = _whole(item.get("value"), number)
        place = item
        while not (place.text or "").strip() and len(place) and place[0].tag in ("p", "div"):
            place = place[0]
        if not OWN_MARK.match(clean(raw_text(item))):
            place.text = f"{list_mark(number, style)} {(place.text or '').lstrip()}"
        number += 1


def _whole(number: str | None, default: int) -> int:
    return int(number) if number and number.strip().isdecimal() and len(number) < 6 else default


def _has_values(table: etree._Element) -> bool:
    """Return whether a table has values under headers, and does not only lay text out."""
    groups = row_groups(table)
    if next(table.iterdescendants("table"), None) is not None or sum(map(len, groups)) < 2 or layout_cells(groups):
        return False
    cells = list(table.iter(*CELL_TAGS))
    if any(cell.tag == "th" for cell in cells):
        return True
    return sum(len(raw_text(cell).split()) for cell in cells) <= _CELL_WORDS * len(cells)


def _write_lines(table: etree._Element) -> None:
    """Replace the rows of a table by lines in which each value has its headers."""
    etree.strip_elements(table, *_DROPPED, with_tail=False)
    for row in table.iter("tr"):
        for cell in row.iterchildren(*CELL_TAGS):
            if (cell.get("rowspan") or "").strip() == "0":  # all following rows of its group
                cell.set("rowspan", str(1 + len(list(row.itersiblings("tr")))))
    for line_break in table.iter("br"):
        line_break.tail = " " + (line_break.tail or "")
    for element in table.iter(*_SPL_TAGS):
        if (tag := _SPL_TAGS[str(element.tag)]) == CONTENT:
            element.set("styleCode", "bold")
        element.tag = tag
    lines = [line for line, *_ in table_lines(table, row_groups(table))]
    table[:], table.text = [], ""
    for line in lines:
        etree.SubElement(table, "div").text = line


def _layout(root: etree._Element) -> str:
    """Return the text, with adjacent breaks merged into the widest one and without breaks at the edges of cells."""
    first, *others = _SPACES.sub(" ", "".join(_marked_texts(root))).split(_CELL)
    cells = [first, *(cell.lstrip(_WITHIN_CELL) for cell in others)]
    text = " | ".join([*(cell.rstrip(_WITHIN_CELL) for cell in cells[:-1]), cells[-1]])
    lines = _BREAK.sub(lambda found: "\n\n" if _PARAGRAPH in found[0] else "\n", text)
    return _EMPTY_ROW.sub("", lines).strip()


def _marked_texts(root: etree._Element) -> Iterator[str]:
    """Yield texts with single spaces, and marks between lines, paragraphs, cells and rows."""
    cells = preformatted = 0
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag, step = str(element.tag), 1 if event == "start" else -1
        cells += step * (_MARKS_HTML.get(tag) == _CELL)
        preformatted += step * (tag == "pre")
        if event == "start" and tag in _DROPPED:
            walk.skip_subtree()
            continue
        inside = event == "start"
        mark = _MARKS_HTML.get(tag, "")
        if mark == _CELL and (not inside or element.getprevious() is None):
            mark = ""
        elif mark == _PARAGRAPH and cells:
            mark = _LINE
        text = (element.text if inside else element.tail if element is not root else "") or ""
        lines = text.split("\n") if preformatted else [text]
        yield mark + _LINE.join(_SPACE.sub(" ", line) for line in lines)
