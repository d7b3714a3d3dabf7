"""Marks inside text that must not glue to what they mark: superscripts, footnotes, line breaks, captions."""

from __future__ import annotations

import re
from typing import TypeAlias

from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.xml import LINE_BREAK, NS, Element

_BR, _SUP, _CAPTION, _TEXT = NS + "br", NS + "sup", NS + "caption", NS + "text"
_FOOTNOTE, _FOOTNOTE_REF = NS + "footnote", NS + "footnoteRef"

Notes: TypeAlias = "dict[Element, list[str]]"

_DIGITS = re.compile(r"[-−–]?\d+")
_NOTE_MARK = re.compile(r"\d+(?:\s*,\s*\d+)*|[a-z](?:\s*,?\s*[a-z]){0,3}")
_ISOTOPE = re.compile(r"m?[A-Z][a-z]?(?![A-Za-z])")  # 51Cr, 14C-labeled
_DEGREE, _TRADEMARK = ("0", "o", "º", "O"), ("TM", "SM")
_ORDINAL = {"st", "nd", "rd", "th"}
_POWER_OF_TEN = re.compile(r"(?:[x×X*·•]\s*|^|[^\d.])10$")
_AREA_OR_VOLUME = re.compile(r"(?:^|[^A-Za-z])[cmdkμµn]?m$")


def rewrite_marks(root: Element) -> Notes:
    """Rewrite the marks of a whole document in place, and take its footnotes out.

    Line breaks become `LINE_BREAK`; a superscript becomes a power ("10^9"), a unit ("m2"), a degree sign or a
    bracketed mark ("4 weeks [1]"); a footnote leaves a numbered mark behind. Returns the lines of the footnotes of
    each `<text>` element that has some.
    """
    footnotes: list[Element] = []
    references: list[Element] = []
    for element in list(root.iter(_BR, _SUP, _CAPTION, _FOOTNOTE, _FOOTNOTE_REF)):
        tag = element.tag
        if tag == _BR:
            element.tail = LINE_BREAK + (element.tail or "")
        elif tag == _SUP:
            _rewrite_superscript(element)
        elif tag == _CAPTION:
            element.tail = " " + (element.tail or "")
        else:
            (footnotes if tag == _FOOTNOTE else references).append(element)
    return _number_footnotes(footnotes, references)


def _number_footnotes(footnotes: list[Element], references: list[Element]) -> Notes:
    notes: Notes = {}
    numbers: dict[tuple[Element, str | None], int] = {}
    for note in footnotes:
        text = next(note.iterancestors(_TEXT), note)
        lines = notes.setdefault(text, [])
        number = len(lines) + 1
        lines.append(f"[{number}] {clean(raw_text(note))}")
        numbers[text, note.get("ID")] = number
        _replace(note, f" [{number}]")
    for reference in references:
        text = next(reference.iterancestors(_TEXT), reference)
        number_of = numbers.get((text, reference.get("IDREF")))
        _replace(reference, f" [{number_of}]" if number_of else "")
    return notes


def _replace(element: Element, text: str) -> None:
    for child in list(element):
        element.remove(child)
    element.text = text


def _rewrite_superscript(element: Element) -> None:
    mark = clean(raw_text(element))
    if not mark:
        return
    before = _text_before(element)
    shown, glue = _superscript(mark, before.rstrip(), element.tail or "")
    if glue:
        _strip_before(element)
    _replace(element, shown)


def _superscript(mark: str, before: str, after: str) -> tuple[str, bool]:
    """What to print for a superscript, and whether white space before it is only layout."""
    if mark in _DEGREE and before[-1:].isdigit() and not (mark == "0" and _POWER_OF_TEN.search(before)):
        return "°", True
    if mark.lower() in _ORDINAL and before[-1:].isdigit():
        return mark, True
    if _DIGITS.fullmatch(mark):
        following = after[:1]
        if _POWER_OF_TEN.search(before) and (mark != "1" or following.isalpha()):
            return "^" + mark.replace("−", "-").replace("–", "-"), True
        if _AREA_OR_VOLUME.search(before) and mark in ("2", "3"):
            return mark + " " * following.isalpha(), True
        if _ISOTOPE.match(after) or before[-1:] in ("^", "("):
            return mark, False
        return _bracketed(mark, before, after), False
    if _NOTE_MARK.fullmatch(mark):
        return _bracketed(mark, before, after), False
    return (f" {mark}" if mark in _TRADEMARK else mark), False


def _bracketed(mark: str, before: str, after: str) -> str:
    return " " * bool(before) + f"[{mark}]" + " " * after[:1].isalnum()


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
