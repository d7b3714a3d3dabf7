"""Text as the baseline grader compares it: one spelling of signs, numbers in figures, no cross-references."""

from __future__ import annotations

import re
import unicodedata

_SIGNS = str.maketrans({**dict.fromkeys("‐‑‒–—−", "-"), **dict.fromkeys("®™©℠†‡*", " "), "’": "'", "≦": "≤", "≧": "≥"})
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_REFERENCE = re.compile(
    r"[\[(]\s*(?:also |please )?(?:see|refer to)\b[^\])]*[\])]"
    r"|\(\s*\d{1,2}\.\d{1,2}(?:\s*[,-]\s*\d{1,2}(?:\.\d{1,2})?)*\s*\)"
)
_MARK = re.compile(r"\((?:\d|[a-e]|i{1,3}|iv|vi?)\)|(?:^|\n)\s*\d[.)]\s")
_SURFACE = re.compile(r"\s*/?\s*(?:per )?1\.73\s*m(?:\^?2)\b")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FIGURES = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
    "fifteen": "15",
    "twenty": "20",
    "thirty": "30",
}
_SPELT = re.compile(rf"(?<!-)\b({'|'.join(_FIGURES)})\b(?:\s*\(\d+\))?")
_ONE = re.compile(
    r"\bone(?=(?: (?:\w+-?){1,3})? ?-?\s?(?:tablet|capsule|dose|time|day|week|month|hour|year|drop|puff|patch)s?\b)"
)
_DEGREES = re.compile(r"\s*(?:°|º|degrees?)\s*([cf])\w*")
_AT_MOST = re.compile(
    r"\b(?:(?:must|should|may|can|do|does|is|are) )?(?:not|never|cannot) (?:be )?(?:\w+ )?"
    r"(?:above|over|more than|exceed) (?=\d)"
)
_WRITTEN = (
    ("per cent", "%"),
    ("twenty-four", "24"),
    ("b.i.d.", "bid"),
    ("t.i.d.", "tid"),
    ("q.i.d.", "qid"),
    ("q.d.", "qd"),
)


def plain(text: str) -> str:
    """Lower case, one kind of dash, figures for small numbers, one wording of upper bounds, no thousands separators and
    cross-references."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).replace("μ", "u")
    text = text.translate(_SIGNS).lower()
    for written, short in _WRITTEN:
        text = text.replace(written, short)
    if "(" in text or "[" in text:
        text = _REFERENCE.sub(" ", text)
    text = _MARK.sub(" ", text)
    text = _THOUSANDS.sub("", _SURFACE.sub(" ", text) if "1.73" in text else text)
    text = _ONE.sub("1", _SPELT.sub(lambda found: _FIGURES[found[1]], text))
    text = _AT_MOST.sub("at most ", text)
    return _DEGREES.sub(r" °\1", text) if "°" in text or "º" in text or "degree" in text else text
