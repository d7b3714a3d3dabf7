"""The kinds of topics, the terms of each kind, and the sections of a label that answer them, by core LOINC codes."""

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
class TopicKind:
    """A kind of topic.

    Attributes:
        terms: the kinds of terms (`TERM_KINDS`) that its questions are about; none for whole sections.
        category: the LOINC code of the section that gives the category of its questions, see `topic_of`.
        scope: the sections whose statements on the term are the answer, all together.
        whole_label: whether statements outside the scope belong to the answer too; at least one must be in the scope.
        needs_heading: whether a heading in the scope must name the term.
        wording: a pattern that each paragraph on the term must match; None for no condition.
        class_scope: the sections where a statement on a class or mechanism of the term may answer it; None for all.
    """

    terms: tuple[str, ...]
    category: str
    scope: frozenset[str] = frozenset()
    whole_label: bool = False
    needs_heading: bool = False
    wording: re.Pattern[str] | None = None
    class_scope: frozenset[str] | None = None


FORBIDS = re.compile(
    r"contraindicat|\b(?:should|must|do|is|are) not\b|\bnot (?:be|recommended|for)\b|\bavoid|\bnever\b", re.I
)
"""Words that forbid the use of a product."""
DOSES = re.compile(r"\bdos(?:e|es|ed|age|ages|ing)\b|\d\s*(?:mg|mcg|g|mL|units?|tablets?|capsules?)\b|\btitrat", re.I)
"""Words of dosing instructions."""
TOPIC_KINDS = {
    "partner": TopicKind(("partner",), "34073-7", INTERACTIONS, True, class_scope=INTERACTIONS | CONTRAINDICATIONS),
    "risk": TopicKind(
        ("risk",), "43685-7", WARNINGS | CONTRAINDICATIONS, True, class_scope=WARNINGS | CONTRAINDICATIONS | REACTIONS
    ),
    "reaction": TopicKind(("reaction",), "34084-4", class_scope=REACTIONS | WARNINGS),
    "effect": TopicKind(("reaction",), "34084-4", REACTIONS | WARNINGS, True, class_scope=REACTIONS | WARNINGS),
    "indication": TopicKind(("indication",), "34068-7", DOSAGE, needs_heading=True, wording=DOSES),
    "population": TopicKind(("population",), "43684-0", POPULATIONS, True, class_scope=POPULATIONS | DOSAGE),
    "quantity": TopicKind(("quantity",), "43682-4"),
    "contraindication": TopicKind(("risk", "indication", "partner"), "34070-3", CONTRAINDICATIONS, wording=FORBIDS),
    "boxed_warning": TopicKind(("risk", "indication"), "43685-7", BOXED),
    "dose_adjustment": TopicKind(("population",), "34068-7", DOSAGE, wording=DOSES),
    "overdose": TopicKind(("reaction",), "34088-5", OVERDOSAGE),
    "subsection": TopicKind(("subsection",), "43684-0"),
    "section": TopicKind((), "34067-9"),
}
"""All kinds of topics by name."""
ANSWERED_ONLY = frozenset(
    {"section", "subsection", "contraindication", "boxed_warning", "dose_adjustment", "indication"}
)
"""The kinds whose wordings are used only in answered questions. If one of their sections does not name a term, mostly
another section does, or nobody would ask the question about the drug."""
NEVER_REFUSED = ANSWERED_ONLY | {"risk"}
"""The kinds without refusal questions. Questions on risks have the wordings of kind "effect", which has some."""
CHEMISTRY = frozenset({"molecular weight", "pKa", "partition coefficient", "melting point", "median lethal dose"})
"""Quantities that are constants of a substance; a benchmark needs few questions on them."""
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
"""The sections that many labels lack, by the name of the topic; the whole section is the answer."""
SECTION_TOPICS = tuple(_SECTION_CATEGORIES)
"""The names of the topics of kind "section", each on the content of a whole section."""
_TOO_GENERAL = frozenset(
    {"pain", "edema", "infection", "inflammation", "swelling", "reactions", "bleeding", "depression"}
)
"""Terms that labels mostly use within longer ones: a statement on "epigastric pain" is not one on pain in general."""
_OWN_SECTIONS = frozenset(
    {"use in geriatric patients", "use in pediatric patients", "use during pregnancy", "use during lactation",
     "labor and delivery"}
)  # fmt: skip
"""Populations that have sections of their own, see `SUBSECTIONS`."""
_REPRODUCTIVE_RISKS = frozenset({"lactation", "pregnancy", "fetal toxicity", "impaired fertility", "preterm birth"})
"""Risks that have sections of their own, outside of the warnings."""
_DOSE_ADJUSTMENT_PREFIXES = ("use in ", "use during ", "dialysis", "abrupt discontinuation")
"""The beginnings of the names of populations for which a dose may be adjusted."""


def is_asked(kind: str, term: str) -> bool:
    """Return whether a kind of topic has questions about a term. It does not depend on the label."""
    if kind == "population":
        return term not in _OWN_SECTIONS
    if kind == "reaction":
        return "indication" not in terms()[term].kinds
    if kind == "dose_adjustment":
        return term.startswith(_DOSE_ADJUSTMENT_PREFIXES)
    if kind in ("risk", "boxed_warning", "contraindication") and term in _REPRODUCTIVE_RISKS:
        return kind == "contraindication" and term in ("lactation", "pregnancy")
    if kind == "effect":
        return "risk" not in terms()[term].kinds and term not in _TOO_GENERAL
    if kind in ("contraindication", "boxed_warning", "overdose"):
        return term not in _TOO_GENERAL
    return term != "molecular formula"  # labels give a formula in pieces, because of its subscripts


def category_of(topic: Topic) -> str:
    """Return the category of the questions on a topic, one of the label topics of FDARxBench."""
    if topic.kind == "section":
        return topic_of(_SECTION_CATEGORIES[topic.name])
    if topic.name in CHEMISTRY:
        return topic_of(min(DESCRIPTION))
    if topic.kind == "subsection":
        return topic_of(min(SUBSECTIONS[topic.name]))
    return topic_of(TOPIC_KINDS[topic.kind].category)
