"""Runs of text inside a block: white space, invisible characters, and the marks that must not glue to a number."""

from __future__ import annotations

import re

from lxml import etree

from fdarx_core.labels.xml import NS, Element

BR, SUP, CAPTION = NS + "br", NS + "sup", NS + "caption"
FOOTNOTE, FOOTNOTE_REF = NS + "footnote", NS + "footnoteRef"

LINE_BREAK = "\ufdd0"  # a Unicode noncharacter: XML may carry it, text never does
_SYMBOL_FONT = {0xF0B7: "•", 0xF0A7: "•", 0xF0B1: "±", 0xF0B3: "≥", 0xF0A3: "≤", 0xF06D: "μ", 0xF0B0: "°", 0xF0B4: "×"}
_INVISIBLE = [0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF, 0xFFFC]
_CHARACTERS: dict[int, str | None] = {
    **dict.fromkeys(range(0xE000, 0xF900)),  # private use: no meaning outside its font
    **_SYMBOL_FONT,
    **dict.fromkeys(_INVISIBLE),
}

_DIGITS = re.compile(r"[-−–]?\d+")
_NOTE_MARK = re.compile(r"\d+(?:\s*,\s*\d+)*|[a-z](?:\s*,?\s*[a-z]){0,3}")
_ORDINAL = {"st", "nd", "rd", "th"}
_POWER_OF_TEN = re.compile(r"(?:[x×X*·•]\s*|^|[^\d.])10$")
_AREA_OR_VOLUME = re.compile(r"(?:^|[^A-Za-z])[cmdkμµn]?m$")


def clean(text: str) -> str:
    """One line of text: white space of every kind as single spaces, soft hyphens and zero-width characters gone."""
    if not text.isascii():
        text = text.translate(_CHARACTERS)
    return " ".join(text.split())


def raw_text(element: Element) -> str:
    """All text under an element, tags aside, in C when there are child elements."""
    if not len(element):
        return element.text or ""
    return etree.tostring(element, method="text", encoding="unicode", with_tail=False)


def prepare(text: Element) -> list[str]:
    """Make marks readable inside a section's `<text>` before it is read; returns the footnotes taken out of it.

    Line breaks become `LINE_BREAK`; a superscript becomes a power ("10^9"), a unit ("m2"), a degree sign or a
    bracketed mark ("4 weeks [1]"); a footnote leaves a numbered mark and is returned as its line.
    """
    notes: list[Element] = []
    for element in list(text.iter(BR, SUP, CAPTION, FOOTNOTE, FOOTNOTE_REF)):
        tag = element.tag
        if tag == BR:
            element.tail = LINE_BREAK + (element.tail or "")
        elif tag == SUP:
            _rewrite_superscript(element)
        elif tag == CAPTION:
            element.tail = " " + (element.tail or "")
        elif tag == FOOTNOTE:
            notes.append(element)
            element.tail = f" [{len(notes)}]" + (element.tail or "")
        else:
            number = next((i for i, note in enumerate(notes, 1) if note.get("ID") == element.get("IDREF")), None)
            element.tail = (f" [{number}]" if number else "") + (element.tail or "")
    return [_take_out(note, number) for number, note in enumerate(notes, 1)]


def _take_out(note: Element, number: int) -> str:
    line = f"[{number}] {clean(raw_text(note).replace(LINE_BREAK, ' '))}"
    tail = note.tail
    for child in list(note):
        note.remove(child)
    note.text, note.tail = None, tail
    return line


def _rewrite_superscript(element: Element) -> None:
    mark = clean(raw_text(element))
    if not mark:
        return
    before = _text_before(element)
    shown, glue = _superscript(mark, before.rstrip(), before[-1:].isspace(), element.tail or "")
    if glue:
        _strip_before(element)
    for child in list(element):
        element.remove(child)
    element.text = shown


def _superscript(mark: str, before: str, spaced: bool, after: str) -> tuple[str, bool]:
    """What to print for a superscript, and whether white space before it is only layout."""
    following = after[:1]
    if mark in ("0", "o", "º", "O") and before[-1:].isdigit() and after.lstrip()[:1] in ("C", "F", "c"):
        return "°", True
    if _DIGITS.fullmatch(mark):
        if _POWER_OF_TEN.search(before) and (mark != "1" or following.isalpha()):
            return "^" + mark.replace("−", "-").replace("–", "-"), True
        if _AREA_OR_VOLUME.search(before) and mark in ("2", "3"):
            return mark + " " * following.isalpha(), True
        if following.isalpha() and (spaced or not before or before[-1] in "[("):
            return mark, False  # an isotope: 51Cr
        return (f" [{mark}]", False) if before and before[-1] not in "^(" else (mark, False)
    if mark.lower() in _ORDINAL and before[-1:].isdigit():
        return mark, True
    if _NOTE_MARK.fullmatch(mark) and before:
        return f" [{mark}]", False
    return mark, False


def _text_before(element: Element) -> str:
    """The text just before an element inside its block, looking over closed and open inline tags."""
    previous = element.getprevious()
    if previous is not None:
        text = previous.tail or ""
        return text if text.strip() else raw_text(previous) + text
    parent = element.getparent()
    if parent is None:
        return ""
    if (parent.text or "").strip() or parent.tag != NS + "content":
        return parent.text or ""
    return _text_before(parent)


def _strip_before(element: Element) -> None:
    previous, parent = element.getprevious(), element.getparent()
    if previous is not None:
        previous.tail = (previous.tail or "").rstrip() or None
    elif parent is not None:
        parent.text = (parent.text or "").rstrip() or None
