"""What an index holds: chunks of documents, and passages of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from fdarx_core.documents.cutting import OVERLAP, SIZE, cut
from fdarx_core.records import Chunk, Document, Passage, content_id
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark import open_build, read_benchmark, read_labels


def chunks_of(document: Document, size: int = SIZE, overlap: int = OVERLAP) -> list[Chunk]:
    """The document cut by `cut`, piece by piece where it came in pieces; ValueError as there."""
    ends = [*document.breaks, len(document.text)]
    pieces = [
        (begin + start, text)
        for begin, end in zip([0, *document.breaks], ends, strict=True)
        for start, text in cut(document.text[begin:end], size, overlap)
    ]
    return [_chunk_of(document, position, start, text) for position, (start, text) in zip(count(), pieces)]


def chunks_of_label(passages: Iterable[Passage], *, drug: str, source: str = "") -> list[Chunk]:
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


def read_run(address: str) -> Iterator[list[Chunk]]:
    """The labels of a finished build, or of a folder with a published benchmark, one at a time in order of set id.

    Labels without any passage give none. Where labels aren't published, they consist of what questions rest on. The
    source is what the build read the label from, else the folder. StorageError at once, as `read_benchmark` raises it.
    """
    labels = _of_build(address) if (Location(address) / "run.json").exists() else _of_published(address)
    return (chunks for chunks in labels if chunks)


def _of_build(address: str) -> Iterator[list[Chunk]]:
    run = open_build(address)
    return (
        chunks_of_label(rows.passages.values(), drug=rows.label.drug_name, source=rows.label.source)
        for rows in read_labels(run)
    )


def _of_published(address: str) -> Iterator[list[Chunk]]:
    benchmark = read_benchmark(address)
    return (chunks_of_label(one.passages, drug=one.subject.drug_name, source=address) for one in benchmark.examined())


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
