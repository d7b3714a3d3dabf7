"""Parsers of text, Markdown and JSON-lines files."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO

from fdarx_core.storage.errors import InputError
from fdarx_core.storage.sources import MAX_DOCUMENT
from fdarx_core.storage.tables import parse_json_row

BETWEEN = "\n\n"
"""What joins the pieces of a text: parts, or pages."""


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The content of a document. `title` is "" if the file has none; `breaks` and `pages` are as in `Document`."""

    title: str
    text: str
    breaks: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)

    @classmethod
    def of_pieces(cls, title: str, pieces: Sequence[str]) -> ParsedFile:
        """Return a file of pieces that are joined by blank lines; `breaks` are the positions of their starts."""
        return cls(title, BETWEEN.join(pieces), starts_of(pieces)[1:])


def starts_of(pieces: Sequence[str]) -> list[int]:
    """Return where each piece begins in the joined text; a blank piece, which is left out, where the next one does."""
    return list(accumulate((len(piece) + len(BETWEEN) if piece else 0 for piece in pieces[:-1]), initial=0))


@dataclass(frozen=True, slots=True)
class UnreadablePart:
    """A part of a file that cannot be read. `at` is appended to the name of the file, such as ":12" for line 12."""

    at: str
    error: InputError


Reader = Callable[[BinaryIO], Iterator[ParsedFile | UnreadablePart]]
"""A parser: yields the documents of a file. Raises InputError if the rest of the file cannot be read."""


UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_LONGEST_TITLE = 300
_MAX_HEADING_CHARS = 1000
_LINE_ENDS = re.compile(r"\r\n?|[\f\v\x1c-\x1e\x85\u2028\u2029]")
_NOT_TEXT = re.compile(r"[\0-\x08\x0e-\x1b\x1f\x7f\ud800-\udfff]")
_INVISIBLE = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF])
_HEADING = re.compile(r"(?m)^ {0,3}#{1,6}[ \t]+(?P<marked>.*)|^(?P<underlined>\S.*)\n {0,3}(?:=+|-+)[ \t]*$")
_FENCED = re.compile(r"(?ms)^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)")
_FRONT_MATTER = re.compile(r"\A---\n.*?^(?:---|\.\.\.)$", re.S | re.M)
_MARKS = re.compile(r"[*`]+|!?\[([^\]]*)\]\([^)]*\)")


def read_text(stream: BinaryIO) -> Iterator[ParsedFile | UnreadablePart]:
    """Read a text file."""
    yield ParsedFile("", tidy(decode(stream.read())))


def read_markdown(stream: BinaryIO) -> Iterator[ParsedFile | UnreadablePart]:
    """Read a Markdown file as text. Its title is its first heading."""
    text = tidy(decode(stream.read()))
    body = _FENCED.sub("", _FRONT_MATTER.sub("", text))
    headings = (found["marked"] or found["underlined"] or "" for found in _HEADING.finditer(body))
    yield ParsedFile(next(filter(None, map(_plain_heading, headings)), ""), text)


HTML = "HTML; give it a name that ends in .html"
_SIGNATURES = {
    b"%PDF-": "a PDF; give it a name that ends in .pdf",
    b"PK\x03\x04": "a zip, or a document of an office program; save it as PDF, or give it a name that ends in .zip",
    b"\xd0\xcf\x11\xe0": "a document of an office program; save it as PDF",
    b"{\\rtf": "in rich text format (RTF); save it as PDF",
    b"<!doctype html": HTML,
    b"<html": HTML,
}


def kind_of(data: bytes) -> str:
    """Return what a file is by its first bytes, with the remedy for a misleading name; "" for other files."""
    start = data[:64].removeprefix(codecs.BOM_UTF8).lstrip().lower()
    return next((kind for signature, kind in _SIGNATURES.items() if start.startswith(signature.lower())), "")


def decode(data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark, or UTF-16 with one. Raises InputError not_text."""
    if (kind := kind_of(data)) and kind != HTML:
        raise InputError("not_text", f"the file is {kind}")
    try:
        text = data.decode("utf-16" if data.startswith(UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start:,} is not {error.encoding}; save the file as UTF-8"
        raise InputError("not_text", detail) from error
    refuse_binary(text)
    return text


def refuse_binary(text: str) -> None:
    """Raise InputError not_text for a text with a NUL character."""
    if "\0" in text:
        raise InputError("not_text", f"character {text.index(chr(0)):,} is a NUL; the file is not text")


def tidy(text: str) -> str:
    """Return the text with \\n as line ends, without control characters, surrogates and surrounding white space."""
    return _NOT_TEXT.sub("", _LINE_ENDS.sub("\n", text)).strip()


def visible(text: str) -> str:
    """Return the text without soft hyphens, zero-width characters and direction marks."""
    return text if text.isascii() else text.translate(_INVISIBLE)


def title_of(text: str) -> str:
    """Return a heading as a title: one line of at most 300 characters."""
    return " ".join(visible(tidy(text)).split())[:_LONGEST_TITLE].rstrip()


def _plain_heading(heading: str) -> str:
    """Return a heading without emphasis, link targets and closing hashes."""
    words = heading[:_MAX_HEADING_CHARS].split()
    if words and not words[-1].strip("#"):
        words.pop()
    return title_of(_MARKS.sub(r"\1", " ".join(words)))


_PROBE_BYTES = 4096


def read_json_rows(stream: BinaryIO) -> Iterator[ParsedFile | UnreadablePart]:
    """Read rows with `title` and `text`. Consecutive rows with the same title are the parts of one document.

    Parts are chunked separately, so the chunks of a file such as that of QA-RAG's authors do not change. A row without
    a title is a document. Only the rows of one document are in memory.
    """
    title, pieces, rows = "", list[str](), 0
    for number, line in enumerate(_lines(stream), 1):
        if not line.strip():
            continue
        rows += 1
        try:
            named, text = _row(line)
        except InputError as error:
            yield UnreadablePart(f":{number}", error)
            continue
        if pieces and not (named and named == title):
            yield ParsedFile.of_pieces(title, pieces)
            pieces.clear()
        title = named
        pieces.append(text)
    if pieces:
        yield ParsedFile.of_pieces(title, pieces)
    if not rows:
        raise InputError("empty_document", "no line contains a row")


def _row(line: bytes) -> tuple[str, str]:
    row = parse_json_row(line)
    title, text = row.get("title"), row.get("text")
    if not isinstance(text, str):
        raise InputError("no_text_field", f"a row has title and text; this one has {', '.join(row)[:200] or 'nothing'}")
    if not (tidied := tidy(text)):
        raise InputError("empty_document", "text is blank")
    return tidy(title) if isinstance(title, str) else "", tidied


def _lines(stream: BinaryIO) -> Iterable[bytes]:
    """Return the lines in UTF-8; lines longer than `MAX_DOCUMENT` bytes are split."""
    start = stream.read(_PROBE_BYTES)
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
        raise InputError("not_text", f"{error}; save the file as UTF-8") from error
