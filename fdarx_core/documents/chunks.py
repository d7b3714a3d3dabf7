"""Documents read from files, folders, globs and zips, and the chunks of documents and labels for an index."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

from semantic_text_splitter import TextSplitter

from fdarx_core.documents.parsers import (
    ParsedFile,
    Reader,
    UnreadablePart,
    read_html,
    read_json_rows,
    read_markdown,
    read_text,
)
from fdarx_core.documents.pdf import read_pdf
from fdarx_core.labels.drugs import drug_of
from fdarx_core.records import Chunk, Document, Label, LabelVersion, Passage, Reject, content_id
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark_reader import open_build, read_benchmark, read_labels
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.sources import FileFilter, Source, as_input_error, as_reject, find_sources, read_source

_READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
    ".jsonl": read_json_rows,
}
_ANY = FileFilter("documents")  # files of other kinds too, so that each becomes a Reject


def read_documents(paths: Sequence[str]) -> Iterator[Document | Reject]:
    """Yield the documents in files, folders, globs and zips, on a disk or on s3://, sorted by name.

    The id of a document is a hash of its title and text. Its title is that of the file (see the reader of its kind),
    else the name of the file. For an unreadable file, a file of another kind, and a document with the title and text
    of an earlier one, yield a Reject. Hidden files are ignored. One document is in memory at a time. Raises
    StorageError at the call for a path that does not exist.
    """
    found = find_sources(paths, _ANY)
    return _each_once(one for part in (found.rejects, _of_sources(found.sources)) for one in part)


def _each_once(found: Iterable[Document | Reject]) -> Iterator[Document | Reject]:
    first: dict[str, str] = {}
    for one in found:
        if isinstance(one, Reject):
            yield one
        elif one.id in first:
            detail = f"title and text are those of a document in {first[one.id]}"
            yield Reject(one.source, "read", "duplicate_document", detail, source=one.source)
        else:
            first[one.id] = one.source
            yield one


def _of_sources(sources: Iterable[Source]) -> Iterator[Document | Reject]:
    for source in sources:
        kind = _kind(source)
        if kind not in (*_READERS, ".zip"):
            yield as_reject(source, _unsupported(kind))
        elif kind == ".jsonl" and not source.members:
            yield from _streamed(source)
        else:
            for file in read_source(source, _ANY):
                if isinstance(file, Reject):
                    yield file
                else:
                    yield from _documents(file[0], io.BytesIO(file[1]))


def _streamed(source: Source) -> Iterator[Document | Reject]:
    """Read a file of rows from its stream: it may be larger than `MAX_DOCUMENT`."""
    try:
        with as_input_error(), Location(source.location).open_input() as stream:
            yield from _documents(source, stream)
    except InputError as error:
        yield as_reject(source, error)


def _documents(source: Source, stream: BinaryIO) -> Iterator[Document | Reject]:
    try:
        reader = _READERS.get(_kind(source))
        if reader is None:
            raise _unsupported(_kind(source))
        for part in reader(stream):
            if isinstance(part, UnreadablePart):
                yield as_reject(source, part.error, at=part.at)
            else:
                yield _document(source, part)
    except InputError as bad:
        yield as_reject(source, bad)


def _document(source: Source, read: ParsedFile) -> Document:
    if not read.text:
        raise InputError("empty_document", "there is no text in it")
    title = read.title or _title(source)
    return Document(content_id(title, read.text), title, source.name, read.text, read.breaks, read.pages)


def _title(source: Source) -> str:
    """Return the name of the file without its ending, with spaces for underscores."""
    stem = PurePosixPath(_file(source).replace("\\", "/")).stem
    return " ".join(stem.replace("_", " ").split()) or stem


def _kind(source: Source) -> str:
    return PurePosixPath(_file(source)).suffix.lower()


def _file(source: Source) -> str:
    return source.members[-1] if source.members else source.location


def _unsupported(kind: str) -> InputError:
    return InputError(
        "unsupported_type", f"{kind or 'a name without ending'} is not read; {', '.join(_READERS)} and .zip are"
    )


CHUNK_SIZE = 10_000
CHUNK_OVERLAP = 2_000


def split_text(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[tuple[int, str]]:
    """Split a text into overlapping pieces, in order, each with the position of its first character.

    Every character is in some piece, except white space at the ends of pieces. A piece begins and ends at the largest
    boundary that its size allows: of paragraphs, lines, sentences, words (Unicode text segmentation) or letters.

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
    return TextSplitter(size, overlap=overlap).chunk_indices(text)


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
            page=bisect_right(document.pages, start),
            page_breaks=[page - start for page in document.pages if start < page < start + len(text)],
        )
        for position, (start, text) in enumerate(pieces)
    ]


def chunk_label(
    passages: Iterable[Passage], *, drug: str, source: str = "", label: LabelVersion | None = None
) -> list[Chunk]:
    """Return the passages of a label as chunks, with doc_chunk_index as position. The title is drug or set id.

    The first chunk has the label's version.
    """
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
            section_code=passage.core_code,
            label=None if at else label,
        )
        for at, passage in enumerate(passages)
    ]


def label_version(label: Label) -> LabelVersion:
    """Return what a chunk says of the version of its label."""
    drug = drug_of(*label.products)
    return LabelVersion(
        version=label.version,
        effective_date=label.effective_date,
        document_type=label.document_type_name,
        labeler=label.labeler,
        moieties=list(drug.moieties),
        uniis=list(drug.uniis),
        products=label.products,
        marketing_categories=label.marketing_categories,
    )


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
        labels = (
            chunk_label(
                row.passages.values(),
                drug=row.label.drug_name,
                source=row.label.source,
                label=label_version(row.label),
            )
            for row in rows
        )
    else:
        items = read_benchmark(address).items()
        labels = (chunk_label(one.passages, drug=one.subject.drug_name, source=address) for one in items)
    return (chunks for chunks in labels if chunks)
