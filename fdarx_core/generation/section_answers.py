"""What a section says as a whole: its list of indications or contraindications, how the product is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fdarx_core.generation.topic_sections import (
    BOXED,
    CONTRAINDICATIONS,
    DESCRIPTION,
    FORMS,
    INDICATIONS,
    INGREDIENTS,
    MECHANISM,
    OVERDOSAGE,
    REACTIONS,
    SUPPLY,
)
from fdarx_core.generation.units import SectionUnit, TopicStatement

Found = tuple[list[TopicStatement], str]
"""The statements of an answer, and the answer where it is a part of them, "" where they are the answer."""
NONE: Found = ([], "")

_BEFORE_USE = re.compile(r"(?:carefully )?consider |use the lowest ", re.I)
_COMMENT = re.compile(r"\b(?:have|has) been (?:reported|observed)\b|\bmay cause\b", re.I)
_STORE = re.compile(
    r"\b(?:stor(?:e|ed|age)\b|refrigerat|freez|protect(?:ed)? from|excursions|away from (?:heat|light|moisture)|"
    r"keep (?:container |bottle )?tightly|(?:tight|light-resistant)\b[\w, -]*container)",
    re.I,
)
_INACTIVE = re.compile(r"\binactive ingredients?\b|\bexcipients?\b", re.I)
_MOST_COMMON = re.compile(r"\bmost (?:common|frequent)(?:ly)?\b", re.I)
_LEAST_INGREDIENTS = 2
_WARNING = re.compile(r"^\W*warnings?\s*[:—–-]+\s*", re.I)


def section_answer(name: str, units: Sequence[SectionUnit]) -> Found:
    """Return the answer to a topic of kind "section", one of `SECTION_TOPICS`."""
    return _READERS[name](units)


def _in(units: Sequence[SectionUnit], codes: frozenset[str]) -> list[TopicStatement]:
    return [one for unit in units if unit.code in codes for one in unit.statements]


def _all(codes: frozenset[str], but: re.Pattern[str] | None = None) -> Callable[[Sequence[SectionUnit]], Found]:
    """Return a reader of all statements of sections, without those that match; nothing where one is no sentence."""

    def read(units: Sequence[SectionUnit]) -> Found:
        kept = [one for one in _in(units, codes) if but is None or one.items or not but.search(one.text)]
        whole = all(one.items or one.text[:1].isupper() for one in kept)
        return (kept, "") if whole and not any(one.is_row for one in kept) else NONE

    return read


def _contraindications(units: Sequence[SectionUnit]) -> Found:
    kept = _in(units, CONTRAINDICATIONS)
    text = " ".join(one.text for one in kept)
    if kept and re.fullmatch(r"\W*none(?: known| reported)?\W*", text, re.I):
        return kept, "No contraindications are listed: none."
    return _all(CONTRAINDICATIONS, _COMMENT)(units)


def _forms(units: Sequence[SectionUnit]) -> Found:
    kept = _in(units, FORMS)
    return (kept, " ".join(one.text for one in kept)) if kept and re.search(r"\d", kept[0].text) else NONE


def _boxed(units: Sequence[SectionUnit]) -> Found:
    """Return what the title of the boxed warning names, "Lactic acidosis"."""
    titled = [unit for unit in units if unit.code in BOXED and unit.titles and _WARNING.match(unit.titles[0])]
    subject = _WARNING.sub("", titled[0].titles[0]).strip(" .") if titled else ""
    if len(subject) < len("falls") or not subject.isascii() or subject.isdigit():
        return NONE
    return titled[0].statements[:1], subject


def _storage(units: Sequence[SectionUnit]) -> Found:
    kept = [one for one in _in(units, SUPPLY) if not one.is_row and _STORE.search(one.text)]
    return (kept, " ".join(one.text for one in kept)) if kept else NONE


def _inactive(units: Sequence[SectionUnit]) -> Found:
    kept = [one for one in _in(units, DESCRIPTION | INGREDIENTS) if _INACTIVE.search(one.text)]
    if len(kept) != 1 or kept[0].text.count(",") + kept[0].text.count(";") < _LEAST_INGREDIENTS:
        return NONE
    return kept, ""


def _most_common(units: Sequence[SectionUnit]) -> Found:
    kept = [one for one in _in(units, REACTIONS) if _MOST_COMMON.search(one.text) and not one.is_row]
    return (kept, "") if len(kept) == 1 else NONE


_READERS: dict[str, Callable[[Sequence[SectionUnit]], Found]] = {
    "indications": _all(INDICATIONS, _BEFORE_USE),
    "contraindications": _contraindications,
    "boxed warning": _boxed,
    "overdosage": _all(OVERDOSAGE),
    "mechanism of action": _all(MECHANISM),
    "storage": _storage,
    "dosage forms and strengths": _forms,
    "inactive ingredients": _inactive,
    "most common adverse reactions": _most_common,
}
