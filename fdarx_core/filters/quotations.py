"""Checks whether a text has a quotation word for word, and whether a calculation is right."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from fdarx_core.text.tokens import strip_references

_INVISIBLE = re.compile(r"[®™©℠\u00ad\u200b-\u200d\u2060\ufeff]")
_DASH = re.compile(r"[\u2010-\u2015\u2212]")
_ELLIPSIS = re.compile(r"\[\s*(?:…|\.{3,})\s*\]|…|\.{3,}")
# A dash counts only before a number, as a minus sign. Other punctuation is ignored.
_TOKEN = re.compile(r"(?<![\w.])\.\d+|\d+(?:[.,]\d+)*|[^\W\d_]+|[%<>≤≥=±+/]|(?<![^\s(])-(?=\d)")
_AMOUNT = r"\d[\d,]*(?:\.\d+)?"
_CALCULATION = re.compile(
    rf"^(?P<first>{_AMOUNT})(?P<unit>[^\d<>/×=]*?)(?P<sign>[/×>])\s*(?P<second>{_AMOUNT})(?P<rest>[^=]*?)"
    rf"(?:/\s*100\s*)?(?:=\s*(?P<result>{_AMOUNT}).*)?$"
)


def is_quoted(quote: str, text: str) -> bool:
    """Return whether the text has all words and numbers of the quote, in the same order and next to each other.

    White space, case, quotation marks, kinds of dash, brackets and other punctuation are ignored. The text may have
    other words in place of an ellipsis of the quote ("…", "...", "[...]"). The quote may leave out cross-references of
    the text, such as "[see Drug Interactions (7)]". A quote without words is never quoted.
    """
    return _contains(text, quote) or _contains(_without_references(text), quote)


@lru_cache(maxsize=4096)
def _without_references(text: str) -> str:
    return "\n".join(map(strip_references, text.split("\n")))


def _contains(text: str, quote: str) -> bool:
    rest = _spaced_tokens(text)
    parts = [part for part in map(_spaced_tokens, _ELLIPSIS.split(quote)) if part.strip()]
    for part in parts:
        _, found, after = rest.partition(part)
        if not found:
            return False
        rest = f" {after}"
    return bool(parts)


@lru_cache(maxsize=4096)
def _spaced_tokens(text: str) -> str:
    """Return words, numbers and signs with one space around each, so that a search finds only whole ones."""
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    return f" {' '.join(_TOKEN.findall(_DASH.sub('-', folded)))} "


def calculation_error(sentence: str) -> str | None:
    """Return what is wrong with a calculation, "" for a right one; None for a sentence that is no calculation.

    A calculation divides ("2,550 mg / 850 mg = 3 tablets."), takes a percentage ("20 mg × 84 / 100 = 16.8 mg.") or
    compares ("24% > 2%: ..."). A result is right if it differs from the exact one by at most 5 % of it.
    """
    found = _CALCULATION.match(sentence.rstrip("."))
    if found is None or (found["sign"] == ">") != (found["result"] is None):
        return None
    first, second, result = (float((found[name] or "0").replace(",", "")) for name in ("first", "second", "result"))
    if found["sign"] == ">":
        return "" if first > second else f"{first:g} is not greater than {second:g}"
    if found["sign"] == "/" and not second:
        return f"{first:g} cannot be divided by 0"
    exact = first / second if found["sign"] == "/" else first * second / 100
    return "" if abs(result - exact) <= 0.05 * abs(exact) else f"{exact:g}, not {result:g}"
