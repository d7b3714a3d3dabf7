"""Damaged labels, mutated at random: each is parsed, or refused with a reason."""

from __future__ import annotations

import faulthandler
import io
import os
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from fdarx_core.labels import BadDocument, find_sources, parse_document, read_source
from fdarx_core.records import Reject
from tests.conftest import EXAMPLES

_TAG = re.compile(rb"<[^<>]{1,200}>")
_ATTRIBUTE = re.compile(rb'[A-Za-z]+="[^"<>]{0,80}"')
_ODD_VALUES = (b"", b"-1", b"0", b"99999999999", b"NaN", b"2.5", b"&", b"\xff", b"34066-1", b"urn:hl7-org:v3")
_TAGS = (
    *("text", "section", "paragraph", "table", "thead", "tr", "td", "list", "item", "sup", "footnote", "caption"),
    *("title", "component", "structuredBody", "excerpt", "highlight", "content", "subject", "name", "document"),
)


def flip_bytes(data: bytes, rng: random.Random) -> bytes:
    """Replace up to 100 bytes."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 100)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def flip_text(data: bytes, rng: random.Random) -> bytes:
    """Replace digits by other digits, so that most files remain XML."""
    out = bytearray(data)
    for place in (rng.randrange(len(out)) for _ in range(rng.randint(1, 2000))):
        if chr(out[place]).isdigit():
            out[place] = rng.choice(b"0123456789")
    return bytes(out)


def drop_tags(data: bytes, rng: random.Random) -> bytes:
    """Remove one to three tags."""
    return _edit(_TAG, data, rng, lambda tag: b"")


def double_tags(data: bytes, rng: random.Random) -> bytes:
    """Repeat one to three tags."""
    return _edit(_TAG, data, rng, lambda tag: tag + tag)


def break_attributes(data: bytes, rng: random.Random) -> bytes:
    """Remove the closing quote of one to three attributes, or replace their values by invalid ones."""
    return _edit(
        _ATTRIBUTE,
        data,
        rng,
        lambda text: text[:-1] if rng.random() < 0.2 else text.split(b'"')[0] + b'"' + rng.choice(_ODD_VALUES) + b'"',
    )


def truncate(data: bytes, rng: random.Random) -> bytes:
    """Remove the end of the file."""
    return data[: rng.randrange(len(data))]


def repeat_chunk(data: bytes, rng: random.Random) -> bytes:
    """Repeat up to 5,000 consecutive bytes up to 50 times."""
    start = rng.randrange(len(data))
    chunk = data[start : start + rng.randint(1, 5000)]
    return data[:start] + chunk * rng.randint(2, 50) + data[start + len(chunk) :]


def recode(data: bytes, rng: random.Random) -> bytes:
    """Change the encoding, with or without changing its declaration."""
    encoding = rng.choice(("utf-16", "utf-16-be", "utf-32", "latin-1", "utf-8-sig"))
    text = data.decode("utf-8", "replace")
    if rng.random() < 0.5:
        text = re.sub(r'encoding="[^"]*"', f'encoding="{encoding}"', text, count=1)
    return text.encode(encoding, "replace")


def edit_elements(data: bytes, rng: random.Random) -> bytes:
    """Remove, repeat, rename, nest, move or empty elements; the document remains XML."""
    root = etree.fromstring(data)
    elements = list(root.iter("{*}*"))
    for _ in range(rng.randint(1, 12)):
        _edit_element(rng.choice(elements), rng.choice(elements), rng)
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))


def damage_archive(data: bytes, rng: random.Random) -> bytes:
    """Put the file into a zip, and replace up to 20 bytes of the zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("label.xml", data)
    out = bytearray(buffer.getvalue())
    for _ in range(rng.randint(1, 20)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _edit(pattern: re.Pattern[bytes], data: bytes, rng: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    for _ in range(rng.randint(1, 3)):
        if found := pattern.search(data, rng.randrange(len(data))):
            data = data[: found.start()] + change(found.group()) + data[found.end() :]
    return data


def _edit_element(element: etree._Element, other: etree._Element, rng: random.Random) -> None:
    parent = element.getparent()
    kind = rng.randrange(6)
    if kind == 0 and parent is not None:
        parent.remove(element)
    elif kind == 1 and parent is not None and len(etree.tostring(element)) < 50_000:
        parent.append(etree.fromstring(etree.tostring(element, with_tail=False)))
    elif kind == 2:
        element.tag = "{urn:hl7-org:v3}" + rng.choice(_TAGS)
    elif kind == 3:
        for _ in range(rng.randint(1, 240)):
            element = etree.SubElement(element, "{urn:hl7-org:v3}" + rng.choice(_TAGS))
            element.text = "deep"
    elif kind == 4:
        element.attrib.clear()
        element.text = rng.choice(("", "\ufeff", "\u00a0", "|", "10", "[1]", "\r", "x" * 10_000, "a " * 3000))
    elif other is not element and element not in other.iterancestors():
        other.append(element)


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(flip_bytes, flip_text, drop_tags, double_tags, break_attributes, truncate, repeat_chunk, recode),
    *(edit_elements, edit_elements, edit_elements, damage_archive),
)
LIMIT = 60.0
"""Seconds after which a case hangs: its stack is printed, and the process exits. A case takes milliseconds."""


def outcome_of(data: bytes, folder: Path | None = None) -> str:
    """Parse a document, or a zip if a folder for it is given; return "parsed" or the reason of the refusal."""
    try:
        if folder is None:
            parse_document(data)
            return "parsed"
        path = folder / "labels.zip"
        path.write_bytes(data)
        found = find_sources([str(path)])
        for document in (*found.rejects, *(one for source in found.sources for one in read_source(source))):
            if isinstance(document, Reject):
                return document.reason
            parse_document(document[1])
    except BadDocument as bad:
        return bad.reason
    return "parsed"


def run_cases(documents: list[bytes], folder: Path, count: int) -> Counter[str]:
    """Return how often each outcome occurs. A case depends only on its number."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(number)
        mutation = MUTATIONS[number % len(MUTATIONS)]
        data = mutation(rng.choice(documents), rng)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            outcomes[outcome_of(data, folder if mutation is damage_archive else None)] += 1
        except Exception as error:
            raise AssertionError(f"case {number} ({mutation.__name__}) crashes the parser") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
    return outcomes


def test_damaged_examples_are_parsed_or_refused(tmp_path: Path) -> None:
    outcomes = run_cases([file.read_bytes() for file in sorted(EXAMPLES.glob("*.xml"))], tmp_path, 1200)
    assert {"parsed", "not_well_formed", "wrong_encoding"} <= outcomes.keys()
    assert 0.2 < outcomes["parsed"] / 1200 < 0.9


@pytest.mark.nightly
def test_damaged_real_labels_are_parsed_or_refused(tmp_path: Path) -> None:
    archive = Path(os.environ.get("FDARX_DATA", "../shared/data")) / "spl" / "dm_spl_release_human_rx.zip"
    if not archive.exists():
        pytest.skip("real labels are not here: set FDARX_DATA")
    sources = find_sources([str(archive)]).sources[::8]
    found = [one for source in sources for one in read_source(source)]
    run_cases([one[1] for one in found if not isinstance(one, Reject)], tmp_path, 10_000)
