"""The share of words that the parser loses or adds: each section's `<text>` is compared with its passages.

The reader of words in this module shares no code with the parser. A word at the boundary of an inline tag counts as
found whether it is joined to its neighbor or not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lxml import etree

from fdarx_core.labels import parse_document
from fdarx_core.records import Passage

NS = "{urn:hl7-org:v3}"
_SEPARATING = {NS + name for name in ("paragraph", "list", "item", "caption", "table", "thead", "tbody", "tfoot")}
_SEPARATING |= {NS + name for name in ("tr", "td", "th", "br", "footnote", "text")}
_SEAM = "\ufdd1"
_SEAMS = re.compile(f"{_SEAM}+")
_FREE_SEAMS = 5
"""The first seams of a chunk are read both joined and apart, in up to 2 to the power of so many readings."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffc\ue000-\uf8ff]")


def measure(data: bytes, total: Counter[str], lost: Counter[str]) -> None:
    """Add a document's counts to `total`, and its lost words to `lost`.

    The counts are sections; words and tokens (between white space, with separators and bullets) of source and passages;
    lost words; numbers in tables, and lost ones.
    """
    _, passages = parse_document(data)
    total["passage tokens"] += sum(len(passage.text.split()) for passage in passages)
    for text, words in _by_section(data, passages):
        chunks = _flatten(text).split()
        missing = list(_missing(chunks, Counter(words)))
        total["sections"] += 1
        total["source tokens"] += sum(1 for chunk in chunks if chunk.strip(_SEAM))
        total["source words"] += sum(len(_words(chunk.replace(_SEAM, ""))) for chunk in chunks)
        total["passage words"] += len(words)
        total["lost words"] += len(missing)
        lost.update(missing)
        known = set(_NUMBER.findall(" ".join(words))) | set(words)
        for cell in text.iter(NS + "td", NS + "th"):
            total["numbers"] += len(_NUMBER.findall(_plain(cell, " ")))
            total["lost numbers"] += min(_numbers_lost(_plain(cell, seam), known) for seam in ("", " "))


def share_found(total: Counter[str], unit: str = "words") -> float:
    """Return the share of the source's words, or of the numbers in tables, that the passages of their section have."""
    of = total[unit] if unit == "numbers" else total[f"source {unit}"]
    return 1 - total[f"lost {unit}"] / max(of, 1)


def growth(total: Counter[str], unit: str) -> float:
    """Return the words, or tokens, of the passages over those of the source."""
    return total[f"passage {unit}"] / max(total[f"source {unit}"], 1)


def _by_section(data: bytes, passages: list[Passage]) -> Iterator[tuple[etree._Element, list[str]]]:
    """Yield the sections with text in document order, each with the words of its passages."""
    groups: list[list[str]] = []
    for passage in passages:
        if passage.section_chunk_index == 0:
            groups.append([])
        groups[-1].extend(_words(passage.text))
    following = iter(groups)
    for section in etree.fromstring(data).iter(NS + "section"):
        for text in section.findall(NS + "text"):
            if _words(_flatten(text).replace(_SEAM, "")):
                yield text, next(following)
            elif _flatten(text).strip(_SEAM + " \n\t\xa0"):
                next(following)  # a passage without words, such as a single bullet


def _words(text: str) -> list[str]:
    return _WORD.findall(_INVISIBLE.sub("", text).casefold().replace("_", " "))


def _flatten(element: etree._Element) -> str:
    """Return the text with spaces between blocks and a seam at each inline boundary.

    White space before a superscript is part of its boundary: "m <sup>2</sup>" reads as one unit.
    """
    parts: list[str] = []
    for event, node in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
        if event == "start":
            if node.tag == NS + "sup" and parts:
                parts[-1] = parts[-1].rstrip()
            parts.append(" " if node.tag in _SEPARATING else _SEAM)
            parts.append(node.text or "")
        else:
            if event == "end":
                parts.append(" " if node.tag in _SEPARATING else _SEAM)
            if node is not element:
                parts.append(node.tail or "")
    return "".join(parts)


def _plain(element: etree._Element, seam: str) -> str:
    return _INVISIBLE.sub("", " ".join(_flatten(element).replace(_SEAM, seam).split()))


def _missing(chunks: list[str], known: Counter[str]) -> Iterator[str]:
    for chunk in chunks:
        readings = _readings(chunk)
        for words in readings:
            need = Counter(words)
            if all(known[word] >= count for word, count in need.items()):
                known.subtract(need)
                break
        else:
            yield from (word for word in readings[0] if known[word] <= 0)


def _readings(chunk: str) -> list[list[str]]:
    """Return the words of a chunk with all seams joined, and with each of the first seams joined or apart."""
    if _SEAM not in chunk:
        return [_words(chunk)]
    first, *pieces = _SEAMS.split(chunk)
    texts = [first]
    for piece in pieces[:_FREE_SEAMS]:
        texts = [text + seam + piece for seam in ("", " ") for text in texts]
    mixed = [" ".join((text, *pieces[_FREE_SEAMS:])) for text in texts]
    return [_words(text) for text in ("".join((first, *pieces)), *mixed)]


def _numbers_lost(text: str, known: set[str]) -> int:
    numbers = _NUMBER.findall(text)
    return sum(1 for n in numbers if n not in known and not all(part in known for part in n.split(".")))
