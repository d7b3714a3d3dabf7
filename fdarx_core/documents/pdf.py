"""Parser of PDF files: the text of each page that has a text layer."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.errors import DependencyError
from pypdf.generic import ContentStream, NameObject

from fdarx_core.documents.parsers import (
    BETWEEN,
    ParsedFile,
    UnreadablePart,
    kind_of,
    starts_of,
    tidy,
    title_of,
    visible,
)
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.sources import MAX_DOCUMENT
from fdarx_core.text.superscripts import superscript

MAX_TEXT = MAX_DOCUMENT
"""Maximum number of characters of a PDF."""

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # pypdf warns of each fault that it corrects

_PICTURES = (b"Do", b"INLINE IMAGE")
"""Operators of pypdf that draw an image or a form."""
_LARGEST_RAISED = 0.9
"""The size of the glyphs of a superscript, at most, as a share of that of the glyphs before it."""
_LONGEST_RAISED = 8
_LIGATURES = dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "ft", "st"), 0xFB00))
_SYMBOLS = _LIGATURES | {0xF0B7: "•", 0xF0A7: "•"}  # bullets of symbol fonts
_SPACES = re.compile(r"[ \t\xa0]+")
_LINE_EDGES = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_FIRST_PARTS = frozenset((
    *("all", "cross", "double", "dose", "drug", "end", "first", "five", "four", "full", "half", "heart", "high", "ill"),
    *("low", "long", "left", "multi", "new", "non", "off", "once", "one", "open", "over", "placebo", "post", "pre"),
    *("right", "second", "self", "short", "single", "six", "so", "three", "time", "twice", "two", "up", "well"),
))  # fmt: skip
"""The first parts of compounds that keep their hyphen, such as "long-term"."""
_LAST_PARTS = frozenset((
    *("acting", "associated", "based", "blind", "blinded", "containing", "controlled", "dependent", "fold", "free"),
    *("group", "hour", "induced", "level", "like", "line", "mediated", "month", "naive", "point", "related"),
    *("resistant", "response", "risk", "site", "specific", "term", "threatening", "treated", "week", "wide", "year"),
))  # fmt: skip
"""The last parts of such compounds, as in "risk-based"."""
_BROKEN_WORD = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,})-\n([a-z][^\W\d_]+)")
_FILE_NAME = re.compile(r"\.(?:docx?|dot|rtf|pdf|indd|qxd|p65|pptx?|xlsx?|wpd|tex|dvi|ps|txt|html?)$", re.I)
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|slide|presentation|powerpoint presentation|unknown|none)[ \d]*", re.I
)
_FROM_PROGRAM = re.compile(r"(?:microsoft|adobe) \w+ - ", re.I)


def read_pdf(stream: BinaryIO, max_pages: int | None = None) -> Iterator[ParsedFile | UnreadablePart]:
    """Read the pages of a PDF as one text, and yield an UnreadablePart for each unreadable page.

    A page that is a picture is unreadable until a program such as OCRmyPDF has added a text layer. An encrypted file is
    read if it opens without a password. The title is that of the metadata, unless that is a file name or a placeholder.

    Args:
        stream: the file.
        max_pages: a file with more pages is not read; None: any number.

    Raises:
        InputError: encrypted_pdf, unreadable_pdf, too_many_pages, oversized_document, or no_text_layer where no page
            has text.
    """
    reader, pages = _open_pdf(stream)
    if max_pages is not None and len(pages) > max_pages:
        raise InputError("too_many_pages", f"{len(pages):,} pages; at most {max_pages:,} are read: split the file")

    parts = list(_texts(pages))
    yield from (part for part in parts if isinstance(part, UnreadablePart))
    texts = [part if isinstance(part, str) else "" for part in parts]
    tidied = [_tidied(text) for text in texts]
    words = _words(tidied)
    cleaned = [_BROKEN_WORD.sub(lambda found: _joined(found[1], found[2], words), text) for text in tidied]
    if not any(map(str.isalnum, "".join(cleaned))):
        detail = next((part.error.detail for part in parts if isinstance(part, UnreadablePart)), "the pages are blank")
        raise InputError("no_text_layer", f"no text on any of {len(texts)} pages: {detail}")
    yield ParsedFile(_title(reader), BETWEEN.join(filter(None, cleaned)), pages=starts_of(cleaned))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of text in one font: the size of its glyphs, the height of its baseline and its rise, in points."""

    text: str
    size: float
    height: float
    rise: float


def _texts(pages: Sequence[PageObject]) -> Iterator[str | UnreadablePart]:
    size = 0
    for number, page in enumerate(pages, 1):
        try:
            text = _page_text(page)
            if not any(map(str.isalnum, text)) and _has_picture(page):
                detail = "a page is a picture; add a text layer to the file, such as with `ocrmypdf FILE.pdf NEW.pdf`"
                raise InputError("no_text_layer", detail)
        except InputError as error:
            yield UnreadablePart(f":page {number}", error)
            continue
        except MemoryError:
            raise
        except Exception as error:  # a damaged page makes pypdf raise almost anything
            yield UnreadablePart(f":page {number}", InputError("unreadable_page", _message(error)))
            continue
        size += len(text)
        if size > MAX_TEXT:
            raise InputError("oversized_document", f"more than {MAX_TEXT:,} characters by page {number}")
        yield text


def _has_picture(page: PageObject) -> bool:
    """Return whether a page draws images or forms, which may contain images. `page.images` would need Pillow."""
    content = page.get_contents()
    return content is not None and any(operator in _PICTURES for _, operator in content.operations)


def _page_text(page: PageObject) -> str:
    """Return the text of a page, with raised digits and marks as powers, units or marks in brackets."""
    pieces: list[_Piece] = []
    rise = 0.0

    def note_rise(operator: bytes, operands: Any, *_: object) -> None:
        nonlocal rise
        if operator == b"Ts":
            rise = float(operands[0])

    def note_text(text: str, matrix: Sequence[float], text_matrix: Sequence[float], _: object, size: float) -> None:
        scale = math.hypot(text_matrix[2], text_matrix[3]) * math.hypot(matrix[2], matrix[3])
        height = text_matrix[4] * matrix[1] + text_matrix[5] * matrix[3] + matrix[5]
        pieces.append(_Piece(text, size * scale, height, rise * scale))

    _part_pieces(page)
    whole = page.extract_text(visitor_operand_before=note_rise, visitor_text=note_text)
    if "".join(piece.text for piece in pieces) != whole:  # pypdf has reordered them, as for text from right to left
        return whole
    return _with_superscripts([piece for piece in pieces if piece.text])


def _part_pieces(page: PageObject) -> None:
    """Let pypdf begin a new piece where the text rises or changes its size: it does so where a font is set."""
    if page.get_contents() is None:
        return
    # Strings stay bytes, as in `extract_text`: as text, those of fonts with codes of two bytes would be written anew.
    content = ContentStream(page["/Contents"].get_object(), page.pdf, "bytes")
    operations: list[Any] = []
    font: Any = None
    scale = 1.0
    for operands, operator in content.operations:
        rises = operator == b"Ts"
        resized = operator == b"Tm" and operands[3] != scale
        if operator == b"Tf":
            font = operands
        elif font is not None and (rises or resized):
            operations.append((font, b"Tf"))
        if resized:
            scale = operands[3]
        operations.append((operands, operator))
    if len(operations) > len(content.operations):
        content.operations = operations
        page[NameObject("/Contents")] = content


def _with_superscripts(pieces: Sequence[_Piece]) -> str:
    """Join pieces; one of smaller glyphs that stand higher than those before it is a superscript."""
    text, base = "", None
    for place, piece in enumerate(pieces):
        if base and _is_raised(piece, base) and text[-1:].strip():
            after = pieces[place + 1].text if place + 1 < len(pieces) else ""
            shown, joined = superscript(piece.text.strip(), text, after)
            text = (text.rstrip() if joined else text) + shown
        else:
            text += piece.text
            base = piece if piece.text.strip() else base
    return text


def _is_raised(piece: _Piece, base: _Piece) -> bool:
    lift = piece.height + piece.rise - base.height - base.rise
    smaller = piece.rise > 0 or piece.size < _LARGEST_RAISED * base.size
    return smaller and 0.1 * base.size < lift < base.size and len(piece.text.strip()) <= _LONGEST_RAISED


def _open_pdf(stream: BinaryIO) -> tuple[PdfReader, Sequence[PageObject]]:
    if (kind := kind_of(stream.read(64))) and not kind.startswith("a PDF"):
        raise InputError("unreadable_pdf", f"the file is {kind}")
    stream.seek(0)
    try:
        reader = PdfReader(stream)
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise InputError("encrypted_pdf", "the file needs a password; save a copy without one")
        return reader, list(reader.pages)
    except (InputError, MemoryError):
        raise
    except DependencyError as error:
        raise InputError("encrypted_pdf", f"{error}; save a copy that is not encrypted") from error
    except Exception as error:  # damaged files make pypdf raise almost anything
        raise InputError("unreadable_pdf", _message(error)) from error


def _title(reader: PdfReader) -> str:
    try:
        title = title_of(str(reader.metadata.title or "")) if reader.metadata else ""
    except MemoryError:
        raise
    except Exception:  # as above; the document is read without its title
        return ""
    names_file = _FILE_NAME.search(title) or _FROM_PROGRAM.match(title) or _NO_TITLE.fullmatch(title)
    return "" if names_file or len(_WORD.findall(title)) < 2 else title


def _tidied(text: str) -> str:
    """Return a page's text with letters for ligatures and with single spaces."""
    text = _LINE_EDGES.sub("\n", _SPACES.sub(" ", tidy(text).replace("\xad\n", "").translate(_SYMBOLS)))
    return _BLANK_LINES.sub("\n\n", visible(text)).strip()


def _words(texts: Sequence[str]) -> frozenset[str]:
    """Return the words of a document, and the parts of its compounds, in lower case, without those at line ends."""
    found = (word for text in texts for word in _WORD.findall(_BROKEN_WORD.sub(" ", text).lower()))
    return frozenset(part for word in found for part in (word, *word.split("-")))


def _joined(head: str, tail: str, words: frozenset[str]) -> str:
    """Join a word that a line end divides.

    The hyphen stays where the document has it elsewhere. If the document has the word nowhere, it also stays beside
    parts of compounds such as "long" and "based", and between two words that the document has by themselves.
    """
    whole, first = (head + tail).lower(), head.lower()
    if f"{first}-{tail}" in words or (whole not in words and (first in _FIRST_PARTS or tail in _LAST_PARTS)):
        return f"{head}-{tail}"
    if whole not in words and first in words and tail in words and len(tail) > 3:
        return f"{head}-{tail}"
    return head + tail


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
