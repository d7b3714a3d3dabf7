"""Bytes to text, what is cleaned in any text, and files that are text as they stand."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

from fdarx_core.documents.found import Flaw, Text
from fdarx_core.storage.archives import BadSource

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_LONGEST_TITLE = 300
_LOOKED_AT = 1000
_LINE_ENDS = re.compile(r"\r\n?|[\f\v\x1c-\x1e\x85\u2028\u2029]")
_NOT_TEXT = re.compile(r"[\0-\x08\x0e-\x1b\x1f\x7f\ud800-\udfff]")
_INVISIBLE = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF])
_HEADING = re.compile(r"(?m)^ {0,3}#{1,6}[ \t]+(?P<marked>.*)|^(?P<underlined>\S.*)\n {0,3}(?:=+|-+)[ \t]*$")
_FENCED = re.compile(r"(?ms)^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)")
_FRONT_MATTER = re.compile(r"\A---\n.*?^(?:---|\.\.\.)$", re.S | re.M)
_MARKS = re.compile(r"[*`]+|!?\[([^\]]*)\]\([^)]*\)")


def read_text(stream: BinaryIO) -> Iterator[Text | Flaw]:
    """A `.txt` as it stands."""
    yield Text("", tidy(decode(stream.read())))


def read_markdown(stream: BinaryIO) -> Iterator[Text | Flaw]:
    """A `.md` as it stands; its title is its first heading."""
    text = tidy(decode(stream.read()))
    yield Text(_first_heading(text), text)


def decode(data: bytes) -> str:
    """UTF-8, with or without its mark, or UTF-16 with one. Raises `BadSource` not_text."""
    try:
        text = data.decode("utf-16" if data.startswith(UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start:,} is not {error.encoding}; save the file as UTF-8"
        raise BadSource("not_text", detail) from error
    if text.startswith("%PDF-"):
        raise BadSource("not_text", "the file is a PDF; give it a name that ends in .pdf")
    refuse_binary(text)
    return text


def refuse_binary(text: str) -> None:
    """Raises `BadSource` not_text where there is a NUL, which no text has."""
    if "\0" in text:
        raise BadSource("not_text", f"character {text.index(chr(0)):,} is a NUL; the file is no text")


def tidy(text: str) -> str:
    """Lines end in \\n, control characters and halves of characters are gone, as is white space at the ends."""
    return _NOT_TEXT.sub("", _LINE_ENDS.sub("\n", text)).strip()


def visible(text: str) -> str:
    """Soft hyphens, zero-width characters and direction marks are gone."""
    return text if text.isascii() else text.translate(_INVISIBLE)


def title_of(text: str) -> str:
    """A heading as a title: one line, at most 300 characters."""
    return " ".join(visible(tidy(text)).split())[:_LONGEST_TITLE].rstrip()


def _first_heading(text: str) -> str:
    body = _FENCED.sub("", _FRONT_MATTER.sub("", text))
    headings = (found["marked"] or found["underlined"] or "" for found in _HEADING.finditer(body))
    return next(filter(None, map(_unmarked, headings)), "")


def _unmarked(heading: str) -> str:
    """Without emphasis, the addresses of links, and the hashes that may close a heading."""
    words = heading[:_LOOKED_AT].split()
    if words and not words[-1].strip("#"):
        words.pop()
    return title_of(_MARKS.sub(r"\1", " ".join(words)))
