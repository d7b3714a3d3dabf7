"""A section's `<text>` as a list of blocks: paragraphs, list items, table rows and headings, in reading order."""

from __future__ import annotations

from typing import TypeAlias

from lxml import etree

from fdarx_core.labels.grid import sole_cells
from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.marks import Notes
from fdarx_core.labels.tables import table_lines
from fdarx_core.labels.xml import LINE_BREAK, NS, Element

PARAGRAPH, LIST, ITEM, TABLE = NS + "paragraph", NS + "list", NS + "item", NS + "table"
CAPTION = NS + "caption"
_BLOCKS = frozenset((PARAGRAPH, LIST, ITEM, TABLE))
_BULLETS = frozenset("•●○◦▪■□–—·*‣∙o-")
_HEADING_WORDS = 12


Block: TypeAlias = tuple[str, bool, int]
"""One line of a section: its text, whether it names what follows (a place to begin a passage), its words."""


def blocks(text: Element, notes: Notes) -> list[Block]:
    """The blocks of one `<text>` element whose marks are rewritten, its footnotes last."""
    out: list[Block] = []
    _walk(text, out, 0)
    out.extend(_block(note) for note in notes.get(text, ()))
    return out


def _block(line: str, heading: bool = False) -> Block:
    return line, heading, line.count(" ") + 1


def _walk(element: Element, out: list[Block], depth: int) -> None:
    """Blocks under a container that may hold text, inline tags and blocks side by side, as real labels do."""
    run = element.text or ""
    for child in element:
        tag = child.tag
        if tag in _BLOCKS or (len(child) and _holds_block(child)):
            if run and not run.isspace():
                _add_lines(run, out)
            if tag == PARAGRAPH and not (len(child) and _holds_block(child)):
                _add_lines(raw_text(child), out)
            elif tag == ITEM:
                _add_item(child, out, depth)
            elif tag == TABLE:
                _add_table(child, out, depth)
            else:
                _walk(child, out, depth + (tag == LIST))
            run = child.tail or ""
        elif isinstance(tag, str):
            run += etree.tostring(child, method="text", encoding="unicode")
        else:
            run += child.tail or ""
    if run and not run.isspace():
        _add_lines(run, out)


def _holds_block(element: Element) -> bool:
    for child in element:  # noqa: SIM110 - a generator would cost the parser a percent
        if child.tag in _BLOCKS or (len(child) and _holds_block(child)):
            return True
    return False


def _add_table(table: Element, out: list[Block], depth: int) -> None:
    cells = sole_cells(table)
    if not cells:
        out.extend(_block(line, heading) for line, heading in table_lines(table))
        return
    for cell in (*table.iterchildren(CAPTION), *cells):
        _walk(cell, out, depth)


def _add_lines(text: str, out: list[Block]) -> None:
    for part in text.split(LINE_BREAK) if LINE_BREAK in text else (text,):
        line = clean(part)
        if line:
            if line[0] in _BULLETS and line[1:2] == " ":
                line = "-" + line[1:]
            words = line.count(" ") + 1
            out.append((line, words <= _HEADING_WORDS and _names_what_follows(line), words))


def _names_what_follows(line: str) -> bool:
    first = line[0]
    if line[-1] in ".,;:!?" or first in "-[(*†" or first.islower():
        return False
    return first.isalpha() or any(map(str.isalpha, line))


def _add_item(item: Element, out: list[Block], depth: int) -> None:
    start = len(out)
    if len(item):
        _walk(item, out, depth)
    else:
        _add_lines(item.text or "", out)
    indent = "  " * (depth - 1) + "- "
    for index in range(start, len(out)):
        text = out[index][0]
        if index == start:
            text = indent + text.removeprefix("- ")
        out[index] = _block(text)
