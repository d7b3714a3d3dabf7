"""The nine label topics of FDARxBench §B.4 and the section codes that belong to each."""

from __future__ import annotations

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

(
    INDICATIONS,
    DOSAGE,
    FORMS,
    CONTRAINDICATIONS,
    SAFETY,
    ADVERSE,
    INTERACTIONS,
    POPULATIONS,
    PHARMACOKINETICS,
) = TOPICS

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
    """The topic of a section by its LOINC code; "" for codes that belong to none."""
    return _TOPIC.get(core_code, "")
