"""A section's `<text>` as a list of blocks: paragraphs, list items, table rows and headings, in reading order."""

from __future__ import annotations

from typing import NamedTuple

from lxml import etree

from fdarx_core.labels.inline import LINE_BREAK, clean, prepare, raw_text
from fdarx_core.labels.tables import table_lines
from fdarx_core.labels.xml import NS, Element

PARAGRAPH, LIST, ITEM, TABLE = NS + "paragraph", NS + "list", NS + "item", NS + "table"
CAPTION, MEDIA = NS + "caption", NS + "renderMultiMedia"
_BLOCKS = frozenset((PARAGRAPH, LIST, ITEM, TABLE))
_BULLETS = "•●○◦▪■□–—·*‣∙o-"
_HEADING_WORDS = 12


class Block(NamedTuple):
    """One line of a section. `heading` marks a line that names what follows: a place to begin a passage."""

    text: str
    heading: bool
    words: int


def blocks(text: Element) -> list[Block]:
    """The blocks of one `<text>` element, which is changed on the way (marks rewritten, footnotes taken out)."""
    notes = prepare(text)
    out: list[Block] = []
    _walk(text, out, 0)
    out.extend(_block(note) for note in notes)
    return out


def _block(line: str, heading: bool = False) -> Block:
    return Block(line, heading, line.count(" ") + 1)


def _walk(element: Element, out: list[Block], depth: int) -> None:
    """Blocks under a container that may hold text, inline tags and blocks side by side, as real labels do."""
    run = [element.text or ""]
    for child in element:
        tag = child.tag
        if tag in _BLOCKS or (len(child) and _holds_block(child)):
            _flush(run, out)
            _enter(child, tag, out, depth)
            run = [child.tail or ""]
        elif isinstance(tag, str):
            run.append(etree.tostring(child, method="text", encoding="unicode"))
        else:
            run.append(child.tail or "")
    _flush(run, out)


def _holds_block(element: Element) -> bool:
    return next(element.iterdescendants(PARAGRAPH, LIST, TABLE), None) is not None


def _enter(child: Element, tag: str, out: list[Block], depth: int) -> None:
    if tag == PARAGRAPH and not (len(child) and _holds_block(child)):
        _add_lines(raw_text(child), out)
    elif tag == TABLE:
        out.extend(_block(line, heading) for line, heading in table_lines(child))
    elif tag == ITEM:
        _add_item(child, out, depth)
    else:
        _walk(child, out, depth + (tag == LIST))


def _flush(run: list[str], out: list[Block]) -> None:
    text = "".join(run)
    if text and not text.isspace():
        _add_lines(text, out)


def _add_lines(text: str, out: list[Block]) -> None:
    for part in text.split(LINE_BREAK):
        line = clean(part)
        if line:
            if line[0] in _BULLETS and line[1:2] == " ":
                line = "- " + line[2:]
            words = line.count(" ") + 1
            out.append(Block(line, words <= _HEADING_WORDS and _names_what_follows(line), words))


def _names_what_follows(line: str) -> bool:
    return line[-1] not in ".,;:!?" and line[0] not in "-[(*†" and not line[0].islower() and any(map(str.isalpha, line))


def _add_item(item: Element, out: list[Block], depth: int) -> None:
    start = len(out)
    _walk(item, out, depth)
    indent = "  " * (depth - 1) + "- "
    for index in range(start, len(out)):
        text = out[index].text
        if index == start:
            text = indent + text.removeprefix("- ")
        out[index] = Block(text, False, text.count(" ") + 1)
