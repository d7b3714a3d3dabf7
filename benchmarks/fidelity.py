"""Is any text lost, is any invented? Compares each section's own `<text>` with its passages, word by word.

    python -m benchmarks.fidelity [ARCHIVE_OR_FOLDER …]

The words are counted here with a reader of its own, which shares no code with the parser: a word that touches the
boundary of an inline tag counts as found in either reading (joined or apart), as the eye would take it.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from fdarx_core.labels import find_sources, parse_document, read_source
from fdarx_core.records import Passage

NS = "{urn:hl7-org:v3}"
_SEPARATING = {NS + name for name in ("paragraph", "list", "item", "caption", "table", "thead", "tbody", "tfoot")}
_SEPARATING |= {NS + name for name in ("tr", "td", "th", "br", "footnote", "text")}
_SEAM = "\ufdd1"
_SEAMS = re.compile(f"{_SEAM}+")
_FREE_SEAMS = 5  # 2 to the power of this many readings at most
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffc\ue000-\uf8ff]")


@dataclass
class Fidelity:
    """Counts over sections: words of the source and of the passages, words and table numbers not found."""

    sections: int = 0
    source_words: int = 0
    passage_words: int = 0
    source_tokens: int = 0
    passage_tokens: int = 0
    lost_words: int = 0
    table_numbers: int = 0
    lost_numbers: int = 0

    @property
    def found(self) -> float:
        """Share of the source's words found in the passages of their section, 0 to 1."""
        return 1 - self.lost_words / max(self.source_words, 1)

    @property
    def growth(self) -> float:
        """Words of the passages over words of the source."""
        return self.passage_words / max(self.source_words, 1)

    @property
    def token_growth(self) -> float:
        """Growth when counting all that stands between white space, separators and bullets included."""
        return self.passage_tokens / max(self.source_tokens, 1)


def measure(data: bytes, total: Fidelity, lost: Counter[str]) -> None:
    """Add one document to `total`, and the words that were not found to `lost`."""
    _, passages = parse_document(data)
    total.passage_tokens += sum(len(passage.text.split()) for passage in passages)
    for text, words in _by_section(data, passages):
        chunks = _flatten(text).split()
        missing = list(_missing(chunks, Counter(words)))
        total.sections += 1
        total.source_tokens += sum(1 for chunk in chunks if chunk.strip(_SEAM))
        total.source_words += sum(len(_words(chunk.replace(_SEAM, ""))) for chunk in chunks)
        total.passage_words += len(words)
        total.lost_words += len(missing)
        lost.update(missing)
        held = set(_NUMBER.findall(" ".join(words))) | set(words)
        for cell in text.iter(NS + "td", NS + "th"):
            total.table_numbers += len(_NUMBER.findall(_plain(cell, " ")))
            total.lost_numbers += min(_numbers_lost(_plain(cell, seam), held) for seam in ("", " "))


def _by_section(data: bytes, passages: list[Passage]) -> Iterator[tuple[etree._Element, list[str]]]:
    """Sections with text in document order, beside the words of their passages."""
    groups: list[list[str]] = []
    for passage in passages:
        if passage.section_chunk_index == 0:
            groups.append([])
        groups[-1].extend(_words(passage.text))
    following = iter(groups)
    for section in etree.fromstring(data).iter(NS + "section"):
        for text in section.findall(NS + "text"):
            if clean_words(text):
                yield text, next(following)
            elif _flatten(text).strip(_SEAM + " \n\t\xa0"):
                next(following)  # marks without a word, such as a lone bullet


def clean_words(text: etree._Element) -> list[str]:
    """The words of one text element, in the joined reading."""
    return _words(_flatten(text).replace(_SEAM, ""))


def _words(text: str) -> list[str]:
    return _WORD.findall(_INVISIBLE.sub("", text).casefold().replace("_", " "))


def _flatten(element: etree._Element) -> str:
    """Text with blocks apart and a seam at each inline boundary; images give none.

    White space in front of a superscript is part of its boundary: "m <sup>2</sup>" is one unit to the eye.
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


def _missing(chunks: list[str], held: Counter[str]) -> Iterator[str]:
    for chunk in chunks:
        readings = _readings(chunk)
        for words in readings:
            need = Counter(words)
            if all(held[word] >= count for word, count in need.items()):
                held.subtract(need)
                break
        else:
            yield from (word for word in readings[0] if held[word] <= 0)


def _readings(chunk: str) -> list[list[str]]:
    """The words of a chunk with its seams joined, with its seams apart, and all ways between for the first few."""
    if _SEAM not in chunk:
        return [_words(chunk)]
    first, *pieces = _SEAMS.split(chunk)
    texts = [first]
    for piece in pieces[:_FREE_SEAMS]:
        texts = [text + seam + piece for seam in ("", " ") for text in texts]
    mixed = [" ".join((text, *pieces[_FREE_SEAMS:])) for text in texts]
    return [_words(text) for text in ("".join((first, *pieces)), *mixed)]


def _numbers_lost(text: str, held: set[str]) -> int:
    numbers = _NUMBER.findall(text)
    return sum(1 for n in numbers if n not in held and not all(part in held for part in n.split(".")))


def main(paths: list[str]) -> int:
    """Print the figures over all labels; exit 1 when they miss what the project promises."""
    data = os.environ.get("FDARX_DATA", "../shared/data")
    found = find_sources(paths or [f"{data}/spl/dm_spl_release_human_rx.zip"])
    total, lost, labels = Fidelity(), Counter[str](), 0
    for source in found.sources:
        for document in read_source(source):
            if isinstance(document, tuple):
                measure(document[1], total, lost)
                labels += 1
    print(f"labels {labels}, sections with text {total.sections}, words {total.source_words}")
    print(f"words found in their section's passages: {total.found:.5%}")
    print(f"words of the passages over words of the text: {total.growth:.4f}")
    print(f"the same by white space, separators and bullets included: {total.token_growth:.4f}")
    print(
        f"numbers in tables found: {1 - total.lost_numbers / max(total.table_numbers, 1):.5%} of {total.table_numbers}"
    )
    print("lost most often:", ", ".join(f"{word} ({count})" for word, count in lost.most_common(15)) or "nothing")
    return int(total.found < 0.999 or total.growth > 1.05 or total.lost_numbers > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
