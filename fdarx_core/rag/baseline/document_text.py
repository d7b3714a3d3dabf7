"""How the baseline reads a piece of a guideline: what page breaks, OCR and cutting left in it must not be spoken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from fdarx_core.evaluation.baseline.answering_statements import ITEM, LONGEST_LIST, Told
from fdarx_core.filters.text import sentences

_LEFTOVERS = re.compile(
    r"\[(?:MISSING_PAGE|/?(?:END)?FOOTNOTE)[^\]\n]{0,40}\]|\[\d{2,5}\]|\*\*|"
    r"\\(?:begin|end)\{\w+\*?\}(?:\{[^{}\n]*\})?|\\hline"
)
_LINE_STARTS = re.compile(r"#{1,6}\s|Footnote \d{1,3}: |(?:[QA]|question|answer)\s?\d{0,3}[.:] ", re.IGNORECASE)
_NO_CONTENT = re.compile(
    r"\W{0,3}(?:[\d.]+ )?(?:Contains )?Non-?binding Recommendations$|Draft\W+Not for Implementation$|\[[^\[\]]*\]\.?$|"
    r"[\d\W]*$",
    re.IGNORECASE,
)
"""Headers of pages and marks."""
_CONTENTS = ("....", ". . . .")
"""What lines of a table of contents have."""
_NOTE_MARK = re.compile(
    r"(?=\d)(?:(?<=[a-z]{4})\d{1,2}(?=[\s.,;:]|$)|(?<=[a-z]{2}[.,;])\d{1,3}(?=\s|$)|"
    r"(?<=\)[.,;])\d{1,3}(?=\s|$)|(?<=[a-z]\))\d{1,2}(?=\s))"
)
"""The number of a footnote, which lost its raised place: "process.14 The", "calendar days14 after"."""
_EMPHASIS = re.compile(r"(?<!\w)_(?=\w)|(?<=\w)_(?!\w)")
_STUCK = re.compile(r"(?<=[\w)\"”]\?)(?=[A-Z])")
_SECTION_SIGN = re.compile(r"\b(?:SS){1,2}(?= \d)")
_SYMBOLS = {
    "%": "%", "&": "&", "pm": " ±", "geq": "≥", "ge": "≥", "leq": "≤", "le": "≤", "times": "×", "mu": "µ", "alpha": "α",
    "beta": "β", "circ": "°", "sim": "~", "bullet": "•", "cdot": "·", "rightarrow": "→", "approx": "≈", "_": "_",
}  # fmt: skip
_SYMBOL = re.compile(r"\\([A-Za-z]+|[%&_])")
_STYLE = re.compile(r"\\(?:mathrm|mathbf|mathit|text|textbf|textit|textsuperscript|multicolumn\{\d+\}\{[^{}]*\})\s?")
_FORMULA = re.compile(r"\\[()\[\]]|\^(?=[{\\°])|(?<=\})_|[{}]|_(?=\{)")
_ROW_END = re.compile(r"\s*\\\\\s*")
_WEB = re.compile(r"\s*\((?:/|https?://)[^()\s]*\)")
_SPLIT_AFTER = re.compile(
    r"\b(?:U\.S|e\.g|i\.e|vs|Dr|Mr|Ms|No|Nos|Fig|Inc|Co|Corp|Ltd|et al|Sec|Refs?|approx|cf|Vol|St|pp?|[A-Z])\.$|"
    r"^\W*(?:\d{1,3}|[IVX]+)\.$"
)
"""Ends of pieces that are no ends of sentences, and numbers of such."""
_DONE = (".", "!", "?", ":", ";", "|")
_ITEM_END = re.compile(r"[;,]?(?:\s+(?:and|or))?$|[;,.]$")
_SHORT_ITEM = 220
_HEADING = re.compile(
    r"(?:(?:section|appendix|table|figure|part|chapter|attachment)\s[\dA-Z]|(?:[IVX]+|[A-Z])\.\s).{0,100}$|\[[^\[\]]*\]\.?$",
    re.IGNORECASE,
)
"""Headings that look like sentences."""


@lru_cache(maxsize=512)
def told_by_document(text: str) -> Told:
    """The sentences of a piece of a document, each that announces a list together with the list's items.

    A sentence of which the cut left but the end is left out.
    """
    lines = _joined(_lines(_plain(text)))
    if lines and lines[0][:1].islower():
        _, _, lines[0] = lines[0].partition(". ")
    return Told(one for one in _with_lists(lines) if not _HEADING.match(one))


def _plain(text: str) -> str:
    """The text without the signs of its typesetting; a row of a table is a line, its cells parted by " | "."""
    plain = _LEFTOVERS.sub("", text)
    if "\\" in plain:
        plain = _ROW_END.sub("\n", plain).replace(" & ", " | ")
        plain = _SYMBOL.sub(lambda found: _SYMBOLS.get(found[1], ""), _STYLE.sub("", plain))
        plain = _FORMULA.sub("", plain).replace("\\", "")
    if "_" in plain:
        plain = _EMPHASIS.sub("", plain)
    if "SS " in plain:
        plain = _SECTION_SIGN.sub(lambda found: "§" * (len(found[0]) // 2), plain)
    return _STUCK.sub(" ", _NOTE_MARK.sub("", _WEB.sub("", plain)))


def _lines(text: str) -> Iterator[str]:
    """The lines that say something, without space around and without what stands before their first word."""
    for line in text.split("\n"):
        said = line.strip()
        if start := _LINE_STARTS.match(said):
            said = said[start.end() :].strip()
        if said and not _NO_CONTENT.match(said) and not any(dots in said for dots in _CONTENTS):
            yield said


def _joined(lines: Iterable[str]) -> list[str]:
    """The lines, those that a page break cut joined again."""
    joined = list[str]()
    for line in lines:
        if joined and line[0].islower() and not joined[-1].endswith(_DONE):
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
    return joined


def _with_lists(lines: Iterable[str]) -> list[str]:
    found, announced, ended = list[str](), False, False
    for line in lines:
        if announced and _is_item(line, ended) and len(found[-1]) + len(line) <= LONGEST_LIST:
            found[-1] = f"{found[-1]} {_ITEM_END.sub('', ITEM.sub('', line, count=1))};"
            ended = line.endswith(".")
            continue
        found += _sentences(line)
        announced, ended = bool(found) and found[-1].endswith(":"), False
    return found


def _is_item(line: str, ended: bool) -> bool:
    """A line with a bullet, or a short one while none before it `ended` the list with a full stop."""
    short = len(line) <= _SHORT_ITEM and ". " not in line and not line.endswith(("?", ":"))
    return bool(ITEM.match(line)) or (short and not ended)


def _sentences(line: str) -> list[str]:
    """As `sentences`, without breaks after abbreviations and after the "Yes." that begins a reply."""
    whole = list[str]()
    for piece in sentences(line):
        if whole and (whole[-1] == "Yes." or _SPLIT_AFTER.search(whole[-1])):
            whole[-1] = f"{whole[-1]} {piece}"
        else:
            whole.append(piece)
    return whole
