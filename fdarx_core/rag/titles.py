"""Whether two titles name the same document: files and tables write one title in many ways."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_SUFFIX = re.compile(r"\.(?:mmd|md|txt|pdf|html?|docx?|xml|jsonl?)\s*$", re.IGNORECASE)
_NOT_WORD = re.compile(r"[\W_]+")
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DATED = re.compile(rf"(?<=\w) (?:{_MONTHS}) \d{{4}}$")
_LEAST_LETTERS = 5


def same_title(one: str, other: str) -> bool:
    """Whether the titles are equal but for case, signs, a file's suffix and a month and year at the end.

    One word of at least five letters may lack a letter in one of them, as text recognition loses some: words with
    digits (E7, 2010, R2) must agree, and so must all others. A title without letters or digits is never the same.
    """
    first, second = _words(one), _words(other)
    if not first or len(first) != len(second):
        return False
    unequal = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    return not unequal or (len(unequal) == 1 and _one_letter_lost(*unequal[0]))


def title_rank(candidate_titles: Iterable[str], title: str) -> int | None:
    """The place, from 1, of the first candidate of the document so titled, 0 where none is; None without a title."""
    if not _words(title):
        return None
    return next((rank for rank, one in enumerate(candidate_titles, 1) if same_title(one, title)), 0)


@lru_cache(maxsize=8192)
def _words(title: str) -> tuple[str, ...]:
    plain = _NOT_WORD.sub(" ", _SUFFIX.sub("", title).casefold()).strip()
    return tuple(_DATED.sub("", plain).split())


def _one_letter_lost(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if not (short + long).isalpha() or len(long) < _LEAST_LETTERS or len(long) - len(short) != 1:
        return False
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))
