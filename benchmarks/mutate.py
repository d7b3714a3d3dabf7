"""Test the parser on damaged files: real labels, mutated at random and parsed with `parse_document`.

    python -m benchmarks.mutate [--count N] [--seed S] [PATH …]

Two processes parse the files. Each file must be parsed, or refused with a reason, within 5 s. Exits 1 otherwise.
"""

from __future__ import annotations

import faulthandler
import io
import random
import re
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

from lxml import etree

from benchmarks import read_documents, run
from fdarx_core.labels import BadDocument, find_sources, parse_document, read_source
from fdarx_core.records import Reject

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
LIMIT = 5.0  # seconds per file
HANGING = 60.0  # seconds after which a worker prints its stack and exits
PARSED, CRASHED = "parsed", "CRASHED"
_documents: list[bytes] = []


def outcome_of(data: bytes, zipped: bool = False) -> str:
    """Return `PARSED`, the reason of the refusal, or `CRASHED` with the end of the traceback."""
    try:
        if zipped:
            return _outcome_of_archive(data)
        parse_document(data)
    except BadDocument as bad:
        return bad.reason
    except Exception:  # this script looks for crashes
        return f"{CRASHED} {' '.join(traceback.format_exc().split()[-25:])}"
    return PARSED


def _outcome_of_archive(data: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "labels.zip")
        path.write_bytes(data)
        found = find_sources([str(path)])
        read = [*found.rejects, *(document for source in found.sources for document in read_source(source))]
    for document in read:
        if isinstance(document, Reject):
            return document.reason
        parse_document(document[1])
    return PARSED


def cases(documents: list[bytes], seed: int, numbers: range) -> Iterator[tuple[str, str, float]]:
    """Yield the mutation, the outcome and the seconds of each case, which depends only on the seed and its number."""
    for number in numbers:
        rng = random.Random(f"{seed}:{number}")
        mutation = MUTATIONS[number % len(MUTATIONS)]
        data = mutation(rng.choice(documents), rng)
        faulthandler.dump_traceback_later(HANGING, exit=True)
        start = perf_counter()
        outcome = outcome_of(data, zipped=mutation is damage_archive)
        seconds = perf_counter() - start
        faulthandler.cancel_dump_traceback_later()
        yield mutation.__name__, outcome, seconds


def _start_worker(paths: list[str]) -> None:
    _documents.extend(read_documents(paths))


def _run(seed: int, numbers: range) -> list[tuple[str, str, float]]:
    return list(cases(_documents, seed, numbers))


def main(*paths: str, count: int = 10_000, seed: int = 0) -> int:
    """Print the outcomes of each mutation."""
    chunks = [range(start, min(start + 50, count)) for start in range(0, count, 50)]
    with ProcessPoolExecutor(2, initializer=_start_worker, initargs=(list(paths),)) as pool:
        results = [case for chunk in pool.map(_run, [seed] * len(chunks), chunks) for case in chunk]
    for (name, outcome), number in sorted(Counter((name, outcome) for name, outcome, _ in results).items()):
        print(f"{name:18} {outcome:24} {number:6}")
    parsed = sum(1 for _, outcome, _ in results if outcome == PARSED)
    crashes = sum(1 for _, outcome, _ in results if outcome.startswith(CRASHED))
    longest = max((seconds for *_, seconds in results), default=0.0)
    refused = len(results) - parsed - crashes
    print(f"{len(results)} files: {parsed} parsed, {refused} refused, {crashes} crashes; longest {longest:.2f} s")
    return int(crashes > 0 or longest > LIMIT)


if __name__ == "__main__":
    run(main)
