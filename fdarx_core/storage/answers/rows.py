"""What rows of answers and of gold have in common."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, NoReturn

from fdarx_core.records import Reject

_WORDS = re.compile(r"[^\W_]+")


def normal(question: str) -> str:
    """By which questions are the same: their words and numbers, in any case, spelling of signs and punctuation."""
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", question).casefold()))


def text_at(row: dict[str, Any], *keys: str) -> str:
    """The first of the keys' values that is a text or a whole number and not blank; else ""."""
    values = (row.get(key) for key in keys)
    usable = (str(one).strip() for one in values if isinstance(one, str | int) and not isinstance(one, bool))
    return next(filter(None, usable), "")


def texts_at(row: dict[str, Any], *keys: str) -> list[str]:
    """The texts under the first of the keys that has any: a text, or those of a list."""
    for key in keys:
        value = row.get(key)
        listed = value if isinstance(value, list) else [value]
        if found := [text.strip() for text in listed if isinstance(text, str) and text.strip()]:
            return found
    return []


def reject(error: ValueError, stage: str, row_id: str, place: str) -> Reject:
    """Of an error that says "reason: detail"."""
    reason, _, detail = str(error).partition(": ")
    return Reject(row_id or place, stage, reason, detail, source=place)


def nothing_in(places: str, what: str, needed: str, rejects: list[Reject]) -> NoReturn:
    """Raises ValueError for files of which no row can be used."""
    first = f"the first row: {rejects[0].source}: {rejects[0].reason}, {rejects[0].detail}" if rejects else "no row"
    raise ValueError(f"{places} holds no {what} ({first}); a row needs {needed}")
