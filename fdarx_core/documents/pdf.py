"""Parser of PDF files: the text of each page, by text recognition (OCR) where a page is only a picture."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.errors import DependencyError

from fdarx_core.documents.parsers import ParsedFile, UnreadablePart, tidy, title_of, visible
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.sources import MAX_DOCUMENT

if TYPE_CHECKING:
    from fdarx_core.documents.scanned import PageRecognizer

MAX_TEXT = MAX_DOCUMENT
"""Maximum number of characters of a PDF."""

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # pypdf warns of each fault that it corrects

_BETWEEN = "\n\n"
_LIGATURES = dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "ft", "st"), 0xFB00))
_SYMBOLS = _LIGATURES | {0xF0B7: "•", 0xF0A7: "•"}  # bullets of symbol fonts
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


def read_pdf(stream: BinaryIO, max_pages: int | None = None) -> Iterator[ParsedFile | UnreadablePart]:
    """Read the pages of a PDF as one text, and yield an UnreadablePart for each unreadable page.

    The text of a page without a text layer is recognized where the extra `ocr` is installed. An encrypted file is read
    if it opens without a password. The title is that of the metadata, unless that is a file name or a placeholder.

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
    parts = list(_texts(pages, _Recognition(stream)))
    yield from (part for part in parts if isinstance(part, UnreadablePart))
    texts = [part if isinstance(part, str) else "" for part in parts]
    words = frozenset(word for text in texts for word in _WORD.findall(text.lower()))
    cleaned = [_cleaned(text, words) for text in texts]
    if not any(map(str.isalnum, "".join(cleaned))):
        detail = next((part.error.detail for part in parts if isinstance(part, UnreadablePart)), "the pages are blank")
        raise InputError("no_text_layer", f"no text on any of {len(texts)} pages: {detail}")
    yield ParsedFile(_title(reader), _BETWEEN.join(filter(None, cleaned)), pages=_page_starts(cleaned))


def _page_starts(texts: Sequence[str]) -> list[int]:
    """Return where each page begins in the joined texts; a blank page begins where the next one does."""
    starts, at = list[int](), 0
    for text in texts:
        starts.append(at)
        at += len(text) + len(_BETWEEN) if text else 0
    return starts


class _Recognition:
    """Text recognition of the pages of one file; the file is opened and the models are loaded for the first one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._read: Callable[[int], str] | None = None

    def __call__(self, page: int) -> str:
        """Return the text of a page, counted from 0. Raises InputError no_text_layer without the extra `ocr`."""
        if self._read is None:
            self._stream.seek(0)
            self._read = _recognizer().open(self._stream.read())
        return self._read(page)


@lru_cache(maxsize=1)
def _recognizer() -> PageRecognizer:
    try:
        from fdarx_core.documents.scanned import PageRecognizer

        return PageRecognizer()
    except ImportError as error:
        detail = "a page is a picture; pip install 'fdarx[ocr]' to recognize its text, or add a text layer to the file"
        raise InputError("no_text_layer", detail) from error


def _texts(pages: Sequence[PageObject], recognize: Callable[[int], str]) -> Iterator[str | UnreadablePart]:
    size = 0
    for number, page in enumerate(pages, 1):
        try:
            text = page.extract_text()
            if not any(map(str.isalnum, text)) and _has_picture(page):
                text = recognize(number - 1)
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
    return next(iter(page.images.keys()), None) is not None


def _open_pdf(stream: BinaryIO) -> tuple[PdfReader, Sequence[PageObject]]:
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


def _cleaned(text: str, words: frozenset[str]) -> str:
    """Return a page's text with letters for ligatures, single spaces, and words joined that a line end divides.

    `words` are those of the whole document, in lower case.
    """
    text = _LINE_EDGES.sub("\n", _SPACES.sub(" ", tidy(text).replace("\xad\n", "").translate(_SYMBOLS)))
    text = _BLANK_LINES.sub("\n\n", visible(text)).strip()
    return _BROKEN_WORD.sub(lambda found: _joined(found[1], found[2], words), text)


def _joined(head: str, tail: str, words: frozenset[str]) -> str:
    """Join a divided word. The hyphen is removed only if the document has the word without a hyphen elsewhere."""
    whole = head + tail
    return whole if whole.lower() in words else f"{head}-{tail}"


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
