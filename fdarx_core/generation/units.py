"""The units of a label's body: what stands under one heading, printed as a section's title or within its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from fdarx_core.baseline.label_statements import LabelStatement, parse_passage
from fdarx_core.baseline.tokens import strip_references, with_full_stop
from fdarx_core.generation.terminology import SearchableText, fold
from fdarx_core.labels.loinc import PATIENT_SECTIONS
from fdarx_core.records import Passage

_LEAD_IN = re.compile(r"^([A-Z][^.:;|]{2,80}?)\s?(?::|[—–]|\s-)\s+(?=[A-Z0-9(])")
_FOOTNOTE = re.compile(r"\s*\[(?:\d{1,2}|See footnotes?(?: \[?\d{1,2}\]?)?)\s?\]", re.I)
_POINTER = re.compile(r"\b(?:tables?|figures?|graph|above|below|the following|as follows|preceding|section)\b", re.I)
_NUMBERING = re.compile(r"^\W*(?:\d{1,2}(?:\.\d{1,2})*\.?\s+)?")


@dataclass(frozen=True, slots=True)
class TopicStatement:
    """A statement of the body, as an answer can hold it.

    Attributes:
        text: the sentence, or the sentence that announces a list with its items, or a table row; without references.
        passage: the index of its passage.
        points: whether it refers to a table, a figure or other text, without which it is not complete.
    """

    text: str
    passage: int
    points: bool = False
    is_row: bool = False
    has_items: bool = False


@dataclass(slots=True)
class SectionUnit:
    """What stands under one heading.

    Attributes:
        title: the heading, without its number.
        titles: the titles of the section and of those above it, and the headings within the text; the title is last.
        code: the core LOINC code of its section.
        statements: its statements, in order.
    """

    title: str
    titles: tuple[str, ...]
    code: str
    statements: list[TopicStatement] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(one.text for one in self.statements)

    @property
    def passages(self) -> list[int]:
        return sorted({one.passage for one in self.statements})


def read_units(passages: Sequence[Passage]) -> list[SectionUnit]:
    """Return the units of a label's body, in order, without what is written for patients and without package labels."""
    body = (one for one in passages if one.core_code not in PATIENT_SECTIONS)
    units: list[SectionUnit] = []
    for (code, path, title), group in groupby(
        body, key=lambda one: (one.core_code, one.section_path, one.section_title)
    ):
        units += _units_of(code, tuple(part for part in path.split(" > ") if part), title, list(group))
    return units


def _units_of(code: str, path: tuple[str, ...], title: str, passages: Sequence[Passage]) -> Iterator[SectionUnit]:
    unit = SectionUnit(_bare(title), path, code)
    heads: tuple[str, ...] = ()
    for passage in passages:
        lines = f"\n{passage.text}"
        for one in parse_passage(passage.text):
            lead, statement = _statement(one, passage.doc_chunk_index)
            above = one.heads or (heads if one.is_row else ())
            now = (*above, lead) if lead else above
            if not lead and heads[:-1] == above and not _begins_line(one.text, lines):
                now = heads  # a sentence of the paragraph that began with a heading
            if now != heads and (now or heads):
                if unit.statements:
                    yield unit
                titles = (*path, *map(_bare, now))
                unit = SectionUnit(titles[-1] if titles else "", titles, code)
                heads = now
            if statement.text:
                unit.statements.append(statement)
    if unit.statements:
        yield unit


def _begins_line(text: str, lines: str) -> bool:
    at = lines.find(text)
    return at < 0 or lines[:at].rstrip(" •-*†").endswith("\n")


def _statement(one: LabelStatement, passage: int) -> tuple[str, TopicStatement]:
    """Return the heading at the beginning of a statement, "" for none, and the statement without it."""
    text = _FOOTNOTE.sub("", strip_references(one.text))
    lead = ""
    if not one.is_row and (found := _LEAD_IN.match(text)) and len(text) > found.end() + 20:
        lead, text = found[1].strip(), text[found.end() :]
    points = bool(_POINTER.search(text)) and not one.items
    if one.is_row:
        text = _row(text)
    if one.items:
        items = [_FOOTNOTE.sub("", strip_references(item)).rstrip(" .;,") for item in one.items]
        text = f"{text.rstrip(' :')}: {'; '.join(item for item in items if item)}"
    return lead, TopicStatement(
        with_full_stop(text.strip()) if text.strip() else "", passage, points, one.is_row, bool(one.items)
    )


def _row(text: str) -> str:
    cells = [cell.strip(" :") for cell in text.split(" | ") if cell.strip(" :")]
    return ": ".join(cells) if len(cells) == 2 and ": " not in cells[1][:60] else "; ".join(cells)


def _bare(title: str) -> str:
    return _NUMBERING.sub("", title).strip(" .:–—-*†•")


class LabelWords:
    """The whole text of a label, in which names are looked up, and the text of each of its statements."""

    def __init__(self, whole: str, units: Sequence[SectionUnit]) -> None:
        self.text = SearchableText(whole)
        self._folded: dict[str, str] = {}
        self.units = units

    def folded(self, text: str) -> str:
        found = self._folded.get(text)
        if found is None:
            found = self._folded[text] = fold(text)
        return found

    def names(self, text: str, probes: Sequence[str]) -> bool:
        """Return whether a piece of the label has one of the names."""
        folded = self.folded(text)
        return any(probe in folded for probe in probes)
