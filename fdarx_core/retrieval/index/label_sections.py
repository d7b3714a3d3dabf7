"""Looking up one section of one label of an index, by exact names: no search, and no ranking."""

from __future__ import annotations

from dataclasses import dataclass, field

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Chunk, uploader_of
from fdarx_core.retrieval.index.chunk_table import ChunkFilter, ChunkTable
from fdarx_core.retrieval.index.label_drugs import normalize_name

_CODES = {normalize_name(name): code for code, name in SECTION_NAMES.items()}


@dataclass(slots=True)
class LabelSection:
    """The section of a label that was looked up, and what there is where it was not found.

    Attributes:
        chunks: the passages of the section and its subsections, in order; empty where there is none.
        labels: how many labels of the drug the index has; 1 for a set id, 0 where the drug or set id is unknown.
        sections: where no label has the section, the headings of the newest label's sections, in order.
    """

    chunks: list[Chunk] = field(default_factory=list)
    labels: int = 0
    sections: list[str] = field(default_factory=list)


def find_section(table: ChunkTable, label: str, section: str) -> LabelSection:
    """Return a section of a label, with its subsections.

    Args:
        table: the chunks of an index.
        label: the set id of a label, or a name of a drug: that of one brand, or any other, which means all labels of
            the drug. Of several labels, the newest that has the section is taken. An uploaded label is taken for its
            set id, and for the name of a drug that no other label is of.
        section: the LOINC code ("34070-3"), number ("5.1") or title ("Contraindications") of the section. A title is
            compared as a whole, without regard to case.
    """
    if label in table.labels:
        set_ids = [label]
    else:
        drugs = table.label_drugs.named(label) or table.uploads_named(label)
        named = table.set_ids_of(drugs[0].own) if len(drugs) == 1 else table.set_ids(ChunkFilter(drug=label))
        named = [set_id for set_id in named if not uploader_of(set_id)] or named
        versions = {set_id: table.labels.get(set_id) for set_id in named}
        dates = {set_id: (version.effective_date, version.version) for set_id, version in versions.items() if version}
        set_ids = sorted(named, key=lambda set_id: dates.get(set_id, ("", 0)), reverse=True)
    outline: list[str] = []
    for set_id in set_ids:
        chunks = table.label_chunks(set_id)
        found = [chunk for chunk in chunks if _is_in(chunk, section)]
        if found:
            return LabelSection(found, len(set_ids))
        outline = outline or list(
            dict.fromkeys(
                chunk.section.split(" > ")[0] or SECTION_NAMES.get(chunk.section_code, "untitled") for chunk in chunks
            )
        )
    return LabelSection([], len(set_ids), outline)


def _is_in(chunk: Chunk, section: str) -> bool:
    """Return whether a chunk is in the section with a code, number or title, or in a subsection of it."""
    wanted = normalize_name(section)
    if chunk.section_code and chunk.section_code in (section.strip(), _CODES.get(wanted)):
        return True
    if wanted and f"{chunk.section_number}.".startswith(f"{wanted.rstrip('.')}."):
        return True
    titles = {wanted, normalize_name(SECTION_NAMES.get(section.strip(), section))}
    return bool(wanted) and any(normalize_name(part) in titles for part in chunk.section.split(" > "))
