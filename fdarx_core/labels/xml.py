"""Bytes to an XML tree, refusing what must not be trusted: entities, other document types, unbounded depth."""

from __future__ import annotations

from typing import TypeAlias

from lxml import etree

Element: TypeAlias = etree._Element

NAMESPACE = "urn:hl7-org:v3"
NS = f"{{{NAMESPACE}}}"

_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, collect_ids=False)
LINE_BREAK = "\r"  # what a parser never leaves in text, unless it was written as a reference


class BadDocument(Exception):
    """A document that cannot become a label: `reason` is a fixed name to count by, `detail` says what was found."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def parse_xml(data: bytes) -> Element:
    """The root element of an SPL document.

    No entity is resolved and no file or address is opened; libxml2's limits on depth (256) and on the growth of
    entities stay on.

    Raises:
        BadDocument: empty_file, not_xml, doctype_refused, not_well_formed, wrong_encoding or wrong_root.
    """
    if not data.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
        raise BadDocument("empty_file", "the file holds no characters")
    if _declares_doctype(data):
        raise BadDocument("doctype_refused", "the file declares a document type; SPL files have none")
    root = _parse(data)
    if root.getroottree().docinfo.internalDTD is not None:
        raise BadDocument("doctype_refused", "the file declares a document type; SPL files have none")
    if root.tag != NS + "document":
        raise BadDocument("wrong_root", f"the root element is <{root.tag}>, not an SPL <document> in {NAMESPACE}")
    return root


def _declares_doctype(data: bytes) -> bool:
    if b"\0" in data[:4]:  # UTF-16, whichever way round
        data = data.replace(b"\0", b"")
    return data.find(b"<!DOCTYPE", 0, data.find(b"<document")) >= 0


def _mark_line_breaks(data: bytes) -> bytes:
    """Line breaks as characters before the parser makes elements of them: there are more than of anything but text."""
    declaration = data[:100].lower()
    if b'encoding="utf-8"' not in declaration:
        return data
    return data.replace(b"<br/>", b"&#13;")


def _parse(data: bytes) -> Element:
    try:
        return etree.fromstring(_mark_line_breaks(data), _PARSER)
    except etree.XMLSyntaxError as error:
        raise BadDocument(_syntax_reason(data, error), str(error)) from None
    except (LookupError, ValueError) as error:
        raise BadDocument("wrong_encoding", str(error)) from None


def _syntax_reason(data: bytes, error: etree.XMLSyntaxError) -> str:
    text = str(error).lower()
    if "encoding" in text or "not proper utf-8" in text or "invalid bytes" in text:
        return "wrong_encoding"
    if "depth" in text:
        return "nested_too_deep"
    looks_like_xml = data.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")[:1] == b"<"
    return "not_well_formed" if looks_like_xml else "not_xml"
