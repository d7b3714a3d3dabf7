"""The kinds of topics: from which terms they come, and which sections of a label answer them, by core LOINC codes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.generation.terminology import Topic
from fdarx_core.labels.loinc import topic_of

BOXED = frozenset({"34066-1"})
WARNINGS = frozenset({"34066-1", "43685-7", "34071-1", "42232-9", "34072-9"})
INDICATIONS = frozenset({"34067-9"})
DOSAGE = frozenset({"34068-7"})
FORMS = frozenset({"43678-2"})
CONTRAINDICATIONS = frozenset({"34070-3"})
INTERACTIONS = frozenset({"34073-7"})
OVERDOSAGE = frozenset({"34088-5"})
DESCRIPTION = frozenset({"34089-3"})
INGREDIENTS = frozenset({"51727-6"})
MECHANISM = frozenset({"43679-0"})
KINETICS = frozenset({"34090-1", "43682-4"})
PHARMACOLOGY = frozenset({"34090-1", "43682-4", "43679-0", "43681-6", "66106-6", "60593-1"})
STUDIES = frozenset({"34092-7"})
REACTIONS = frozenset({"34084-4", "90374-0", "90375-7"})
SUPPLY = frozenset({"34069-5", "44425-7"})
POPULATIONS = frozenset(
    {"43684-0", "42228-7", "34077-8", "34078-6", "77290-5", "34080-2", "34081-0", "34082-8", "88828-9", "88829-7",
     "34079-4", "77291-3", "42227-9", "34085-1", "34086-9", "34087-7"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of topic.

    Attributes:
        terms: the kinds of the terminology whose terms can be asked about so; none for whole sections.
        category: the LOINC code of a section, whose label topic is the category of all questions of the kind.
        titled: the sections of which everything under a heading that names the term is the answer.
        stated: the sections of which every sentence that names the term belongs to the answer.
        value: what an answer must have, and of `SCOPED` kinds each statement of it; None for nothing.
        wider: the sections where a class, member or mechanism of the term may say something of it; None for all.
    """

    terms: tuple[str, ...]
    category: str
    titled: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()
    value: re.Pattern[str] | None = None
    wider: frozenset[str] | None = None


FORBIDS = re.compile(r"contraindicat|\bshould not\b|\bmust not\b|\bdo not\b|\bnot be\b|\bavoid|\bnever\b", re.I)
"""Words that forbid the use of a product."""
_POPULATION_SECTIONS = POPULATIONS | PHARMACOLOGY | WARNINGS | DOSAGE
KINDS = {
    "partner": Kind(
        ("partner",), "34073-7", INTERACTIONS, INTERACTIONS | WARNINGS | CONTRAINDICATIONS | DOSAGE | PHARMACOLOGY,
        wider=INTERACTIONS | CONTRAINDICATIONS | WARNINGS,
    ),
    "risk": Kind(("risk",), "43685-7", WARNINGS, WARNINGS, wider=WARNINGS | CONTRAINDICATIONS | REACTIONS),
    "reaction": Kind(("reaction",), "34084-4", wider=REACTIONS | WARNINGS),
    "indication": Kind(
        ("indication",), "34068-7", DOSAGE, DOSAGE, re.compile(r"\d\s*(?:mg|mcg|g|mL|units?|tablets?|capsules?|%)"),
        INDICATIONS | DOSAGE | STUDIES,
    ),
    "population": Kind(("population",), "43684-0", _POPULATION_SECTIONS, _POPULATION_SECTIONS),
    "quantity": Kind(("quantity",), "43682-4"),
    "contraindication": Kind(
        ("risk", "indication", "partner"), "34070-3", CONTRAINDICATIONS, CONTRAINDICATIONS, FORBIDS
    ),
    "boxed_warning": Kind(("risk", "indication"), "43685-7", BOXED, BOXED),
    "dose_adjustment": Kind(("population",), "34068-7", DOSAGE, DOSAGE),
    "overdose": Kind(("reaction",), "34088-5", OVERDOSAGE, OVERDOSAGE),
    "section": Kind((), "34067-9"),
}  # fmt: skip
"""All kinds of topics by name."""
SCOPED = ("contraindication", "boxed_warning", "dose_adjustment", "overdose")
"""The kinds that ask what one section says, while other sections may say something else of the term."""
CHEMISTRY = frozenset({"molecular weight", "pKa", "partition coefficient", "melting point", "median lethal dose"})
"""Quantities that are constants of a substance, of which a benchmark needs few."""
_SECTION_CATEGORIES = {
    "indications": "34067-9", "contraindications": "34070-3", "boxed warning": "34066-1", "overdosage": "34088-5",
    "mechanism of action": "43682-4", "storage": "34069-5", "dosage forms and strengths": "43678-2",
    "inactive ingredients": "34089-3", "most common adverse reactions": "34084-4",
}  # fmt: skip
SECTION_TOPICS = tuple(_SECTION_CATEGORIES)
"""What a section as a whole says: the names of the topics of kind "section"."""


_TOO_GENERAL = frozenset({"pain", "edema", "infection", "inflammation", "swelling", "reactions", "bleeding"})
"""Terms that labels hardly use alone: "epigastric pain" is no statement on pain in general."""
_DOSED = ("use in ", "use during ", "removal by hemodialysis", "abrupt discontinuation")
"""How the names of populations begin for which a dose may be adjusted."""
_SPLIT_BY_MARKUP = "molecular formula"
"""The quantity whose subscripts are separate pieces of a label's text, so that a value may be a part of the formula."""


def is_asked(kind: str, term: str) -> bool:
    """Return whether a term can be asked about as a kind of topic, whatever the label."""
    if kind == "dose_adjustment":
        return term.startswith(_DOSED)
    return term != _SPLIT_BY_MARKUP and (kind not in SCOPED or term not in _TOO_GENERAL)


def category_of(topic: Topic) -> str:
    """Return the label topic of FDARxBench under which a topic falls, the same where a label answers and where not."""
    if topic.kind == "section":
        return topic_of(_SECTION_CATEGORIES[topic.name])
    if topic.name in CHEMISTRY:
        return topic_of("34089-3")
    return topic_of(KINDS[topic.kind].category)
