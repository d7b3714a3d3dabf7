"""The corpus of an evaluation on disk: passages, postings and vectors of all labels, in segments of some parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from fdarx_core.pipeline.embeddings import read_vectors
from fdarx_core.pipeline.executor import Executor, PartProgress
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import batches
from fdarx_core.records import Passage, to_table
from fdarx_core.retrieval.corpus import CorpusFiles, write_vectors
from fdarx_core.retrieval.corpus_postings import merge_statistics, write_postings
from fdarx_core.retrieval.encoders import WindowVectors
from fdarx_core.retrieval.retrievers import passage_search_text
from fdarx_core.storage import Location
from fdarx_core.storage.mapped_files import write_mappable
from fdarx_core.storage.node_copies import NodeCopies

PARTS_A_SEGMENT = 64
"""512 labels, about 46,000 passages. The scores of a question for a segment then fit in a core's cache, a posting takes
3 bytes, since fewer than 65,536 passages are numbered by 2, and a segment is made in some 500 MB."""

_WORDS = "words"

_SegmentWork: TypeAlias = tuple[str, int, Sequence[int]]
"""The work on a segment, the number of the segment, and those of its parts."""


def write_corpus(
    executor: Executor, parts: PartFiles, encoders: Sequence[str], numbers: Sequence[int], progress: PartProgress
) -> None:
    """Write the segments that are missing, from the passages and embeddings of the parts, and then the statistics."""
    segments = list(enumerate(batches(numbers, PARTS_A_SEGMENT)))
    missing: list[_SegmentWork] = []
    for work in (_WORDS, *map(_vectors, encoders)):
        marked = parts.marked(f"corpus/{work}", range(len(segments)))
        missing += [(work, number, own) for number, own in segments if number not in marked]
    for done, _ in enumerate(executor.map(partial(_write_segment, parts), missing), 1):
        progress(done, len(missing))
    if not parts.marked("corpus/statistics", [0]):
        for _ in executor.map(partial(_write_statistics, parts), [len(segments)]):
            pass


def local_corpus(parts: PartFiles, copies: NodeCopies, encoders: Sequence[str], numbers: Sequence[int]) -> CorpusFiles:
    """Return the local files of the corpus of the parts, as `write_corpus` wrote it; from S3, they are copied first."""
    segments = range(-(-len(numbers) // PARTS_A_SEGMENT))

    def local(kind: str) -> list[Path]:
        return [copies.path(_segment(parts, kind, number)) for number in segments]

    vectors = {name: local(_vectors(name)) for name in encoders}
    return CorpusFiles(copies.path(_statistics(parts)), local("postings"), local("passages"), vectors)


def _segment(parts: PartFiles, kind: str, number: int) -> Location:
    return parts.run.file(f"corpus/{kind}/segment-{number:06d}.arrow")


def _statistics(parts: PartFiles) -> Location:
    return parts.run.file("corpus/statistics.arrow")


def _vectors(encoder: str) -> str:
    return f"vectors/{encoder}"


def _write_segment(parts: PartFiles, item: _SegmentWork) -> None:
    work, number, own = item
    if work == _WORDS:
        passages = [row for rows in parts.read_each("passages", own, Passage) for row in rows]
        write_mappable(_segment(parts, "passages", number), to_table(passages, Passage))
        write_postings(_segment(parts, "postings", number), [passage_search_text(row) for row in passages])
    else:
        encoder = work.removeprefix(_vectors(""))
        vectors = [read_vectors(parts, encoder, part)[0] for part in own]
        write_vectors(_segment(parts, work, number), WindowVectors.concatenate(vectors))
    parts.mark(f"corpus/{work}", number)


def _write_statistics(parts: PartFiles, segments: int) -> None:
    merge_statistics((_segment(parts, "postings", number) for number in range(segments)), _statistics(parts))
    parts.mark("corpus/statistics", 0)
