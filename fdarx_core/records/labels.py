"""A drug label as it is read, and the passages it is cut into."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Section:
    """One section of a label's body, in document order.

    `code` is its LOINC code ("" when the file gives none); `core_code` that of the nearest section, itself or above,
    whose code is not 42229-5 "unclassified"; `number` the printed number ("5.2") and `title` the printed title without
    it; `path` the titles from the top down to this one, joined by " > "; `depth` is 0 for a top section.
    """

    code: str
    core_code: str
    number: str
    title: str
    path: str
    depth: int


@dataclass(slots=True)
class Highlight:
    """One statement of the Highlights of Prescribing Information.

    `code` and `heading` are those of the full section that the statement summarises; `topic` is the lead-in before
    its colon ("Lactic acidosis"), if it has one; `references` are the section numbers it cites, "(2.1, 5.3)".
    """

    code: str
    heading: str
    topic: str
    text: str
    references: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Label:
    """One version of one SPL document: what the label says of itself, its outline and its Highlights.

    `aliases` are all names the label may use for the drug, `drug_name` first: brand and generic names, active
    substances and moieties, parts of kits included. `uniis` are the active substances' and moieties' codes.
    `effective_date` is ISO 8601, "" where the file's value is no date. `boxed_warning` is its text, "" without one.
    `source` names the file, and within archives the members, that it came from.
    """

    set_id: str
    version: int
    effective_date: str
    document_type: str
    document_type_name: str
    title: str
    drug_name: str
    aliases: list[str]
    substances: list[str]
    uniis: list[str]
    routes: list[str]
    dosage_forms: list[str]
    labeler: str
    ndcs: list[str]
    marketing_categories: list[str]
    application_numbers: list[str]
    boxed_warning: str
    sections: list[Section]
    highlights: list[Highlight]
    source: str = ""


@dataclass(slots=True)
class Passage:
    """A citable piece of a label's body, never crossing a section.

    `doc_chunk_index` counts from 0 through the label, `section_chunk_index` through the section. The section fields
    are those of `Section`. Highlights are no passages: they summarise what the passages say.
    """

    set_id: str
    doc_chunk_index: int
    section_chunk_index: int
    section_code: str
    core_code: str
    section_number: str
    section_title: str
    section_path: str
    text: str

    @property
    def marker(self) -> str:
        """The passage's name in prompts and citations, `PASSAGE_0012`. Source: FDARxBench §B.6."""
        return f"PASSAGE_{self.doc_chunk_index:04d}"
