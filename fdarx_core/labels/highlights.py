"""The Highlights of Prescribing Information: short statements, each with its heading and its references."""

from __future__ import annotations

import re

from fdarx_core.labels.blocks import blocks
from fdarx_core.labels.marks import Notes
from fdarx_core.labels.xml import NS, Element
from fdarx_core.records import Highlight

_TEXT = NS + "text"
_SECTION_NUMBER = r"\d{1,2}(?:\.\d{1,2})*"
_REFERENCE = re.compile(rf"[(\[](?:see\s+)?({_SECTION_NUMBER}(?:\s*(?:,|and|-|–|;)\s*{_SECTION_NUMBER})*)\s*[)\]]")
_NUMBER = re.compile(_SECTION_NUMBER)
_TOPIC = re.compile(r"^(?!WARNING)([A-Z](?:[^:.()]|\([^\d()][^()]*\)){1,90}?)(?:\s*[(\[][\d.,\s]+[)\]])?\s*:\s+(?=\S)")


def read_highlights(excerpt: Element, notes: Notes, code: str, heading: str) -> list[Highlight]:
    """The statements of one section's Highlights: one for each outermost list item, table row or paragraph.

    Nested items stay with the item above them.
    """
    statements: list[str] = []
    for text in excerpt.iter(_TEXT):
        for line, _, _ in blocks(text, notes):
            if line.startswith("  ") and statements:
                statements[-1] += "\n" + line.lstrip()
            else:
                statements.append(line.removeprefix("- "))
    return [_statement(line, code, heading) for line in statements]


def _statement(text: str, code: str, heading: str) -> Highlight:
    topic = _TOPIC.match(text) if ":" in text else None
    references = [number for group in _REFERENCE.findall(text) for number in _NUMBER.findall(group)]
    return Highlight(code, heading, topic.group(1).strip() if topic else "", text, list(dict.fromkeys(references)))
