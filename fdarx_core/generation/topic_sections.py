"""The kinds of topics: from which terms they come, and which sections of a label answer them, by core LOINC codes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.generation.terminology import Topic, terms
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
        scope: the sections whose statements on the term, all of them, are the answer.
        everywhere: whether the statements of the whole label are the answer, of which one must be in the scope.
        titled: whether a heading in the scope must name the term.
        stated: what each paragraph on the term must say; None for anything.
        wider: the sections where a class, member or mechanism of the term may say something of it; None for all.
    """

    terms: tuple[str, ...]
    category: str
    scope: frozenset[str] = frozenset()
    everywhere: bool = False
    titled: bool = False
    stated: re.Pattern[str] | None = None
    wider: frozenset[str] | None = None


FORBIDS = re.compile(
    r"contraindicat|\b(?:should|must|do|is|are) not\b|\bnot (?:be|recommended|for)\b|\bavoid|\bnever\b", re.I
)
"""Words that forbid the use of a product."""
DOSES = re.compile(r"\bdos(?:e|es|ed|age|ages|ing)\b|\d\s*(?:mg|mcg|g|mL|units?|tablets?|capsules?)\b|\btitrat", re.I)
"""Words of dosing instructions."""
KINDS = {
    "partner": Kind(("partner",), "34073-7", INTERACTIONS, True, wider=INTERACTIONS | CONTRAINDICATIONS),
    "risk": Kind(
        ("risk",), "43685-7", WARNINGS | CONTRAINDICATIONS, True, wider=WARNINGS | CONTRAINDICATIONS | REACTIONS
    ),
    "reaction": Kind(("reaction",), "34084-4", wider=REACTIONS | WARNINGS),
    "effect": Kind(("reaction",), "34084-4", REACTIONS | WARNINGS, True, wider=REACTIONS | WARNINGS),
    "indication": Kind(("indication",), "34068-7", DOSAGE, titled=True, stated=DOSES),
    "population": Kind(("population",), "43684-0", POPULATIONS, True, wider=POPULATIONS | DOSAGE),
    "quantity": Kind(("quantity",), "43682-4"),
    "contraindication": Kind(("risk", "indication", "partner"), "34070-3", CONTRAINDICATIONS, stated=FORBIDS),
    "boxed_warning": Kind(("risk", "indication"), "43685-7", BOXED),
    "dose_adjustment": Kind(("population",), "34068-7", DOSAGE, stated=DOSES),
    "overdose": Kind(("reaction",), "34088-5", OVERDOSAGE),
    "subsection": Kind(("subsection",), "43684-0"),
    "section": Kind((), "34067-9"),
}
"""All kinds of topics by name."""
SCOPED = ("contraindication", "boxed_warning", "dose_adjustment", "overdose")
"""The kinds that ask what one section says, while other sections may say something else of the term."""
ANSWERED_ONLY = frozenset(
    {"section", "subsection", "contraindication", "boxed_warning", "dose_adjustment", "indication"}
)
"""The kinds without refusal questions: what a label does not say of a term there, it mostly says elsewhere, or nobody
would ask it of the drug."""
NEVER_REFUSED = ANSWERED_ONLY | {"risk"}
"""These kinds, and risks, whose answered questions have the wordings of adverse reactions."""
CHEMISTRY = frozenset({"molecular weight", "pKa", "partition coefficient", "melting point", "median lethal dose"})
"""Quantities that are constants of a substance, of which a benchmark needs few."""
_SECTION_CATEGORIES = {
    "indications": "34067-9", "contraindications": "34070-3", "boxed warning": "34066-1",
    "mechanism of action": "43682-4", "storage": "34069-5", "dosage forms and strengths": "43678-2",
    "inactive ingredients": "34089-3", "most common adverse reactions": "34084-4",
}  # fmt: skip
SUBSECTIONS = {
    "section on overdosage": frozenset({"34088-5"}),
    "section on drug abuse and dependence": frozenset({"42227-9", "34085-1", "34086-9", "34087-7"}),
    "section on labor and delivery": frozenset({"34079-4"}),
    "section on lactation (nursing mothers)": frozenset({"34080-2", "77290-5"}),
    "section on pregnancy": frozenset({"42228-7", "34077-8", "34078-6"}),
    "section on females and males of reproductive potential": frozenset({"77291-3"}),
    "section on pediatric use": frozenset({"34081-0"}),
    "section on geriatric use": frozenset({"34082-8"}),
    "section on laboratory tests": frozenset({"34075-2"}),
    "section on drug/laboratory test interactions": frozenset({"34074-5"}),
    "section on carcinogenesis, mutagenesis and impairment of fertility": frozenset({"34083-6"}),
    "section on animal toxicology": frozenset({"34091-9"}),
    "section on microbiology": frozenset({"49489-8"}),
    "section on pharmacogenomics": frozenset({"66106-6"}),
    "section on immunogenicity": frozenset({"88830-5"}),
}
"""The sections that many labels lack, by the term that asks about them; the whole section is the answer."""
SECTION_TOPICS = tuple(_SECTION_CATEGORIES)
"""What a section as a whole says: the names of the topics of kind "section"."""


_TOO_GENERAL = frozenset(
    {"pain", "edema", "infection", "inflammation", "swelling", "reactions", "bleeding", "depression"}
)
"""Terms that labels hardly use alone: "epigastric pain" says nothing of pain in general."""
_OWN_SECTIONS = frozenset(
    {"use in geriatric patients", "use in pediatric patients", "use during pregnancy", "use during lactation",
     "labor and delivery"}
)  # fmt: skip
"""Populations that have sections of their own, see `SUBSECTIONS`."""
_OF_REPRODUCTION = frozenset({"lactation", "pregnancy", "fetal toxicity", "impaired fertility", "preterm birth"})
"""Risks that have sections of their own, outside of the warnings."""
_DOSED = ("use in ", "use during ", "dialysis", "abrupt discontinuation")
"""How the names of populations begin for which a dose may be adjusted."""
_SPLIT_BY_MARKUP = "molecular formula"
"""The quantity whose subscripts are separate pieces of a label's text, so that a value may be a part of the formula."""


def is_asked(kind: str, term: str) -> bool:
    """Return whether a term can be asked about as a kind of topic, whatever the label."""
    if kind == "population":
        return term not in _OWN_SECTIONS
    if kind == "reaction":
        return "indication" not in terms()[term].kinds
    if kind == "dose_adjustment":
        return term.startswith(_DOSED)
    if kind in ("risk", "boxed_warning", "contraindication") and term in _OF_REPRODUCTION:
        return kind == "contraindication" and term in ("lactation", "pregnancy")
    if kind == "effect" and "risk" in terms()[term].kinds:
        return False
    return term != _SPLIT_BY_MARKUP and (kind not in (*SCOPED, "effect") or term not in _TOO_GENERAL)


def category_of(topic: Topic) -> str:
    """Return the label topic of FDARxBench under which a topic falls, the same where a label answers and where not."""
    if topic.kind == "section":
        return topic_of(_SECTION_CATEGORIES[topic.name])
    if topic.name in CHEMISTRY:
        return topic_of("34089-3")
    if topic.kind == "subsection":
        return topic_of(min(SUBSECTIONS[topic.name]))
    return topic_of(KINDS[topic.kind].category)
