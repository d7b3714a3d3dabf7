"""Small SPL documents for the tests of the parser."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.labels import parse_document
from fdarx_core.records import Label, Passage

FILLER = "Words enough to keep this paragraph from being joined with what stands before it or after it in the text."
HEAD = '<?xml version="1.0" encoding="UTF-8"?><?xml-stylesheet href="spl.xsl" type="text/xsl"?>'
NDC = "2.16.840.1.113883.6.69"
UNII = "2.16.840.1.113883.4.9"
SET_ID = "0a1b2c3d-0000-4000-8000-000000000001"
FIELDS = (
    '<code code="34391-3" codeSystem="2.16.840.1.113883.6.1" displayName="HUMAN PRESCRIPTION DRUG LABEL"/>'
    '<title>Invented tablets</title><effectiveTime value="20240131"/>'
    f'<setId root="{SET_ID}"/><versionNumber value="7"/>'
)


def document(body: str = "", fields: str = FIELDS, subject: str = "", head: str = HEAD) -> str:
    """A whole document; `body` is what stands in its structuredBody, `subject` one product section's content."""
    if subject:
        body = f"<component><section><code code='48780-1'/>{subject}</section></component>{body}"
    return (
        f'{head}<document xmlns="urn:hl7-org:v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">{fields}'
        f"<component><structuredBody>{body}</structuredBody></component></document>"
    )


def substance(name: str, unii: str, moiety: str, moiety_unii: str, kind: str = "ACTIB") -> str:
    return (
        f'<ingredient classCode="{kind}"><ingredientSubstance><code code="{unii}" codeSystem="{UNII}"/>'
        f'<name>{name}</name><activeMoiety><activeMoiety><code code="{moiety_unii}" codeSystem="{UNII}"/>'
        f"<name>{moiety}</name></activeMoiety></activeMoiety></ingredientSubstance></ingredient>"
    )


def product(name: str, generic: str, ndc: str, ingredients: str, tag: str = "manufacturedProduct") -> str:
    return (
        f'<{tag}><code code="{ndc}" codeSystem="{NDC}"/><name>{name}</name><formCode displayName="TABLET"/>'
        f"<asEntityAsGeneric><genericMedicine><name>{generic}</name></genericMedicine></asEntityAsGeneric>"
        f"{ingredients}</{tag}>"
    )


def subject(*products: str, rest: str = "") -> str:
    inner = "".join(f"<manufacturedProduct>{one}{rest}</manufacturedProduct>" for one in products)
    return f"<subject>{inner}</subject>"


def section(text: str = "", title: str = "", code: str = "34067-9", inner: str = "") -> str:
    """A section in its component; `text` is the content of its `<text>`, which is left out where empty."""
    coded = f'<code code="{code}" codeSystem="2.16.840.1.113883.6.1"/>' if code else ""
    titled = f"<title>{title}</title>" if title else ""
    texted = f"<text>{text}</text>" if text else ""
    return f"<component><section>{coded}{titled}{texted}{inner}</section></component>"


def read(xml: str) -> tuple[Label, list[Passage]]:
    """The document parsed."""
    return parse_document(xml.encode())


def passages_of(text: str) -> list[str]:
    """The passages of one section with this `<text>`."""
    return [passage.text for passage in read(document(section(text)))[1]]


def lines_of(text: str) -> list[str]:
    """The lines of all passages of one section with this `<text>`."""
    return [line for passage in passages_of(text) for line in passage.split("\n")]


def table(rows: Sequence[str], head: Sequence[str] = (), foot: Sequence[str] = (), caption: str = "") -> str:
    """A table out of rows that are written as cells already."""

    def part(name: str, content: Sequence[str]) -> str:
        return f"<{name}>{''.join(f'<tr>{row}</tr>' for row in content)}</{name}>" if content else ""

    captioned = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{captioned}{part('thead', head)}{part('tfoot', foot)}{part('tbody', rows)}</table>"


def cells(*texts: str, tag: str = "td") -> str:
    """One row's cells."""
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)
