"""Chunks of documents and of labels, as an index holds them."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from fdarx_core.records import Chunk, Document, Passage, content_id
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark_reader import open_build, read_benchmark, read_labels

CHUNK_SIZE = 10_000
CHUNK_OVERLAP = 2_000

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]{0,3}\Z")
_LONGEST_END = 4
_LEEWAY = 10
"""A piece may be shorter by a tenth of its size, an overlap by a tenth of its own, for a better end or beginning."""


def split_text(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[tuple[int, str]]:
    """Pieces of a text in order, each with the character at which it begins; none where the text is blank.

    Args:
        size: the most characters of a piece.
        overlap: about as many characters, never more, stand in a piece and in the next.

    Every character but white space at a piece's ends is in some piece. A piece begins and ends between words; within
    the leeway it prefers a paragraph's end to a line's, that to a sentence's, and that to a word's. A word longer than
    `size`, or a text written without spaces, is cut anywhere. Raises ValueError for a size or overlap that can't be.

    Source: QA-RAG §2.2, which cuts at 10,000 characters with 2,000 of overlap.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(f"chunk size {size} with overlap {overlap}: the size is at least 1, the overlap less than it")
    whole = text.strip()
    if len(whole) <= size:
        return [(text.index(whole), whole)] if whole else []
    words = _Words.of(text, size)
    return [(words.starts[first], text[words.starts[first] : words.ends[last]]) for first, last in words.spans(overlap)]


@dataclass(frozen=True, slots=True)
class _Words:
    """Where the words of a text begin and end; each letter of a word longer than `size` counts as a word."""

    text: str
    size: int
    starts: array[int]
    ends: array[int]

    @classmethod
    def of(cls, text: str, size: int) -> _Words:
        spans = array("q")
        for found in re.finditer(r"\S+", text):
            spans.extend(_parts(*found.span(), size))
        return cls(text, size, spans[::2], spans[1::2])

    def spans(self, overlap: int) -> Iterator[tuple[int, int]]:
        """The first and last word of each piece."""
        first, reached, count = 0, -1, len(self.starts)
        while reached < count - 1:
            last = self._last(first, reached)
            yield first, last
            if last < count - 1:
                first = self._first(first, last, overlap)
            reached = last

    def _last(self, first: int, reached: int) -> int:
        """The best word to end with: beyond what the piece before has reached, and not far short of the limit."""
        limit = self.starts[first] + self.size
        furthest = bisect_right(self.ends, limit) - 1
        if furthest == len(self.ends) - 1:
            return furthest
        nearest = max(reached + 1, bisect_left(self.ends, limit - self.size // _LEEWAY))
        return self._best(range(furthest, nearest - 1, -1), furthest)

    def _first(self, first: int, last: int, overlap: int) -> int:
        """The best word to go on with, such that the next new word still fits into the piece."""
        floor = max(self.ends[last] - overlap, self.ends[last + 1] - self.size)
        earliest = max(first + 1, bisect_left(self.starts, floor))
        latest = min(last + 1, bisect_right(self.starts, floor + overlap // _LEEWAY) - 1)
        return self._best(range(earliest - 1, latest), earliest - 1) + 1

    def _best(self, words: Iterable[int], otherwise: int) -> int:
        """The word followed by the widest break, the foremost of equals."""
        return max(words, key=self._break, default=otherwise)

    def _break(self, word: int) -> int:
        """What follows a word that is not the last: 3 a paragraph's end, 2 a line's, 1 a sentence's, 0 nothing."""
        end, start = self.ends[word], self.starts[word + 1]
        if lines := self.text.count("\n", end, start):
            return 3 if lines > 1 else 2
        closing = self.text[max(self.starts[word], end - _LONGEST_END) : end]
        return 1 if _SENTENCE_END.search(closing) else 0


def _parts(start: int, end: int, size: int) -> Iterable[int]:
    if end - start <= size:
        return start, end
    return (place for letter in range(start, end) for place in (letter, letter + 1))


def chunk_document(document: Document, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[Chunk]:
    """The document cut by `cut`, piece by piece where it came in pieces; ValueError as there."""
    ends = [*document.breaks, len(document.text)]
    pieces = [
        (begin + start, text)
        for begin, end in zip([0, *document.breaks], ends, strict=True)
        for start, text in split_text(document.text[begin:end], size, overlap)
    ]
    return [_chunk_of(document, position, start, text) for position, (start, text) in zip(count(), pieces)]


def chunk_label(passages: Iterable[Passage], *, drug: str, source: str = "") -> list[Chunk]:
    """A label's passages, each a chunk with its doc_chunk_index as position. The title is the drug, else the set id."""
    return [
        Chunk(
            id=content_id(passage.set_id, str(passage.doc_chunk_index), passage.text),
            document_id=passage.set_id,
            title=drug or passage.set_id,
            source=source,
            section=passage.section_path,
            text=passage.text,
            position=passage.doc_chunk_index,
            set_id=passage.set_id,
            drug=drug,
        )
        for passage in passages
    ]


def is_benchmark(address: str) -> bool:
    """Whether `read_run` is what reads this place: it has a `run.json`, or labels as FDARxBench publishes them."""
    place = Location(address)
    return any((place / name).exists() for name in ("run.json", "labels.jsonl", "labels/labels.jsonl"))


def read_label_chunks(address: str) -> Iterator[list[Chunk]]:
    """The labels of a finished build, or of a folder with a published benchmark, one at a time in order of set id.

    Labels without any passage give none. Where labels aren't published, they consist of what questions rest on. The
    source is what the build read the label from, else the folder. StorageError at once, as `read_benchmark` raises it.
    """
    labels = _of_build(address) if (Location(address) / "run.json").exists() else _of_published(address)
    return (chunks for chunks in labels if chunks)


def _of_build(address: str) -> Iterator[list[Chunk]]:
    run = open_build(address)
    return (
        chunk_label(rows.passages.values(), drug=rows.label.drug_name, source=rows.label.source)
        for rows in read_labels(run)
    )


def _of_published(address: str) -> Iterator[list[Chunk]]:
    benchmark = read_benchmark(address)
    return (chunk_label(one.passages, drug=one.subject.drug_name, source=address) for one in benchmark.items())


def _chunk_of(document: Document, position: int, start: int, text: str) -> Chunk:
    return Chunk(
        id=content_id(document.id, str(position), text),
        document_id=document.id,
        title=document.title,
        source=document.source,
        section="",
        text=text,
        position=position,
        start=start,
    )
