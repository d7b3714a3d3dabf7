"""The chunks of documents and labels for an index."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fdarx_core.records import Chunk, Document, Passage, content_id
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark_reader import open_build, read_benchmark, read_labels

CHUNK_SIZE = 10_000
CHUNK_OVERLAP = 2_000

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]{0,3}\Z")
_LONGEST_END = 4
_LEEWAY = 10
"""A piece may be a tenth shorter than its size, and an overlap a tenth shorter than its own, for a better break."""


def split_text(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[tuple[int, str]]:
    """Split a text into overlapping pieces, in order, each with the position of its first character.

    Every character is in some piece, except white space at the ends of pieces. A piece begins and ends between words,
    if possible at the end of a paragraph, else of a line, else of a sentence. A word longer than `size` is split.

    Args:
        text: the text; a blank text has no pieces.
        size: the most characters of a piece.
        overlap: the most characters that a piece shares with the next.

    Raises:
        ValueError: for a size or overlap out of range.

    Source: QA-RAG §2.2, with 10,000 characters and an overlap of 2,000.
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
    """The positions at which the words of a text begin and end. Each letter of a word longer than `size` is a word."""

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
        """Yield the first and last word of each piece."""
        first, reached, count = 0, -1, len(self.starts)
        while reached < count - 1:
            last = self._last(first, reached)
            yield first, last
            if last < count - 1:
                first = self._first(first, last, overlap)
            reached = last

    def _last(self, first: int, reached: int) -> int:
        """Return the best last word: after the last word of the piece before, and near the limit."""
        limit = self.starts[first] + self.size
        furthest = bisect_right(self.ends, limit) - 1
        if furthest == len(self.ends) - 1:
            return furthest
        nearest = max(reached + 1, bisect_left(self.ends, limit - self.size // _LEEWAY))
        return self._best(range(furthest, nearest - 1, -1), furthest)

    def _first(self, first: int, last: int, overlap: int) -> int:
        """Return the best first word of the next piece, such that the next new word fits into it."""
        floor = max(self.ends[last] - overlap, self.ends[last + 1] - self.size)
        earliest = max(first + 1, bisect_left(self.starts, floor))
        latest = min(last + 1, bisect_right(self.starts, floor + overlap // _LEEWAY) - 1)
        return self._best(range(earliest - 1, latest), earliest - 1) + 1

    def _best(self, words: Iterable[int], otherwise: int) -> int:
        """Return the first word with the strongest break after it."""
        return max(words, key=self._break, default=otherwise)

    def _break(self, word: int) -> int:
        """Return the break after a word: 3 for the end of a paragraph, 2 of a line, 1 of a sentence, 0 for none."""
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
    """Split a document by `split_text`, each of its parts (`breaks`) by itself. Raises ValueError."""
    ends = [*document.breaks, len(document.text)]
    pieces = [
        (begin + start, text)
        for begin, end in zip([0, *document.breaks], ends, strict=True)
        for start, text in split_text(document.text[begin:end], size, overlap)
    ]
    return [
        Chunk(
            id=content_id(document.id, str(position), text),
            document_id=document.id,
            title=document.title,
            source=document.source,
            section="",
            text=text,
            position=position,
            start=start,
        )
        for position, (start, text) in enumerate(pieces)
    ]


def chunk_label(passages: Iterable[Passage], *, drug: str, source: str = "") -> list[Chunk]:
    """Return the passages of a label as chunks, with doc_chunk_index as position. The title is drug or set id."""
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
    """Return whether `read_label_chunks` can read a folder: it has a `run.json`, or labels in the published format."""
    place = Location(address)
    return any((place / name).exists() for name in ("run.json", "labels.jsonl", "labels/labels.jsonl"))


def read_label_chunks(address: str) -> Iterator[list[Chunk]]:
    """Yield the chunks of each label of a finished build or a published benchmark, in order of set id.

    Labels without passages are left out. Where a benchmark has no file of labels, its passages are the contexts of its
    questions. The source of a chunk is the file that the build read, or the folder of the benchmark. Raises
    StorageError at the call, as `read_benchmark` does.
    """
    if (Location(address) / "run.json").exists():
        rows = read_labels(open_build(address))
        labels = (chunk_label(row.passages.values(), drug=row.label.drug_name, source=row.label.source) for row in rows)
    else:
        items = read_benchmark(address).items()
        labels = (chunk_label(one.passages, drug=one.subject.drug_name, source=address) for one in items)
    return (chunks for chunks in labels if chunks)
