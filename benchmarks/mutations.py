"""Ways in which a label's file goes wrong, at random: bytes, tags, attributes, whole elements, archives."""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Callable

from lxml import etree

_TAG = re.compile(rb"<[^<>]{1,200}>")
_ATTRIBUTE = re.compile(rb'[A-Za-z]+="[^"<>]{0,80}"')
_ODD_VALUES = (b"", b"-1", b"0", b"99999999999", b"NaN", b"2.5", b"&", b"\xff", b"34066-1", b"urn:hl7-org:v3")
_TAGS: tuple[str, ...] = (
    "text",
    "section",
    "paragraph",
    "table",
    "thead",
    "tr",
    "td",
    "list",
    "item",
    "sup",
    "footnote",
    "caption",
)
_TAGS += ("title", "component", "structuredBody", "excerpt", "highlight", "content", "subject", "name", "document")


def flip_bytes(data: bytes, dice: random.Random) -> bytes:
    """Up to 100 bytes replaced."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 100)):
        out[dice.randrange(len(out))] = dice.randrange(256)
    return bytes(out)


def flip_text(data: bytes, dice: random.Random) -> bytes:
    """Figures replaced by others, so that most files stay XML."""
    out = bytearray(data)
    for place in (dice.randrange(len(out)) for _ in range(dice.randint(1, 2000))):
        if chr(out[place]).isdigit():
            out[place] = dice.choice(b"0123456789")
    return bytes(out)


def drop_tags(data: bytes, dice: random.Random) -> bytes:
    """One to three tags gone."""
    return _edit(_TAG, data, dice, lambda tag: b"")


def double_tags(data: bytes, dice: random.Random) -> bytes:
    """One to three tags twice."""
    return _edit(_TAG, data, dice, lambda tag: tag + tag)


def break_attributes(data: bytes, dice: random.Random) -> bytes:
    """One to three attributes without a quote, or with a value that makes no sense."""
    return _edit(
        _ATTRIBUTE,
        data,
        dice,
        lambda text: text[:-1] if dice.random() < 0.2 else text.split(b'"')[0] + b'"' + dice.choice(_ODD_VALUES) + b'"',
    )


def truncate(data: bytes, dice: random.Random) -> bytes:
    """The end missing."""
    return data[: dice.randrange(len(data))]


def repeat_chunk(data: bytes, dice: random.Random) -> bytes:
    """A stretch of up to 5,000 bytes written up to 50 times."""
    start = dice.randrange(len(data))
    chunk = data[start : start + dice.randint(1, 5000)]
    return data[:start] + chunk * dice.randint(2, 50) + data[start + len(chunk) :]


def recode(data: bytes, dice: random.Random) -> bytes:
    """Another encoding, with or without a declaration that says so."""
    encoding = dice.choice(("utf-16", "utf-16-be", "utf-32", "latin-1", "utf-8-sig"))
    text = data.decode("utf-8", "replace")
    if dice.random() < 0.5:
        text = re.sub(r'encoding="[^"]*"', f'encoding="{encoding}"', text, count=1)
    return text.encode(encoding, "replace")


def edit_elements(data: bytes, dice: random.Random) -> bytes:
    """A document that is still XML: elements dropped, doubled, renamed, nested, moved, blanked."""
    root = etree.fromstring(data)
    elements = list(root.iter("{*}*"))
    for _ in range(dice.randint(1, 12)):
        _edit_element(dice.choice(elements), dice.choice(elements), dice)
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))


def damage_archive(data: bytes, dice: random.Random) -> bytes:
    """A zip that holds the file, with up to 20 of its bytes replaced."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("label.xml", data)
    out = bytearray(buffer.getvalue())
    for _ in range(dice.randint(1, 20)):
        out[dice.randrange(len(out))] = dice.randrange(256)
    return bytes(out)


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bytes,
    flip_text,
    drop_tags,
    double_tags,
    break_attributes,
    truncate,
    repeat_chunk,
    recode,
    edit_elements,
    edit_elements,
    edit_elements,
    damage_archive,
)


def _edit(pattern: re.Pattern[bytes], data: bytes, dice: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    for _ in range(dice.randint(1, 3)):
        if found := pattern.search(data, dice.randrange(len(data))):
            data = data[: found.start()] + change(found.group()) + data[found.end() :]
    return data


def _edit_element(element: etree._Element, other: etree._Element, dice: random.Random) -> None:
    parent = element.getparent()
    kind = dice.randrange(6)
    if kind == 0 and parent is not None:
        parent.remove(element)
    elif kind == 1 and parent is not None and len(etree.tostring(element)) < 50_000:
        parent.append(etree.fromstring(etree.tostring(element, with_tail=False)))
    elif kind == 2:
        element.tag = "{urn:hl7-org:v3}" + dice.choice(_TAGS)
    elif kind == 3:
        for _ in range(dice.randint(1, 240)):
            element = etree.SubElement(element, "{urn:hl7-org:v3}" + dice.choice(_TAGS))
            element.text = "deep"
    elif kind == 4:
        element.attrib.clear()
        element.text = dice.choice(("", "\ufeff", "\u00a0", "|", "10", "[1]", "\r", "x" * 10_000, "a " * 3000))
    elif other is not element and element not in other.iterancestors():
        other.append(element)
