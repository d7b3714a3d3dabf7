"""LOINC codes of label sections: their names, and the nine label topics of FDARxBench §B.4."""

from __future__ import annotations

from typing import Literal, get_args

SECTION_NAMES: dict[str, str] = {
    "34066-1": "Boxed warning",
    "43683-2": "Recent major changes",
    "34067-9": "Indications and usage",
    "34068-7": "Dosage and administration",
    "43678-2": "Dosage forms and strengths",
    "34070-3": "Contraindications",
    "43685-7": "Warnings and precautions",
    "34071-1": "Warnings",
    "42232-9": "Precautions",
    "34072-9": "General precautions",
    "34075-2": "Laboratory tests",
    "34084-4": "Adverse reactions",
    "90374-0": "Clinical trials experience",
    "90375-7": "Postmarketing experience",
    "34073-7": "Drug interactions",
    "34074-5": "Drug and laboratory test interactions",
    "43684-0": "Use in specific populations",
    "42228-7": "Pregnancy",
    "34077-8": "Teratogenic effects",
    "34078-6": "Nonteratogenic effects",
    "34079-4": "Labor and delivery",
    "34080-2": "Nursing mothers",
    "77290-5": "Lactation",
    "77291-3": "Females and males of reproductive potential",
    "34081-0": "Pediatric use",
    "34082-8": "Geriatric use",
    "88828-9": "Renal impairment",
    "88829-7": "Hepatic impairment",
    "42227-9": "Drug abuse and dependence",
    "34085-1": "Controlled substance",
    "34086-9": "Abuse",
    "34087-7": "Dependence",
    "34088-5": "Overdosage",
    "34089-3": "Description",
    "51727-6": "Inactive ingredients",
    "34090-1": "Clinical pharmacology",
    "43679-0": "Mechanism of action",
    "43681-6": "Pharmacodynamics",
    "43682-4": "Pharmacokinetics",
    "49489-8": "Microbiology",
    "66106-6": "Pharmacogenomics",
    "88830-5": "Immunogenicity",
    "43680-8": "Nonclinical toxicology",
    "34083-6": "Carcinogenesis, mutagenesis, impairment of fertility",
    "34091-9": "Animal pharmacology or toxicology",
    "34092-7": "Clinical studies",
    "34093-5": "References",
    "34069-5": "How supplied",
    "44425-7": "Storage and handling",
    "34076-0": "Patient counseling information",
    "88436-1": "Patient counseling information (subsection)",
    "42230-3": "Patient package insert",
    "42231-1": "Medication guide",
    "68498-5": "Patient medication information",
    "59845-8": "Instructions for use",
    "51945-4": "Package label",
}
"""LOINC code → name, in the order in which a label prints its sections, old format and new together.

These are the codes of human prescription labels. 42229-5 ("unclassified") and 48780-1 (the product's listing data)
are left out: neither says what a section is about.
"""


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

_CODES: dict[Topic, tuple[str, ...]] = {
    INDICATIONS: ("34067-9", "34092-7"),
    DOSAGE: ("34068-7", "34088-5", "59845-8"),
    FORMS: ("43678-2", "34069-5", "44425-7", "34089-3", "51727-6", "51945-4"),
    CONTRAINDICATIONS: ("34070-3",),
    SAFETY: (
        *("34066-1", "43685-7", "34071-1", "42232-9", "34072-9", "34075-2", "42227-9", "34085-1", "34086-9", "34087-7"),
        *("34076-0", "88436-1", "42230-3", "42231-1", "68498-5", "43680-8", "34083-6", "34091-9", "34077-8", "34078-6"),
    ),
    ADVERSE: ("34084-4", "90374-0", "90375-7"),
    INTERACTIONS: ("34073-7", "34074-5"),
    POPULATIONS: (
        *("43684-0", "42228-7", "34079-4", "34080-2", "77290-5", "77291-3", "34081-0", "34082-8", "88828-9", "88829-7"),
    ),
    PHARMACOKINETICS: ("34090-1", "43679-0", "43681-6", "43682-4", "49489-8", "66106-6", "88830-5"),
}
_TOPIC: dict[str, Topic] = {code: topic for topic, codes in _CODES.items() for code in codes}


def topic_of(core_code: str) -> Topic | Literal[""]:
    """Return the topic of a section by its LOINC code, "" for a code without a topic."""
    return _TOPIC.get(core_code, "")
