"""PDF files that have a text layer."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.errors import DependencyError

from fdarx_core.documents.found import Flaw, Text
from fdarx_core.documents.text import tidy, title_of, visible
from fdarx_core.storage.archives import MAX_DOCUMENT, BadSource

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of each oddity that it puts right

_LIGATURES = dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "ft", "st"), 0xFB00))
_SYMBOLS = _LIGATURES | {0xF0B7: "•", 0xF0A7: "•"}  # the bullets of fonts that have no letters
_SPACES = re.compile(r"[ \t\xa0]+")
_LINE_EDGES = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")
_WORD = re.compile(r"[^\W\d_]+")
_BROKEN_WORD = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,})-\n([a-z][^\W\d_]+)")
_FILE_NAME = re.compile(r"\.(?:docx?|dot|rtf|pdf|indd|qxd|p65|pptx?|xlsx?|wpd|tex|dvi|ps|txt|html?)$", re.I)
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|slide|presentation|powerpoint presentation|unknown|none)[ \d]*", re.I
)
_FROM_PROGRAM = re.compile(r"(?:microsoft|adobe) \w+ - ", re.I)


def read_pdf(stream: BinaryIO) -> Iterator[Text | Flaw]:
    """The pages' texts one after another; a page that can't be read is a flaw, and the others remain.

    A file that opens without a password is read although it is encrypted. The title is the metadata's where that is
    one, and not the name of a file.
    """
    reader, pages = _opened(stream)
    parts = list(_texts(pages))
    yield from (part for part in parts if isinstance(part, Flaw))
    texts = [part for part in parts if isinstance(part, str)]
    text = _mended("\n\n".join(texts))
    if not any(map(str.isalnum, text)):
        detail = f"no text on any page ({len(texts)} could be read); run text recognition (OCR) on the file"
        raise BadSource("no_text_layer", detail)
    yield Text(_title(reader), text)


def _texts(pages: Sequence[PageObject]) -> Iterator[str | Flaw]:
    size = 0
    for number, page in enumerate(pages, 1):
        try:
            text = page.extract_text()
        except Exception as error:  # a damaged page makes pypdf raise almost anything
            yield Flaw(f":page {number}", BadSource("unreadable_page", _said(error)))
            continue
        size += len(text)
        if size > MAX_DOCUMENT:
            raise BadSource("oversized_document", f"more than {MAX_DOCUMENT:,} characters by page {number}")
        yield text


def _opened(stream: BinaryIO) -> tuple[PdfReader, Sequence[PageObject]]:
    try:
        reader = PdfReader(stream)
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise BadSource("encrypted_pdf", "the file opens with a password only; save a copy without one")
        return reader, list(reader.pages)
    except BadSource:
        raise
    except DependencyError as error:
        raise BadSource("encrypted_pdf", f"{error}; save a copy that is not encrypted") from error
    except Exception as error:  # damaged files make pypdf raise almost anything
        raise BadSource("unreadable_pdf", _said(error)) from error


def _title(reader: PdfReader) -> str:
    try:
        title = title_of(str(reader.metadata.title or "")) if reader.metadata else ""
    except Exception:  # as above; a title is not worth a document
        return ""
    names_file = _FILE_NAME.search(title) or _FROM_PROGRAM.match(title) or _NO_TITLE.fullmatch(title)
    return "" if names_file or len(_WORD.findall(title)) < 2 else title


def _mended(text: str) -> str:
    """Ligatures taken apart, single spaces, and words that a line's end divides put together."""
    text = _LINE_EDGES.sub("\n", _SPACES.sub(" ", tidy(text).replace("\xad\n", "").translate(_SYMBOLS)))
    text = _BLANK_LINES.sub("\n\n", visible(text))
    if not _BROKEN_WORD.search(text):
        return text
    words = frozenset(_WORD.findall(text.lower()))
    return _BROKEN_WORD.sub(lambda found: _joined(found[1], found[2], words), text)


def _joined(head: str, tail: str, words: frozenset[str]) -> str:
    """The hyphen goes only where the document writes the word without it elsewhere: risk-based keeps its own."""
    whole = head + tail
    return whole if whole.lower() in words else f"{head}-{tail}"


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
