"""A parsed drug label, and its passages."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Section:
    """One section of the body of a label, in document order.

    `code` is its LOINC code, "" if the file has none; `core_code` is the code of the nearest section, itself or above,
    that is not 42229-5 "unclassified"; `number` is the printed number ("5.2") and `title` the printed title without it;
    `path` has the titles from the top to this section, joined by " > "; `depth` is 0 for a top section.
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

    `code` and `heading` are those of the full section that the statement summarizes; `topic` is the text before its
    colon ("Lactic acidosis"), if there is one; `references` are the section numbers that it cites, "(2.1, 5.3)".
    """

    code: str
    heading: str
    topic: str
    text: str
    references: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Product:
    """One product of a label, or one part of a kit; a kit itself has the active ingredients of its parts.

    `names` are its brand and generic names. The other lists are aligned: an active substance, a moiety of it, and the
    UNII of each; a substance has an entry for each of its moieties. What the file does not give is "".
    """

    names: list[str] = field(default_factory=list)
    substances: list[str] = field(default_factory=list)
    substance_uniis: list[str] = field(default_factory=list)
    moieties: list[str] = field(default_factory=list)
    moiety_uniis: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Label:
    """One version of one SPL document: its metadata, outline and Highlights.

    `aliases` are all names that the label may use for the drug, `drug_name` first: brand and generic names, active
    substances and moieties, also those of the parts of kits. `uniis` are the codes of the active substances and
    moieties. `effective_date` is ISO 8601, "" if the value in the file is no date. `boxed_warning` is its text, "" if
    there is none. `source` names the file, and the members within archives. `products` are all products and kit parts.
    `drug` names the set of its active moieties, by their UNIIs (names where the file has none), sorted and joined by
    "+": labels that have the same `drug` are of one drug.
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
    products: list[Product] = field(default_factory=list)
    drug: str = ""


@dataclass(slots=True)
class Passage:
    """A citable piece of the body of a label, within one section.

    `doc_chunk_index` counts from 0 within the label, `section_chunk_index` within the section. The section fields are
    those of `Section`. `table_header` is for a passage that begins within a table: the caption and the headings of the
    table that apply to its first line, one a line. Highlights are not passages, because they summarize the passages.
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
    table_header: str = ""

    @property
    def marker(self) -> str:
        """The name of the passage in prompts and citations, `PASSAGE_0012`. Source: FDARxBench §B.6."""
        return f"PASSAGE_{self.doc_chunk_index:04d}"
