"""A section's text as blocks: paragraphs, list items, table rows and headings, in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from lxml.etree import tostring

from fdarx_core.labels.tables import layout_cells, row_groups, table_lines
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

_SUP, _FOOTNOTE, _FOOTNOTE_REF = "sup", "footnote", "footnoteRef"
MARK_TAGS = (_SUP, CAPTION, _FOOTNOTE, _FOOTNOTE_REF)
"""The elements that `rewrite_marks` takes."""

Footnotes: TypeAlias = "dict[Element, list[str]]"
"""The lines of the footnotes of each `<text>` element that has some."""

Block: TypeAlias = tuple[str, bool, int, str]
"""One line of a section: its text, whether it is a heading (a passage may begin there), its number of words, and for a
line of a table the caption and headings above it in the table, one a line."""

_DIGITS = re.compile(r"[-−–]?\d+")
_NOTE_MARK = re.compile(r"\d+(?:\s*,\s*\d+)*|[a-z](?:\s*,?\s*[a-z]){0,3}")
_ISOTOPE = re.compile(r"m?[A-Z][a-z]?(?![A-Za-z])")  # 51Cr, 14C-labeled
_DEGREE, _TRADEMARK = ("0", "o", "º", "O"), ("TM", "SM")
_ORDINAL = {"st", "nd", "rd", "th"}
_POWER_OF_TEN = re.compile(r"(?:[x×X*·•]\s*|^|[^\d.])10$")
_AREA_OR_VOLUME = re.compile(r"(?:^|[^A-Za-z])[cmdkμµn]?m$")

_BLOCKS = frozenset((PARAGRAPH, LIST, ITEM, TABLE))
_BULLETS = frozenset("•●○◦▪■□–—·*‣∙o-")
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
    for element in elements:
        tag = element.tag
        if tag == _SUP:
            _rewrite_superscript(element)
        elif tag == CAPTION:
            element.tail = " " + (element.tail or "")
        elif tag == _FOOTNOTE:
            footnotes.append(element)
        elif tag == _FOOTNOTE_REF:
            references.append(element)
    return _number_footnotes(footnotes, references)


def _number_footnotes(footnotes: list[Element], references: list[Element]) -> Footnotes:
    notes: Footnotes = {}
    numbers: dict[tuple[Element, str | None], int] = {}
    for note in footnotes:
        text = next(note.iterancestors(TEXT), note)
        lines = notes.setdefault(text, [])
        number = len(lines) + 1
        lines.append(f"[{number}] {clean(raw_text(note))}")
        numbers[text, note.get("ID")] = number
        _replace(note, f" [{number}]")
    for reference in references:
        text = next(reference.iterancestors(TEXT), reference)
        found = numbers.get((text, reference.get("IDREF")))
        _replace(reference, f" [{found}]" if found else "")
    return notes


def _replace(element: Element, text: str) -> None:
    del element[:]
    element.text = text


def _rewrite_superscript(element: Element) -> None:
    mark = clean(raw_text(element))
    if not mark:
        return
    shown, joined = _superscript(mark, _text_before(element).rstrip(), element.tail or "")
    if joined:
        _strip_before(element)
    _replace(element, shown)


def _superscript(mark: str, before: str, after: str) -> tuple[str, bool]:
    """Return what to print for a superscript, and whether to remove the white space before it."""
    if mark in _DEGREE and before[-1:].isdigit() and not (mark == "0" and _POWER_OF_TEN.search(before)):
        return "°", True
    if mark.lower() in _ORDINAL and before[-1:].isdigit():
        return mark, True
    bracketed = " " * bool(before) + f"[{mark}]" + " " * after[:1].isalnum()
    if _DIGITS.fullmatch(mark):
        following = after[:1]
        if before.endswith("10") and _POWER_OF_TEN.search(before) and (mark != "1" or following.isalpha()):
            return "^" + mark.replace("−", "-").replace("–", "-"), True
        if mark in ("2", "3") and _AREA_OR_VOLUME.search(before):
            return mark + " " * following.isalpha(), True
        return (mark if _ISOTOPE.match(after) or before[-1:] in ("^", "(") else bracketed), False
    if _NOTE_MARK.fullmatch(mark):
        return bracketed, False
    return (f" {mark}" if mark in _TRADEMARK else mark), False


def _text_before(element: Element) -> str:
    """Return the text just before an element inside its block, across the borders of inline elements."""
    previous = element.getprevious()
    if previous is not None:
        text = previous.tail or ""
        return text if text.strip() else raw_text(previous) + text
    parent = element.getparent()
    if parent is None:
        return ""
    if (parent.text or "").strip() or parent.tag != CONTENT:
        return parent.text or ""
    return _text_before(parent)


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
    for child in children(container):
        tag = child.tag
        if tag in _BLOCKS or (len(child) and _holds_block(child)):
            if inline and not inline.isspace():
                _add_lines(inline, blocks)
            if tag == PARAGRAPH and not (len(child) and _holds_block(child)):
                _add_lines(raw_text(child), blocks)
            elif tag == ITEM:
                _add_item(child, blocks, depth)
            elif tag == TABLE:
                _add_table(child, blocks, depth)
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
        if child.tag in _BLOCKS or (len(child) and _holds_block(child)):
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


def _add_item(item: Element, blocks: list[Block], depth: int) -> None:
    """Add the lines of a list item, none of them a heading, the first with a dash that is indented by its depth."""
    start = len(blocks)
    if len(item):
        _add_blocks(item, blocks, depth)
    elif item.text:
        _add_lines(item.text, blocks)
    if start < len(blocks):
        blocks[start] = _block("  " * (depth - 1) + "- " + blocks[start][0].removeprefix("- "))
    for index in range(start + 1, len(blocks)):
        line, heading, words, above = blocks[index]
        if heading:
            blocks[index] = line, False, words, above


def _add_table(table: Element, blocks: list[Block], depth: int) -> None:
    groups = row_groups(table)
    if cells := layout_cells(groups):
        for cell in (*table.iterchildren(CAPTION), *cells):
            _add_blocks(cell, blocks, depth)
    else:
        blocks += [_block(*line) for line in table_lines(table, groups)]
