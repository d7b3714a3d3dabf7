"""JSON lines of {title, text}: documents, or pieces of documents that were cut before."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from fdarx_core.documents.found import Flaw, Text
from fdarx_core.documents.text import UTF_16, refuse_binary, tidy
from fdarx_core.storage.archives import MAX_DOCUMENT, BadSource
from fdarx_core.storage.json_lines import parse_json_row

_LOOKED_AT = 4096


def read_rows(stream: BinaryIO) -> Iterator[Text | Flaw]:
    """One text for all rows of the same title that follow one another, each row a piece of it that is cut by itself.

    So a file of chunks, as QA-RAG's authors released theirs, keeps them, and each knows its neighbours. A row without
    title, or whose title came up before other rows, is a text of its own. Holds the rows of one title at a time.
    """
    title, pieces = "", list[str]()
    for number, line in _numbered(_lines(stream)):
        try:
            named, text = _row(line)
        except BadSource as why:
            yield Flaw(f":{number}", why)
            continue
        if pieces and not (named and named == title):
            yield Text.of_pieces(title, pieces)
            pieces.clear()
        title = named
        pieces.append(text)
    if pieces:
        yield Text.of_pieces(title, pieces)


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that aren't blank. Raises `BadSource` where all are."""
    rows = 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows += 1
            yield number, line
    if not rows:
        raise BadSource("empty_document", "no line holds a row")


def _row(line: bytes) -> tuple[str, str]:
    row, fault = parse_json_row(line)
    if fault:
        reason, _, detail = fault.partition(": ")
        raise BadSource(reason, detail)
    title, text = row.get("title"), row.get("text")
    if not isinstance(text, str):
        raise BadSource("no_text_field", f"a row has title and text; this one has {', '.join(row)[:200] or 'nothing'}")
    if not (tidied := tidy(text)):
        raise BadSource("empty_document", "text is blank")
    return tidy(title) if isinstance(title, str) else "", tidied


def _lines(stream: BinaryIO) -> Iterable[bytes]:
    """Lines in UTF-8, with at most MAX_DOCUMENT bytes held of one."""
    start = stream.read(_LOOKED_AT)
    stream.seek(0)
    if start.startswith(UTF_16):
        return _transcoded(stream)
    refuse_binary(start.decode("latin-1"))
    return iter(lambda: stream.readline(MAX_DOCUMENT), b"")


def _transcoded(stream: BinaryIO) -> Iterator[bytes]:
    reader = io.TextIOWrapper(stream, encoding="utf-16")
    try:
        while line := reader.readline(MAX_DOCUMENT):
            yield line.encode()
    except UnicodeDecodeError as error:
        raise BadSource("not_text", f"{error}; save the file as UTF-8") from error
