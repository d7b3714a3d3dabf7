"""Checks whether a text has a quotation word for word, and whether a calculation is right."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from fdarx_core.text.tokens import strip_references

_INVISIBLE = re.compile(r"[®™©℠\u00ad\u200b-\u200d\u2060\ufeff]")
_DASH = re.compile(r"[\u2010-\u2015\u2212]")
_LEFT_OUT = re.compile(r"\[\s*(?:…|\.{3,})\s*\]|…|\.{3,}")
# A dash counts before a number only, as a minus sign; other punctuation says nothing that words and numbers do not.
_PIECE = re.compile(r"(?<![\w.])\.\d+|\d+(?:[.,]\d+)*|[^\W\d_]+|[%<>≤≥=±+/]|(?<![^\s(])-(?=\d)")
_AMOUNT = r"\d[\d,]*(?:\.\d+)?"
_CALCULATION = re.compile(
    rf"^(?P<first>{_AMOUNT})(?P<unit>[^\d<>/×=]*?)(?P<sign>[/×>])\s*(?P<second>{_AMOUNT})(?P<rest>[^=]*?)"
    rf"(?:/\s*100\s*)?(?:=\s*(?P<result>{_AMOUNT}).*)?$"
)


def is_quoted(quote: str, text: str) -> bool:
    """Return whether the quote's words and numbers stand in the text, in sequence and complete.

    White space, case, quotation marks, kinds of dash, brackets and other punctuation do not count. The parts around an
    ellipsis ("…", "...", "[...]") must follow each other in the text. Cross-references of the text, such as "[see
    Drug Interactions (7)]", may be left out. False for a quote without words.
    """
    return _follows(quote, text) or _follows(quote, _without_references(text))


@lru_cache(maxsize=4096)
def _without_references(text: str) -> str:
    return "\n".join(map(strip_references, text.split("\n")))


def _follows(quote: str, text: str) -> bool:
    rest = _pieces(text)
    parts = [part for part in map(_pieces, _LEFT_OUT.split(quote)) if part.strip()]
    for part in parts:
        _, found, after = rest.partition(part)
        if not found:
            return False
        rest = f" {after}"
    return bool(parts)


@lru_cache(maxsize=4096)
def _pieces(text: str) -> str:
    """Return words, numbers and signs with one space around each, so that no part of a word or number is found."""
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    return f" {' '.join(_PIECE.findall(_DASH.sub('-', folded)))} "


def calculation_error(sentence: str) -> str | None:
    """Return what is wrong with a calculation, "" for nothing; None for a sentence that is no calculation.

    A calculation divides ("2,550 mg / 850 mg = 3 tablets."), takes a percentage ("20 mg × 84 / 100 = 16.8 mg.") or
    compares ("24% > 2%: ..."). A quotient may be rounded to two digits.
    """
    found = _CALCULATION.match(sentence.rstrip("."))
    if found is None or (found["sign"] == ">") != (found["result"] is None):
        return None
    first, second = _value(found["first"]), _value(found["second"])
    if found["sign"] == ">":
        return "" if first > second else f"{first:g} is not greater than {second:g}"
    if found["sign"] == "/" and not second:
        return f"{first:g} cannot be divided by 0"
    due = first / second if found["sign"] == "/" else first * second / 100
    result = _value(found["result"])
    return "" if abs(result - due) <= 0.05 * abs(due) else f"{due:g}, not {result:g}"


def _value(number: str) -> float:
    return float(number.replace(",", ""))
