"""Who a document is, read without its body: what selection needs to know of every label before it parses one."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from fdarx_core.labels.header import read_header
from fdarx_core.labels.inline import clean
from fdarx_core.labels.sources import Source
from fdarx_core.labels.xml import NS, parse_xml


@dataclass(slots=True)
class Identity:
    """A document's identity and address. `sha256` is of its bytes; the other fields are those of `Label`."""

    set_id: str
    version: int
    effective_date: str
    document_type: str
    document_type_name: str
    routes: list[str]
    sha256: str
    source: Source


def identify(data: bytes, source: Source) -> Identity:
    """Identity of one SPL document. The whole of it is parsed, so that a damaged one shows before anything is asked.

    Raises:
        BadDocument: as `parse_label`.
    """
    root = parse_xml(data)
    header = read_header(root)
    routes = (clean(route.get("displayName") or "") for route in root.iter(NS + "routeCode"))
    return Identity(
        set_id=header.set_id,
        version=header.version,
        effective_date=header.effective_date,
        document_type=header.document_type,
        document_type_name=header.document_type_name,
        routes=list(dict.fromkeys(filter(None, routes))),
        sha256=sha256(data).hexdigest(),
        source=source,
    )
