"""A section's text as blocks: paragraphs, list items, table rows and headings, in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from lxml.etree import tostring

from fdarx_core.labels.tables import CELL_TAGS, OWN_MARK, item_mark, layout_cells, row_groups, table_lines
from fdarx_core.labels.xml import (
    CAPTION,
    CONTENT,
    ITEM,
    LINE_BREAK,
    LIST,
    PARAGRAPH,
    TABLE,
    TEXT,
    Element,
    children,
    clean,
    raw_text,
)
from fdarx_core.text.superscripts import superscript

_SUP, _FOOTNOTE, _FOOTNOTE_REF = "sup", "footnote", "footnoteRef"
_SECTION, _COMPONENT, _IMAGE, _MEDIA = "section", "component", "renderMultiMedia", "observationMedia"
MARK_TAGS = (_SUP, CAPTION, _FOOTNOTE, _FOOTNOTE_REF, _IMAGE, _MEDIA)
"""The elements that `rewrite_marks` takes."""

Footnotes: TypeAlias = "dict[Element, list[str]]"
"""The lines of the footnotes of each `<text>` element that has some."""

Block: TypeAlias = tuple[str, bool, int, str]
"""One line of a section: its text, whether it is a heading (a passage may begin there), its number of words, and for a
line of a table the caption and headings above it in the table, one a line."""

BLOCK_TAGS = frozenset((PARAGRAPH, LIST, ITEM, TABLE))
"""The elements that make lines of their own."""
_INLINE = frozenset((CONTENT, "span", "b", "i", "em", "strong", "a", "font", "u", "small"))  # of SPL and of HTML
_DELETION_MARKS = (b"trike", b"line-through", b"delete")
_BULLETS = frozenset("•●○◦▪■□–—·*‣∙o-")
_DESCRIPTION = re.compile(r"^(?!image$)(?!\S*[\d_.]\S*$)", re.IGNORECASE)
"""A description of an image in words: neither "image" nor the name of a file."""
_HEADING_WORDS = 12


def rewrite_marks(elements: Iterable[Element]) -> Footnotes:
    """Rewrite the marks of a document in place, so that none sticks to the text before it, and take out its footnotes.

    A superscript becomes a power ("10^9"), a unit ("m2"), a degree sign or a bracketed mark ("4 weeks [1]"). A footnote
    leaves a numbered mark in its place.

    Args:
        elements: in document order; those whose tag is not in `MARK_TAGS` are left alone.
    """
    footnotes: list[Element] = []
    references: list[Element] = []
    images: list[Element] = []
    descriptions: dict[str | None, str] = {}
    for element in elements:
        tag = element.tag
        if tag == _SUP:
            rewrite_superscript(element)
        elif tag == CAPTION:
            element.tail = " " + (element.tail or "")
        elif tag == _FOOTNOTE:
            footnotes.append(element)
        elif tag == _FOOTNOTE_REF:
            references.append(element)
        elif tag == _IMAGE:
            images.append(element)
        elif tag == _MEDIA:
            descriptions[element.get("ID")] = clean(element.findtext(TEXT) or "")
    for image in images:
        if line := _text_beside(image):
            _replace(image, image_mark(descriptions.get(image.get("referencedObject"), ""), line))
    return _number_footnotes(footnotes, references)


def image_mark(description: str, line: str) -> str:
    """Return what a line shows for an image in it: its description, if that is in words and stands not in the line."""
    says_more = bool(description) and _DESCRIPTION.search(description) and description not in line
    return f" [image: {description}] " if says_more else " [image] "


def _text_beside(image: Element) -> str:
    """Return the text on the line of an image or, where it is alone in its cell, in the row of the table, else ""."""
    before = "" if (previous := image.getprevious()) is not None and previous.tag in BLOCK_TAGS else text_before(image)
    line = before.rsplit(LINE_BREAK, 1)[-1] + (image.tail or "").split(LINE_BREAK, 1)[0]
    cell = next(image.iterancestors(*CELL_TAGS), None) if line.isspace() or not line else None
    row = None if cell is None else cell.getparent()
    return clean(line) if row is None else clean(raw_text(row))


def _number_footnotes(footnotes: list[Element], references: list[Element]) -> Footnotes:
    notes: Footnotes = {}
    numbers: dict[tuple[Element | None, str | None], int] = {}
    for note in footnotes:
        text = _noted_text(note)
        if text is None:
            _replace(note, f" ({clean(raw_text(note))})")
            continue
        lines = notes.setdefault(text, [])
        number = len(lines) + 1
        lines.append(f"[{number}] {clean(raw_text(note))}")
        numbers[text, note.get("ID")] = number
        _replace(note, f" [{number}]")
    for reference in references:
        text = _noted_text(reference)
        found = numbers.get((text, reference.get("IDREF")))
        _replace(reference, f" [{found}]" if found else "")
    return notes


def _noted_text(mark: Element) -> Element | None:
    """Return the `<text>` that a footnote's line follows: that around it or, if it is in a title, the section's."""
    around = next(mark.iterancestors(TEXT), None)
    if around is not None:
        return around
    section = next(mark.iterancestors(_SECTION), None)
    if section is None:
        return None
    own = section.find(TEXT)
    return section.find(f"{_COMPONENT}/{_SECTION}//{TEXT}") if own is None else own


def may_delete(data: bytes) -> bool:
    """Return whether a document may mark text as deleted, by its bytes, so that most elements are not visited."""
    return any(mark in data for mark in _DELETION_MARKS)


def remove_deleted(root: Element) -> None:
    """Remove the text that a document marks as deleted or strikes through."""
    for element in root.iter("*"):
        style = (element.get("styleCode") or "").lower()
        if element.get("revised") == "delete" or "strike" in style or "line-through" in style:
            _replace(element, "")


def _replace(element: Element, text: str) -> None:
    del element[:]
    element.text = text


def rewrite_superscript(element: Element) -> None:
    """Rewrite the text of a superscript in place, and the white space before it (see `superscript`)."""
    mark = clean(raw_text(element))
    if not mark:
        return
    shown, joined = superscript(mark, text_before(element).rstrip(), _text_after(element))
    if joined:
        _strip_before(element)
    _replace(element, shown)


def text_before(element: Element) -> str:
    """Return the text just before an element inside its block, across the borders of inline elements."""
    previous = element.getprevious()
    if previous is not None:
        text = previous.tail or ""
        return text if text.strip() else raw_text(previous) + text
    parent = element.getparent()
    if parent is None:
        return ""
    if (parent.text or "").strip() or parent.tag not in _INLINE:
        return parent.text or ""
    return text_before(parent)


def _text_after(element: Element) -> str:
    """Return the text just after an element, across the ends of inline elements."""
    parent = element.getparent()
    if element.tail or parent is None or parent.tag not in _INLINE or element.getnext() is not None:
        return element.tail or ""
    return _text_after(parent)


def _strip_before(element: Element) -> None:
    previous, parent = element.getprevious(), element.getparent()
    if previous is not None:
        previous.tail = (previous.tail or "").rstrip() or None
    elif parent is not None:
        parent.text = (parent.text or "").rstrip() or None


def read_blocks(text: Element, notes: Footnotes) -> list[Block]:
    """Return the blocks of one `<text>` element whose marks are rewritten, its footnotes last."""
    blocks: list[Block] = []
    _add_blocks(text, blocks, 0)
    if text in notes:
        blocks += [_block(note) for note in notes[text]]
    return blocks


def _block(line: str, heading: bool = False, above: str = "") -> Block:
    return line, heading, line.count(" ") + 1, above


def _add_blocks(container: Element, blocks: list[Block], depth: int) -> None:
    """Add the blocks of an element in which text, inline elements and blocks may stand side by side.

    Args:
        depth: the number of lists around the container.
    """
    inline = container.text
    number = 0
    for child in children(container):
        tag = child.tag
        if tag in BLOCK_TAGS or (len(child) and _holds_block(child)):
            if inline and not inline.isspace():
                _add_lines(inline, blocks)
            if tag == PARAGRAPH and not (len(child) and _holds_block(child)):
                _add_lines(raw_text(child), blocks)
            elif tag == ITEM:
                number += 1
                _add_item(child, blocks, depth, item_mark(container, number))
            elif tag == TABLE:
                groups = row_groups(child)
                if cells := layout_cells(groups):
                    for cell in (*child.iterchildren(CAPTION), *cells):
                        _add_blocks(cell, blocks, depth)
                else:
                    blocks += [_block(*line) for line in table_lines(child, groups)]
            else:
                _add_blocks(child, blocks, depth + (tag == LIST))
            inline = child.tail
        elif isinstance(tag, str):
            inline = (inline or "") + tostring(child, method="text", encoding="unicode")
        else:  # a comment or a processing instruction
            inline = (inline or "") + (child.tail or "")
    if inline and not inline.isspace():
        _add_lines(inline, blocks)


def _holds_block(element: Element) -> bool:
    for child in children(element):  # noqa: SIM110 - a generator would cost the parser a percent
        if child.tag in BLOCK_TAGS or (len(child) and _holds_block(child)):
            return True
    return False


def _add_lines(text: str, blocks: list[Block]) -> None:
    for part in text.split(LINE_BREAK) if LINE_BREAK in text else (text,):
        line = clean(part)
        if line:
            if line[0] in _BULLETS and line[1:2] == " ":
                line = "-" + line[1:]
            words = line.count(" ") + 1
            blocks.append((line, words <= _HEADING_WORDS and _is_heading(line), words, ""))


def _is_heading(line: str) -> bool:
    first = line[0]
    if line[-1] in ".,;:!?" or first in "-[(*†" or first.islower():
        return False
    return first.isalpha() or any(map(str.isalpha, line))


def _add_item(item: Element, blocks: list[Block], depth: int, mark: str) -> None:
    """Add the lines of a list item, none of them a heading, the first with a mark that is indented by its depth.

    Args:
        mark: its number, "" for a dash. An item that begins with a mark of its own keeps that.
    """
    start = len(blocks)
    if len(item):
        _add_blocks(item, blocks, depth)
    elif item.text:
        _add_lines(item.text, blocks)
    if start < len(blocks):
        line = blocks[start][0]
        if not line.startswith("- ") and not (mark and OWN_MARK.match(line)):
            line = f"{mark or '-'} {line}"
        blocks[start] = _block("  " * (depth - 1) + line)
    for index in range(start + 1, len(blocks)):
        line, heading, words, above = blocks[index]
        if heading:
            blocks[index] = line, False, words, above
