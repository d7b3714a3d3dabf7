"""An SPL document to a Label and its Passages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fdarx_core.labels.blocks import blocks
from fdarx_core.labels.header import Header, read_header
from fdarx_core.labels.highlights import read_highlights
from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.marks import Notes, rewrite_marks
from fdarx_core.labels.passages import compose
from fdarx_core.labels.products import read_products
from fdarx_core.labels.xml import NS, Element, parse_xml
from fdarx_core.records import Highlight, Label, Passage, Section

UNCLASSIFIED = "42229-5"
BOXED_WARNING = "34066-1"
_SECTION, _COMPONENT, _BODY = NS + "section", NS + "component", NS + "structuredBody"
_TITLE, _CODE, _TEXT, _EXCERPT = NS + "title", NS + "code", NS + "text", NS + "excerpt"
_CONTENTS = frozenset((_TEXT, _EXCERPT, _COMPONENT))
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2})*)\.?(?:\s+|(?=[A-Z]))")


def parse_label(data: bytes, source: str = "") -> tuple[Label, list[Passage]]:
    """Read one SPL XML document.

    Args:
        data: the file's bytes, in any encoding that it declares truly.
        source: the name to remember it by, in the Label and in errors' accounts.

    Returns:
        The label, and the passages of its body in document order.

    Raises:
        BadDocument: the document is refused (see `parse_xml`), or no_set_id.
    """
    root = parse_xml(data)
    header = read_header(root)
    products = read_products(root)
    body = _Body(header.set_id, rewrite_marks(root))
    for structured in root.iterfind(f"{_COMPONENT}/{_BODY}"):
        for component in structured:
            body.read_component(component, "", "", 0)
    label = Label(
        set_id=header.set_id,
        version=header.version,
        effective_date=header.effective_date,
        document_type=header.document_type,
        document_type_name=header.document_type_name,
        title=header.title,
        drug_name=_drug_name(products.aliases, header),
        aliases=products.aliases,
        substances=list(dict.fromkeys([*products.substances, *products.moieties])),
        uniis=products.uniis,
        routes=products.routes,
        dosage_forms=products.forms,
        labeler=header.labeler,
        ndcs=products.ndcs,
        marketing_categories=products.categories,
        application_numbers=products.applications,
        boxed_warning="\n".join(p.text for p in body.passages if p.core_code == BOXED_WARNING),
        sections=body.sections,
        highlights=body.highlights,
        source=source,
    )
    return label, body.passages


def _drug_name(aliases: list[str], header: Header) -> str:
    return aliases[0] if aliases else header.title


@dataclass(slots=True)
class _Body:
    """Collects sections, Highlights and passages while the section tree is walked once."""

    set_id: str
    notes: Notes
    sections: list[Section] = field(default_factory=list)
    highlights: list[Highlight] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)

    def read_component(self, component: Element, core_code: str, path: str, depth: int) -> None:
        for section in component:
            if section.tag == _SECTION:
                self._read_section(section, core_code, path, depth)

    def _read_section(self, element: Element, core_code: str, path: str, depth: int) -> None:
        code = title = ""
        parts: list[tuple[str, Element]] = []
        for child in element:
            tag = child.tag
            if tag == _CODE:
                code = child.get("code") or ""
            elif tag == _TITLE:
                title = clean(raw_text(child))
            elif tag in _CONTENTS:
                parts.append((tag, child))
        if code and code != UNCLASSIFIED:
            core_code = code
        number, title = _split_number(title)
        path = f"{path} > {title}" if path and title else path or title
        section = Section(code, core_code, number, title, path, depth)
        self.sections.append(section)
        for tag, part in parts:
            if tag == _TEXT:
                self._read_text(part, section)
            elif tag == _COMPONENT:
                self.read_component(part, core_code, path, depth + 1)
            else:
                self.highlights.extend(read_highlights(part, self.notes, core_code, title))

    def _read_text(self, text: Element, section: Section) -> None:
        passages = self.passages
        for position, passage in enumerate(compose(blocks(text, self.notes))):
            passages.append(
                Passage(
                    self.set_id,
                    len(passages),
                    position,
                    section.code,
                    section.core_code,
                    section.number,
                    section.title,
                    section.path,
                    passage,
                )
            )


def _split_number(title: str) -> tuple[str, str]:
    """A printed section number and the title after it; a title that merely begins with a figure keeps it."""
    match = _NUMBERED.match(title) if title[:1].isdigit() else None
    if match is None or match.end() == len(title):
        return "", title
    return match.group(1), title[match.end() :]
