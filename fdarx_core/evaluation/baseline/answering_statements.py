"""What the baseline reads in one text: its sentences, and which word stands in which."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from fdarx_core.filters.baseline.terms import terms
from fdarx_core.filters.text import sentences

LONGEST_LIST = 500
"""Characters of a sentence that announces a list, items included."""

ITEM = re.compile(r"\s*(?:[-*](?=\s)|[•·]|\(?\d{1,2}[.)](?=\s))\s*")
"""What stands before an item of a list."""
_ENDS = (".", "!", "?", ":", ";", ")", "]", '"', "”")
_REFERENCE = re.compile(
    r"\s*\[\s*(?:also |please )?see\b[^\[\]]*(?:\]|$)|\s*\(\s*(?:also |please )?see\b[^()]*(?:\)|$)|"
    r"\s*[(\[]\d{1,2}\.\d{1,2}(?:, ?\d{1,2}(?:\.\d{1,2})?)*[)\]]",
    re.IGNORECASE,
)
_CELL_NAME = re.compile(r"^[^|.:]{1,40}: \| ")
_GAP = re.compile(r"(?<=\.)\s*\.$|\s+(?=[.,;](?:\s|$))")
"""What a cross-reference leaves behind: a space before a stop, or a second stop."""


@dataclass(frozen=True)
class Statement:
    """A sentence, one that announces a list with the list's items, and its terms; or a heading within a passage."""

    text: str
    terms: frozenset[str]
    has_number: bool
    is_heading: bool

    @property
    def spoken(self) -> str:
        """As an answer: without bullet and cross-references, and with a full stop."""
        bullet = ITEM.match(self.text)
        said = _REFERENCE.sub("", self.text[bullet.end() if bullet else 0 :])
        said = _GAP.sub("", said)
        said = _CELL_NAME.sub("", said).replace(" | ", "; ").strip(" ;,:|")
        return said if said.endswith((".", "!", "?", ".)", '."')) else f"{said}."


class Told:
    """What one text says: its statements, and for each term the places of those that have it."""

    def __init__(self, found: Iterable[str]) -> None:
        self.statements = [_statement(one) for one in found if not _refers_only(one)]
        self.places: dict[str, list[int]] = {}
        for place, one in enumerate(self.statements):
            for term in one.terms:
                self.places.setdefault(term, []).append(place)


@lru_cache(maxsize=2048)
def told_by_label(text: str) -> Told:
    """How a label's passage is read: its sentences, each that announces a list together with the list's items."""
    found: list[str] = []
    announced = False
    for line in text.split("\n"):
        if announced and ITEM.match(line) and len(found[-1]) + len(line) <= LONGEST_LIST:
            found[-1] = f"{found[-1]} {ITEM.sub('', line, count=1).rstrip(' ;,.')};"
            continue
        found += sentences(line)
        announced = bool(found) and found[-1].endswith(":")
    return Told(found)


def _refers_only(text: str) -> bool:
    """Whether nothing but cross-references stands there: "[see Warnings (5)]."."""
    return not text[:1].isalnum() and not re.search(r"\w", _REFERENCE.sub("", text))


def _statement(text: str) -> Statement:
    held = terms(text)
    is_heading = not (text.endswith(_ENDS) or " | " in text or ITEM.match(text))
    return Statement(text, held, any(word[0].isdigit() for word in held), is_heading)
