"""Documents read from files, folders, globs and zips, and their chunks for an index."""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import BinaryIO

from fdarx_core.documents.html import read_html
from fdarx_core.documents.parsers import Reader, UnreadablePart, read_json_rows, read_markdown, read_text
from fdarx_core.records import Chunk, Document, Reject, content_id
from fdarx_core.storage import Location
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.sources import FileFilter, Inputs, Source, as_input_error, as_reject, find_sources, read_source

_READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".jsonl": read_json_rows,
}
PDF = ".pdf"
LABEL = ".xml"
"""The ending of labels in SPL."""
READ_ENDINGS = (*_READERS, PDF, LABEL, ".zip")
"""The endings of the names of files that are read."""

_ANY = FileFilter("documents")  # files of other kinds too, so that each becomes a Reject


def find_documents(paths: Sequence[str]) -> Inputs:
    """Find the files in files, folders, globs and zips, on a disk or on s3://, sorted by name.

    Hidden files are ignored, and so are, beside an XML file, files of kinds that are not read: the pictures of a label.
    Raises StorageError for a path that does not exist.
    """
    found = find_sources(paths, _ANY)
    labels = {_folder(source) for source in found.sources if _kind(source) == LABEL}
    kept = [one for one in found.sources if _kind(one) in READ_ENDINGS or _folder(one) not in labels]
    return Inputs(kept, found.rejects, found.ignored + len(found.sources) - len(kept))


def may_hold_labels(source: Source) -> bool:
    """Return whether a source is an XML file, or a zip in a zip as in a bulk release of DailyMed."""
    return _kind(source) in (LABEL, ".zip")


def read_documents(found: Inputs, max_pages: int | None = None) -> Iterator[Document | Reject]:
    """Yield the documents of the sources.

    The id of a document is a hash of its title and text. Its title is that of the file (see the reader of its kind),
    else the name of the file without its ending, with spaces for underscores. For an unreadable file, a file of another
    kind, and a document with the title and text of an earlier one, yield a Reject. A PDF with more than `max_pages`
    pages (None: any number) is not read. One document is in memory at a time.
    """
    first: dict[str, str] = {}
    for document in chain(found.rejects, _of_sources(found.sources, max_pages)):
        if isinstance(document, Reject):
            yield document
        elif document.id in first:
            detail = f"title and text are those of a document in {first[document.id]}"
            yield Reject(document.source, "read", "duplicate_document", detail, source=document.source)
        else:
            first[document.id] = document.source
            yield document


def _of_sources(sources: Iterable[Source], max_pages: int | None) -> Iterator[Document | Reject]:
    for source in sources:
        kind = _kind(source)
        if kind not in (*_READERS, PDF, ".zip"):
            yield as_reject(source, _unsupported(kind))
        elif kind == ".jsonl" and not source.members:
            try:
                # Rows are read from the stream of the file, which may be larger than `MAX_DOCUMENT`.
                with as_input_error(), Location(source.location).open_input() as stream:
                    yield from _documents(source, stream)
            except InputError as error:
                yield as_reject(source, error)
        else:
            for file in read_source(source, _ANY):
                if isinstance(file, Reject):
                    yield file
                else:
                    yield from _documents(file[0], io.BytesIO(file[1]), max_pages)


def _documents(source: Source, stream: BinaryIO, max_pages: int | None = None) -> Iterator[Document | Reject]:
    """Yield the documents of one file. Raises nothing: what cannot be read becomes a Reject."""
    kind, stem = _kind(source), PurePosixPath(_file(source).replace("\\", "/")).stem
    try:
        if kind == PDF:
            from fdarx_core.documents.pdf import read_pdf  # pypdf is of the extra `documents`

            parts = read_pdf(stream, max_pages)
        elif kind in _READERS:
            parts = _READERS[kind](stream)
        else:
            raise _unsupported(kind)
        for part in parts:
            if isinstance(part, UnreadablePart):
                yield as_reject(source, part.error, at=part.at)
                continue
            if not part.text:
                raise InputError("empty_document", "there is no text in it")
            title = part.title or " ".join(stem.replace("_", " ").split()) or stem
            yield Document(content_id(title, part.text), title, source.name, part.text, part.breaks, part.pages)
    except InputError as bad:
        yield as_reject(source, bad)


def _kind(source: Source) -> str:
    return PurePosixPath(_file(source)).suffix.lower()


def _folder(source: Source) -> str:
    return source.name.replace("!", "/").rpartition("/")[0]


def _file(source: Source) -> str:
    return source.members[-1] if source.members else source.location


def _unsupported(kind: str) -> InputError:
    return InputError(
        "unsupported_type",
        f"{kind or 'a name without ending'} is not read; {', '.join(_READERS)}, {PDF}, {LABEL} and .zip are",
    )


_TABLE = re.compile(r"(?:^[^\n]*\|[^\n]*(?:\n|\Z)){2,}", re.MULTILINE)
_RULE = re.compile(r"(?=.*\|)(?=.*-)[ \t|:-]+")
_HEADER_LINES = 4
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
    from semantic_text_splitter import TextSplitter  # of the extra `documents`

    return TextSplitter(size, overlap=overlap).chunk_indices(text)


def chunk_document(document: Document, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[Chunk]:
    """Split a document by `split_text`, each of its parts (`breaks`) by itself. Raises ValueError.

    A chunk that begins within a table has the table's caption and header row as `table_header`.
    """
    ends = [*document.breaks, len(document.text)]
    pieces = [
        (begin + start, text)
        for begin, end in zip([0, *document.breaks], ends, strict=True)
        for start, text in split_text(document.text[begin:end], size, overlap)
    ]
    tables = _tables(document.text)
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
            table_header=next((header for begin, end, header in tables if begin < start < end), ""),
            page_breaks=[page - start for page in document.pages if start < page < start + len(text)],
        )
        for position, (start, text) in enumerate(pieces)
    ]


def _tables(text: str) -> list[tuple[int, int, str]]:
    """Return where the tables of a text begin and end, lines with "|", and the caption and the header row of each.

    The caption is the line just above; the header row is that above a rule such as "|---|---|".
    """
    found = []
    for table in _TABLE.finditer(text):
        before = text[: table.start()].removesuffix("\n")
        caption = before.rpartition("\n")[2].strip()
        lines = table[0].split("\n", _HEADER_LINES)[:_HEADER_LINES]
        rule = next((place for place, line in enumerate(lines) if _RULE.fullmatch(line)), 0)
        found.append((*table.span(), "\n".join(filter(None, (caption, *lines[:rule])))))
    return found
