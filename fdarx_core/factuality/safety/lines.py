"""The lines of a label's sections, told apart: bullets and their depth, headings, sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fdarx_core.generation.baseline.text import sentences, strip_references
from fdarx_core.records import Passage

_BULLET = re.compile(r"\s*(?P<sign>[-•·●▪◦*○−–—]|o(?= [A-Z]))\s*")
_NUMBER = re.compile(r"\s*(?:\(?\d{1,2}[.)]\s*(?=[A-Za-z])|\(?[a-z][.)]\s+)")
_SECTION_NUMBER = re.compile(r"\s*\d{1,2}\.\d{1,2}\s+(?=[A-Z])")
_WARNING_SIGN = re.compile(r"^(?:WARNINGS?|CONTRAINDICATIONS?)\s*[:.–-]*\s*(?=[A-Z][a-z])")
_OPEN_REFERENCE = re.compile(r"[\[(]\s*(?:also |please )?(?:see|refer to)\b[^\])]*$", re.IGNORECASE)
_GLUED = re.compile(r"(?<=[A-Za-z)]{3})\.(?=[A-Z][A-Za-z]{2})")
_BROKEN_REFERENCE = re.compile(r"\s*[\[(]\s*(?:also |please )?(?:[Ss]ee|SEE)(?![a-z])[^\[\]()]{0,240}[\])]")
_INNER_BULLET = re.compile(r"(?<=\S)\s*•\s*(?=[A-Z])")
_WRAPPED = re.compile(r"(?<=[a-z,)])(\s?-)?[ \t]*\n[ \t]*(?=(?!o )[a-z])")
_HEADING_WORDS = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its sentences without cross-references, and its `bullet`: sign and depth, "" for none.

    `heading`: it has few words and no mark at its end. An empty line that has a bullet passes it to the next.
    """

    sentences: tuple[str, ...]
    bullet: str
    heading: bool
    passage: Passage

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def lines_of(passages: Sequence[Passage]) -> Iterator[Line]:
    """The lines of the passages, in their order, that say something."""
    bullet = ""
    for passage in passages:
        for raw in _unglued(passage.text):
            line = _line(raw, passage, bullet)
            bullet = "" if line.text else line.bullet
            if line.text:
                yield line


def _line(raw: str, passage: Passage, inherited: str) -> Line:
    bullet = inherited
    rest = raw
    while found := _BULLET.match(rest):
        bullet = f"{found['sign']}{len(raw) - len(raw.lstrip())}"
        rest = rest[found.end() :]
    section, item = _SECTION_NUMBER.match(rest), _NUMBER.match(rest)
    if found := section or item:
        rest = rest[found.end() :]
    text = _WARNING_SIGN.sub("", _without_references(rest))
    heading = len(text.split()) <= _HEADING_WORDS and not text.endswith((".", ":", ";", ","))
    if item or (section and not heading):
        bullet = bullet or "1"
    return Line(tuple(sentences(text)), bullet, heading, passage)


def _unglued(text: str) -> Iterator[str]:
    """The lines, also where the label lost the break between two; one that the next says whole is left out."""
    joined = _WRAPPED.sub(lambda found: "-" if found[1] else " ", _BROKEN_REFERENCE.sub("", text))
    raw = _INNER_BULLET.sub("\n• ", _GLUED.sub(". ", joined)).split("\n")
    for at, line in enumerate(raw):
        if not (line.strip() and at + 1 < len(raw) and raw[at + 1].startswith(line) and raw[at + 1] != line):
            yield line


def _without_references(text: str) -> str:
    return _OPEN_REFERENCE.sub("", strip_references(text)).strip(" \t")
