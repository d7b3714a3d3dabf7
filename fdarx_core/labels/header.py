"""What a document says of itself before its body: identity, version, type, date, labeler."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.xml import NS, BadDocument, Element

_LABELER = "/".join(NS + step for step in ("author", "assignedEntity", "representedOrganization", "name"))


@dataclass(slots=True)
class Header:
    """The document's own header fields, as in `Label`."""

    set_id: str
    version: int
    effective_date: str
    document_type: str
    document_type_name: str
    title: str
    labeler: str


def read_header(root: Element) -> Header:
    """The header from the root's direct children: a relatedDocument has a set id of its own.

    Raises:
        BadDocument: no_set_id.
    """
    own = {child.tag: child for child in reversed(root)}
    set_id = _attribute(own, "setId", "root").lower()
    if not set_id:
        raise BadDocument("no_set_id", "the document has no <setId root=…>")
    title = own.get(NS + "title")
    labeler = root.find(_LABELER)
    version = _attribute(own, "versionNumber", "value")
    return Header(
        set_id=set_id,
        version=int(version) if version.isdecimal() and len(version) < 10 else 0,
        effective_date=_iso_date(_attribute(own, "effectiveTime", "value")),
        document_type=_attribute(own, "code", "code"),
        document_type_name=_attribute(own, "code", "displayName"),
        title="" if title is None else clean(raw_text(title)),
        labeler="" if labeler is None else clean(raw_text(labeler)),
    )


def _attribute(own: dict[str, Element], child: str, name: str) -> str:
    element = own.get(NS + child)
    return "" if element is None else clean(element.get(name) or "")


def _iso_date(value: str) -> str:
    day = value[:8]
    if not (day.isascii() and day.isdecimal()):
        return ""
    try:
        return date(int(day[:4]), int(day[4:6]), int(day[6:] or 0)).isoformat()
    except ValueError:
        return ""
