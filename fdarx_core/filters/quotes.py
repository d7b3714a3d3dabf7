"""Whether what a judge quotes stands in what it was shown. Source: FDARxBench §B.4, stage 2 (evidence extraction)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_INVISIBLE = re.compile(r"[®™©℠\u00ad\u200b-\u200d\u2060\ufeff]")
_DASH = re.compile(r"[\u2010-\u2015\u2212]")
_LEFT_OUT = re.compile(r"\[\s*(?:…|\.{3,})\s*\]|…|\.{3,}")
# A dash counts before a number only, as a minus sign; other punctuation says nothing that words and numbers do not.
_PIECE = re.compile(r"(?<![\w.])\.\d+|\d+(?:[.,]\d+)*|[^\W\d_]+|[%<>≤≥=±+/]|(?<![^\s(])-(?=\d)")


def is_quoted(quote: str, text: str) -> bool:
    """Whether the quote's words and numbers stand in the text, in sequence and complete.

    White space, case, quotation marks, kinds of dash, brackets and other punctuation do not count. The parts around an
    ellipsis ("…", "...", "[...]") must follow each other in the text. False for a quote without words.
    """
    rest = _pieces(text)
    parts = [part for part in map(_pieces, _LEFT_OUT.split(quote)) if part.strip()]
    for part in parts:
        _, found, after = rest.partition(part)
        if not found:
            return False
        rest = f" {after}"
    return bool(parts)


@lru_cache(maxsize=64)
def _pieces(text: str) -> str:
    """Words, numbers and signs, one space around each, so that part of a number or word is never found in a whole."""
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    return f" {' '.join(_PIECE.findall(_DASH.sub('-', folded)))} "
