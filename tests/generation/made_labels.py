"""Labels of invented drugs, made of a few sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.generation.label_reader import TopicAnswer
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topics import LabelTopics, find_topics
from fdarx_core.records import Highlight, Label, Passage, Section

INDICATIONS, DOSAGE, FORMS, CONTRAINDICATIONS = "34067-9", "34068-7", "43678-2", "34070-3"
WARNINGS, REACTIONS, INTERACTIONS, POPULATIONS = "43685-7", "34084-4", "34073-7", "43684-0"
DESCRIPTION, PHARMACOLOGY, KINETICS, SUPPLY = "34089-3", "34090-1", "43682-4", "34069-5"
BOXED, OVERDOSAGE, MECHANISM = "34066-1", "34088-5", "43679-0"

TITLES = {
    INDICATIONS: "INDICATIONS AND USAGE",
    DOSAGE: "DOSAGE AND ADMINISTRATION",
    FORMS: "DOSAGE FORMS AND STRENGTHS",
    CONTRAINDICATIONS: "CONTRAINDICATIONS",
    WARNINGS: "WARNINGS AND PRECAUTIONS",
    REACTIONS: "ADVERSE REACTIONS",
    INTERACTIONS: "DRUG INTERACTIONS",
    POPULATIONS: "USE IN SPECIFIC POPULATIONS",
    DESCRIPTION: "DESCRIPTION",
    PHARMACOLOGY: "CLINICAL PHARMACOLOGY",
    KINETICS: "CLINICAL PHARMACOLOGY > Pharmacokinetics",
    SUPPLY: "HOW SUPPLIED",
    BOXED: "WARNING: HEART FAILURE",
    OVERDOSAGE: "OVERDOSAGE",
    MECHANISM: "CLINICAL PHARMACOLOGY > Mechanism of Action",
}
SET_ID = "set-1"

Piece = tuple[str, str] | tuple[str, str, str]
"""The core LOINC code of a passage, the heading of its subsection where there is one, and its text."""


def made_passages(*pieces: Piece, set_id: str = SET_ID) -> list[Passage]:
    made = []
    for index, piece in enumerate(pieces):
        code, heading, text = piece if len(piece) == 3 else (piece[0], "", piece[1])
        path = f"{TITLES[code]} > {heading}" if heading else TITLES[code]
        made.append(Passage(set_id, index, 0, code, code, "", path.split(" > ")[-1], path, text))
    return made


def made_label(passages: Sequence[Passage] = (), highlights: Sequence[str] = (), **fields: Any) -> Label:
    paths = dict.fromkeys((one.section_code, one.core_code, one.section_path) for one in passages)
    sections = [Section(code, core, "", path.split(" > ")[-1], path, path.count(" > ")) for code, core, path in paths]
    known: dict[str, Any] = {
        "set_id": SET_ID,
        "drug_name": "Velorin",
        "aliases": ["Velorin", "velorinib"],
        "substances": ["velorinib mesylate"],
        "routes": ["ORAL"],
        "dosage_forms": ["TABLET"],
        "labeler": "Northfield Inc.",
        "drug": "VELORINIB",
        **fields,
    }
    return Label(
        version=1, effective_date="", document_type="", document_type_name="", title="", uniis=[], ndcs=[],
        marketing_categories=[], application_numbers=[], boxed_warning="", sections=sections,
        highlights=[Highlight(WARNINGS, TITLES[WARNINGS], "", text, []) for text in highlights], **known,
    )  # fmt: skip


def topics_of(*pieces: Piece, highlights: Sequence[str] = (), **fields: Any) -> LabelTopics:
    """What a label of these pieces answers and is silent on."""
    passages = made_passages(*pieces)
    return find_topics(made_label(passages, highlights, **fields), passages)


def answer_of(kind: str, name: str, *pieces: Piece, **fields: Any) -> TopicAnswer | None:
    return topics_of(*pieces, **fields).answers.get(Topic(kind, name))


def is_silent_on(kind: str, name: str, *pieces: Piece, **fields: Any) -> bool:
    return Topic(kind, name) in topics_of(*pieces, **fields).silent


def is_near_miss(kind: str, name: str, *pieces: Piece, **fields: Any) -> bool:
    return Topic(kind, name) in topics_of(*pieces, **fields).near
