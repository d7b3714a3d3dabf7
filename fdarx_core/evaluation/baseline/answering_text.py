"""What the baseline reads of the passages it is shown: their sentences, and which word stands where."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fdarx_core.filters.baseline.terms import terms
from fdarx_core.filters.text import sentences

STEM = 5
"""Letters that two forms of a word share: "dialysis" and "dialyzable"."""

_MARKED = re.compile(r"^\|\|(PASSAGE_\d+)\|\| ?(.*)$", re.MULTILINE)
_ITEM = re.compile(r"\s*(?:[-*](?=\s)|[•·]|\(?\d{1,2}[.)](?=\s))\s*")
_ENDS = (".", "!", "?", ":", ";", ")", "]", '"', "”")
_REFERENCE = re.compile(
    r"\s*\[\s*(?:also |please )?see\b[^\[\]]*(?:\]|$)|\s*\(\s*(?:also |please )?see\b[^()]*(?:\)|$)|"
    r"\s*[(\[]\d{1,2}\.\d{1,2}(?:, ?\d{1,2}(?:\.\d{1,2})?)*[)\]]",
    re.IGNORECASE,
)
_CELL_NAME = re.compile(r"^[^|.:]{1,40}: \| ")
_GAP = re.compile(r"(?<=\.)\s*\.$|\s+(?=[.,;](?:\s|$))")
"""What a cross-reference leaves behind: a space before a stop, or a second stop."""
_LONGEST_LIST = 500
_K1, _B = 1.5, 0.75


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
        bullet = _ITEM.match(self.text)
        said = _REFERENCE.sub("", self.text[bullet.end() if bullet else 0 :])
        said = _GAP.sub("", said)
        said = _CELL_NAME.sub("", said).replace(" | ", "; ").strip(" ;,:|")
        return said if said.endswith((".", "!", "?", ".)", '."')) else f"{said}."


class Evidence:
    """The passages shown, each given as marker ("" where the prompt shows none), its section's titles and its text.

    `passage_of[i]` is the place of the passage of `statements[i]`, `bm25[i]` what a word in it counts for. The three
    tables say for each term where it stands; a passage has its titles' terms too.
    """

    def __init__(self, passages: Sequence[tuple[str, str, str]]) -> None:
        self.markers = [marker for marker, _, _ in passages]
        found = [_statements(text) for _, _, text in passages]
        titles = [terms(title) for _, title, _ in passages]
        self.statements = [one for statements in found for one in statements]
        self.passage_of = [place for place, statements in enumerate(found) for _ in statements]
        self.in_statements = _places([one.terms for one in self.statements])
        self.in_titles = _places(titles)
        self.in_passages = _places(
            [title.union(*(one.terms for one in held)) for title, held in zip(titles, found, strict=True)]
        )
        self.stems = frozenset(term[:STEM] for term in self.in_passages)
        lengths = [len(one.terms) for one in self.statements]
        mean = max(sum(lengths) / max(len(lengths), 1), 1)
        self.bm25 = [(_K1 + 1) / (1 + _K1 * (1 - _B + _B * length / mean)) for length in lengths]

    def rarity(self, term: str) -> float:
        """A term's idf over the statements, as BM25 has it; above 0 also for one that stands in most."""
        held = len(self.in_statements.get(term, ()))
        return math.log(1 + (len(self.statements) - held + 0.5) / (held + 0.5))


def evidence_of(slots: Mapping[str, Any]) -> Evidence:
    """What the slots of an answering task show. A label is read once for all questions that follow on it."""
    if "label" in slots:
        return _of_label(slots["label"])
    return Evidence([(one.get("marker", ""), one["section"], one["text"]) for one in slots["passages"]])


@lru_cache(maxsize=4)
def _of_label(label: str) -> Evidence:
    found = list(_MARKED.finditer(label))
    ends = [*(one.start() for one in found[1:]), len(label)]
    passages, titles = [], ""
    for one, end in zip(found, ends, strict=False):
        titles = one[2] or titles
        passages.append((one[1], titles, label[one.end() : end].strip()))
    return Evidence(passages)


def _places(held: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, found in enumerate(held):
        for term in found:
            places.setdefault(term, []).append(place)
    return places


@lru_cache(maxsize=2048)
def _statements(text: str) -> list[Statement]:
    found: list[str] = []
    announced = False
    for line in text.split("\n"):
        if announced and _ITEM.match(line) and len(found[-1]) + len(line) <= _LONGEST_LIST:
            found[-1] = f"{found[-1]} {_ITEM.sub('', line, count=1).rstrip(' ;,.')};"
            continue
        found += sentences(line)
        announced = bool(found) and found[-1].endswith(":")
    return [_statement(one) for one in found if not _refers_only(one)]


def _refers_only(text: str) -> bool:
    """Whether nothing but cross-references stands there: "[see Warnings (5)]."."""
    return not text[:1].isalnum() and not re.search(r"\w", _REFERENCE.sub("", text))


def _statement(text: str) -> Statement:
    held = terms(text)
    is_heading = not (text.endswith(_ENDS) or " | " in text or _ITEM.match(text))
    return Statement(text, held, any(word[0].isdigit() for word in held), is_heading)
