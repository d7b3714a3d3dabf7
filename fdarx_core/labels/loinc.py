"""LOINC codes of label sections: their names, and the nine label topics of FDARxBench §B.4."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal, get_args

Topic = Literal[
    "Indications & Usage",
    "Dosage & Administration",
    "Dosage Forms & Strengths & Formulation",
    "Contraindications",
    "Safety & Serious Risks",
    "Adverse Events",
    "Drug Interactions",
    "Use in Specific Populations",
    "Pharmacokinetics",
]
TOPICS: tuple[Topic, ...] = get_args(Topic)

(INDICATIONS, DOSAGE, FORMS, CONTRAINDICATIONS, SAFETY, ADVERSE, INTERACTIONS, POPULATIONS, PHARMACOKINETICS) = TOPICS

_ROWS = [line.split("\t") for line in files(__package__).joinpath("sections.tsv").read_text("utf-8").splitlines()[1:]]

SECTION_NAMES: dict[str, str] = {code: name for code, _, name in _ROWS}
"""LOINC code → name, in the order in which a label prints its sections, old format and new together.

These are the codes of human prescription labels. 42229-5 ("unclassified") and 48780-1 (the product's listing data)
are left out: neither says what a section is about.
"""

INDICATIONS_SECTION = "34067-9"
"""Indications and usage."""
DOSAGE_SECTION = "34068-7"
"""Dosage and administration."""
PATIENT_SECTIONS = frozenset(("42230-3", "42231-1", "68498-5", "59845-8", "51945-4"))
"""What patients read: package insert, medication guide, medication information, instructions for use, package label."""

_TOPIC_OF: dict[str, Topic] = {code: topic for code, name, _ in _ROWS for topic in TOPICS if topic == name}


def topic_of(core_code: str) -> Topic | Literal[""]:
    """Return the topic of a section by its LOINC code, "" for a code without a topic."""
    return _TOPIC_OF.get(core_code, "")
