"""SPL XML as a tree, and the text of its elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import TypeAlias

from lxml import etree

from fdarx_core.storage.errors import InputError

Element: TypeAlias = etree._Element

NAMESPACE = "urn:hl7-org:v3"
TEXT, TITLE, CODE, CONTENT, CAPTION = "text", "title", "code", "content", "caption"
PARAGRAPH, LIST, ITEM, TABLE = "paragraph", "list", "item", "table"

_BR = "br"
LINE_BREAK = "\r"
"""Stands for `<br/>` in text. A parser leaves this character in text only where the file has a reference to it."""

children: Callable[[Element], list[Element]] = itemgetter(slice(None))
"""The child nodes of an element. A slice takes half the time of an iteration."""

_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, collect_ids=False)
_IN_NAMESPACE = f"{{{NAMESPACE}}}*"
_BLANK = b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"
_DECLARATION = b' xmlns="urn:hl7-org:v3"'
_ENCODING = re.compile(
    rb"""<\?xml[^>]*encoding=["']((?:utf-?|ucs-?|iso-10646-ucs-)(?:16|32|2|4)[a-z]*)""", re.IGNORECASE
)
"""The declaration of an encoding in which each character has at least two bytes."""
_REMEDIES = {
    "wrong_encoding": "; save it as UTF-8, or declare its encoding in its first line",
    "not_well_formed": "; correct it there, or download the file again",
    "not_xml": "; labels are XML files in SPL",
}
_NO_DOCTYPE = "the file declares a document type; SPL files have none"

_SYMBOL_FONT = {0xF0B7: "•", 0xF0A7: "•", 0xF0B1: "±", 0xF0B3: "≥", 0xF0A3: "≤", 0xF06D: "μ", 0xF0B0: "°", 0xF0B4: "×"}
_WINDOWS_1252 = {code: bytes([code]).decode("windows-1252", "ignore") for code in range(0x80, 0xA0)}
"""What authors mean by control characters of Latin-1: `&#150;` is a dash."""
_INVISIBLE = [0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF, 0xFFFC]
_PRIVATE_USE = range(0xE000, 0xF900)  # no meaning outside its font
_CHARACTERS: dict[int, str | None] = {
    **dict.fromkeys(_PRIVATE_USE), **_SYMBOL_FONT, **_WINDOWS_1252, **dict.fromkeys(_INVISIBLE)
}  # fmt: skip


class BadDocument(InputError):
    """A document that cannot become a label."""


def parse_xml(data: bytes, *tags: str) -> tuple[Element, list[Element]]:
    """Return the root element of an SPL document, and its elements with one of the tags in document order.

    `LINE_BREAK` replaces each `<br/>` or, where that is written otherwise, follows it. Elements of SPL's namespace have
    their local names as tags, which takes a thirtieth off the time of the parser.

    No entity is resolved and no file or address is opened. libxml2's limits on depth (256) and on the growth of
    entities apply.

    Raises:
        BadDocument: empty_file, not_xml, doctype_refused, not_well_formed, nested_too_deep, wrong_encoding or
            wrong_root.
    """
    if not data[:4096].strip(_BLANK) and not data.strip(_BLANK):
        raise BadDocument("empty_file", "the file holds no characters")
    if _declares_doctype(data):
        raise BadDocument("doctype_refused", _NO_DOCTYPE)
    start = data.find(b"<document")
    declared = data.find(_DECLARATION, start, data.find(b">", start)) >= 0
    plain = data.replace(_DECLARATION, b"", 1) if declared else data
    if b'encoding="utf-8"' in plain[:100].lower() and b"<![CDATA[" not in plain:  # there, a reference would be text
        plain = plain.replace(b"<br/>", b"&#13;")  # most line breaks: fewer elements to build and to visit
    try:
        root = etree.fromstring(plain, _PARSER)
    except etree.XMLSyntaxError as error:
        if (declared_as := _ENCODING.search(data, 0, 200)) and b"\0" not in data[:200]:
            name = declared_as[1].decode().upper()
            raise BadDocument("wrong_encoding", f"the file declares {name}, and its bytes are UTF-8 or ASCII") from None
        reason = _syntax_reason(data, error)
        cut = reason == "not_well_formed" and start >= 0 and b"</document>" not in data
        remedy = "; the file seems cut off: download it again" if cut else _REMEDIES.get(reason, "")
        raise BadDocument(reason, f"{error.msg}{remedy}") from None
    except (LookupError, ValueError) as error:
        raise BadDocument("wrong_encoding", str(error)) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise BadDocument("doctype_refused", _NO_DOCTYPE)
    if root.tag != f"{{{NAMESPACE}}}document" and not (declared and root.tag == "document"):
        raise BadDocument("wrong_root", f"the root element is <{root.tag}>, not an SPL <document> in {NAMESPACE}")
    found = list(root.iter(*tags, _BR, _IN_NAMESPACE))  # one walk over the document instead of two
    if any(element.tag[0] == "{" for element in found):  # declared otherwise than by the root, as the default
        for element in root.iter(_IN_NAMESPACE):
            element.tag = etree.QName(element).localname
        found = list(root.iter(*tags, _BR))
    for element in (one for one in found if one.tag == _BR):
        element.tail = LINE_BREAK + (element.tail or "")
    return root, [one for one in found if one.tag != _BR]


def _declares_doctype(data: bytes) -> bool:
    if b"\0" in data[:4]:  # UTF-16 in either byte order
        data = data.replace(b"\0", b"")
    return data.find(b"<!DOCTYPE", 0, data.find(b"<document")) >= 0


def _syntax_reason(data: bytes, error: etree.XMLSyntaxError) -> str:
    text = str(error).lower()
    if "encoding" in text or "not proper utf-8" in text or "invalid bytes" in text:
        return "wrong_encoding"
    if "depth" in text:
        return "nested_too_deep"
    looks_like_xml = data.lstrip(_BLANK)[:1] == b"<"
    return "not_well_formed" if looks_like_xml else "not_xml"


def clean(text: str) -> str:
    """Return the text on one line: single spaces, no soft hyphens, no zero-width, control or private-use characters."""
    if "\x85" in text:  # white space to `split`
        text = text.replace("\x85", _WINDOWS_1252[0x85])
    text = text.strip()
    if text.isascii():
        if "\n" in text or "  " in text or "\t" in text or "\r" in text:
            return " ".join(text.split())
        return text
    if text.isprintable() and "  " not in text and "\ufffc" not in text:  # the space is the only printable white space
        return text
    text = " ".join(text.split())
    if text.isprintable() and "\ufffc" not in text:
        return text
    return " ".join(text.translate(_CHARACTERS).split())


def raw_text(element: Element) -> str:
    """Return all text under an element, as in the file but without tags."""
    if not len(element):
        return element.text or ""
    return etree.tostring(element, method="text", encoding="unicode", with_tail=False)
