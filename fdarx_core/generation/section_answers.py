"""Answers that a whole section gives, such as the list of indications, or that its sentences on storage give."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fdarx_core.generation.topic_sections import (
    BOXED,
    CONTRAINDICATIONS,
    DESCRIPTION,
    FORMS,
    INDICATIONS,
    INGREDIENTS,
    MECHANISM,
    REACTIONS,
    SUBSECTIONS,
    SUPPLY,
)
from fdarx_core.generation.units import SectionUnit, TopicStatement

Found = tuple[list[TopicStatement], str]
"""The statements of an answer, and the answer where it is a part of them, "" where they are the answer."""
NONE: Found = ([], "")

NO_CONTRAINDICATIONS = "No contraindications are listed: none."
_STORE = re.compile(
    r"\b(?:stor(?:e|ed|age)\b|refrigerat|freez|protect(?:ed)? from|excursions|away from (?:heat|light|moisture)|"
    r"keep (?:container |bottle )?tightly|(?:tight|light-resistant)\b[\w, -]*container)",
    re.I,
)
_INACTIVE = re.compile(r"\binactive ingredients?\b|\bexcipients?\b", re.I)
_MOST_COMMON = re.compile(r"\bmost (?:common|frequent)(?:ly)?\b", re.I)
_OF_SOME = re.compile(r"\bdiscontinu|\bwithdraw|\bserious\b|\bsevere\b|\bstud(?:y|ies) \d", re.I)
"""Signs that the most common of certain adverse reactions, or of those of one study, are meant."""
_LEAST_INGREDIENTS = 2


def section_answer(name: str, units: Sequence[SectionUnit]) -> Found:
    """Return the answer to a topic of kind "section", one of `SECTION_TOPICS`."""
    if name == "storage":
        kept = [one for one in _in(units, SUPPLY) if not one.is_row and _STORE.search(one.text)]
        return kept, " ".join(one.text for one in kept)
    if name == "inactive ingredients":
        kept = [one for one in _in(units, DESCRIPTION | INGREDIENTS) if _INACTIVE.search(one.text)]
        enough = len(kept) == 1 and kept[0].text.count(",") + kept[0].text.count(";") >= _LEAST_INGREDIENTS
        return (kept, "") if enough else NONE
    if name == "most common adverse reactions":
        kept = [one for one in _in(units, REACTIONS) if _MOST_COMMON.search(one.text) and not one.is_row]
        listed = len(kept) == 1 and (kept[0].items or re.search(r",|\band\b", kept[0].text))
        return (kept, "") if listed and not _OF_SOME.search(kept[0].text) else NONE
    return _whole(units, SECTION_CODES[name], name)


def _in(units: Sequence[SectionUnit], codes: frozenset[str]) -> list[TopicStatement]:
    return [one for unit in units if unit.code in codes for one in unit.statements]


def _whole(units: Sequence[SectionUnit], codes: frozenset[str], name: str) -> Found:
    """Return all statements of sections, under the titles of their parts and the headings within their text."""
    kept, own = _in(units, codes), [unit for unit in units if unit.code in codes]
    above = sum(len(set(titles)) == 1 for titles in zip(*(unit.titles for unit in own), strict=False))
    text = " ".join(unit.under_title(unit.statements, unit.depth > 0 or len(unit.titles) > above) for unit in own)
    if name == "contraindications" and re.fullmatch(r"\W*none(?: known| reported)?\W*", text, re.I):
        return kept, NO_CONTRAINDICATIONS
    whole = all(one.items or one.text[:1].isupper() or one.text[:1].isdigit() for one in kept)
    return (kept, text) if whole and not any(one.is_row for one in kept) else NONE


SELECTED = ("storage", "inactive ingredients", "most common adverse reactions")
"""The topics that some sentences of a section answer; the whole section answers the others."""
SECTION_CODES = {
    "indications": INDICATIONS,
    "contraindications": CONTRAINDICATIONS,
    "boxed warning": BOXED,
    "mechanism of action": MECHANISM,
    "dosage forms and strengths": FORMS,
    **SUBSECTIONS,
}
"""The sections whose whole text is an answer, by topic."""
