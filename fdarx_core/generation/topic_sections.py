"""Which sections of a label answer which kind of topics, by their core LOINC codes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.labels.loinc import topic_of


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a kind of topic is answered.

    Attributes:
        titled: the LOINC codes of the sections whose headings may name the topic.
        stated: the LOINC codes of the sections whose sentences belong to the answer.
        value: what an answer must have, None for nothing.
    """

    titled: frozenset[str]
    stated: frozenset[str]
    value: re.Pattern[str] | None = None


WARNINGS = frozenset({"34066-1", "43685-7", "34071-1", "42232-9", "34072-9"})
DOSAGE = frozenset({"34068-7"})
INTERACTIONS = frozenset({"34073-7"})
PHARMACOLOGY = frozenset({"34090-1", "43682-4", "43679-0", "43681-6", "66106-6", "60593-1"})
DESCRIPTION = frozenset({"34089-3"})
CONTRAINDICATIONS = frozenset({"34070-3"})
INDICATIONS = frozenset({"34067-9"})
STUDIES = frozenset({"34092-7"})
REACTIONS = frozenset({"34084-4", "90374-0", "90375-7"})
POPULATIONS = frozenset(
    {"43684-0", "42228-7", "34077-8", "34078-6", "77290-5", "34080-2", "34081-0", "34082-8", "88828-9", "88829-7",
     "34079-4", "77291-3", "42227-9", "34085-1", "34086-9", "34087-7", "34088-5"}
)  # fmt: skip

SCOPES = {
    "partner": Scope(INTERACTIONS, INTERACTIONS | WARNINGS | CONTRAINDICATIONS | DOSAGE | PHARMACOLOGY),
    "risk": Scope(WARNINGS, WARNINGS),
    "indication": Scope(DOSAGE, DOSAGE, re.compile(r"\d\s*(?:mg|mcg|g|mL|units?|tablets?|capsules?|%)")),
    "population": Scope(POPULATIONS | PHARMACOLOGY | WARNINGS | DOSAGE, POPULATIONS | PHARMACOLOGY | WARNINGS | DOSAGE),
}
WIDER_ANSWERS = {
    "partner": INTERACTIONS | CONTRAINDICATIONS | WARNINGS,
    "risk": WARNINGS | CONTRAINDICATIONS | REACTIONS,
    "indication": INDICATIONS | DOSAGE | STUDIES,
    "reaction": REACTIONS | WARNINGS,
}
"""By kind, the sections where a statement on a class of a term says something of the term; others: the whole label."""


_CATEGORY_SECTIONS = {
    "quantity": "43682-4", "population": "43684-0", "indication": "34068-7", "reaction": "34084-4", "risk": "43685-7",
    "partner": "34073-7", "computation": "34068-7", "frequency_comparison": "34084-4", "dose_comparison": "34068-7",
    "bridge": "34073-7",
}  # fmt: skip


def category_of(kind: str) -> str:
    """Return the label topic of FDARxBench under which a kind of topics falls."""
    return topic_of(_CATEGORY_SECTIONS[kind])
