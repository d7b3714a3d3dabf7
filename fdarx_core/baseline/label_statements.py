"""The statements of a label's passage: sentences, lists with the sentence that announces them, and table rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.stems import terms
from fdarx_core.text.tokens import pattern

ITEM = re.compile(r"\s*(?:[-*](?=\s)|[•·]|\(?\d{1,2}[.)](?=\s))\s*")
"""The mark before an item of a list."""
ENDS = (".", "!", "?", ":", ";", ")", "]", '"', "”")
"""The marks at the end of a sentence or a row; a line without one is mostly a heading or an address."""
_INLINE_BULLET = re.compile(r"\s(?=•)")
_CELLS = " | "
_NUMBERED = re.compile(r"\d{1,2}(?:\.\d{1,2})*\.?\s+[A-Z]")
_CAPTION = re.compile(r"(?:Table|Figure)\s+\w+[.:]?\s", re.IGNORECASE)
_LONGEST_HEADING = 160
"""Characters of the longest line that is read as a heading."""
REFERENCE = pattern("cross_reference", re.I)
"""A reference to another section."""
_FOOTNOTE = re.compile(r"\s*\[\d{1,2}\]")


@dataclass(frozen=True)
class LabelStatement:
    """A statement of a passage, in the words of the text.

    Attributes:
        text: the sentence, the sentence that announces the items, or the table row; a bullet is left out.
        heads: the headings, the table caption or the announcing sentence above it within the passage.
        items: the items of a list; empty for other statements.
        is_row: whether it is a table row, "label | header: cell | header: cell".
    """

    text: str
    heads: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    is_row: bool = False

    @cached_property
    def terms(self) -> frozenset[str]:
        """The terms of the text and the items."""
        return terms("\n".join((self.text, *self.items)))


def quoted(text: str) -> str:
    """Return a piece of a label as it can be quoted: up to its last word, without a cross-reference at the end, and
    without numbers of footnotes, which would be citations in an answer."""
    text = _FOOTNOTE.sub("", text).strip()
    end = next((found.start() for found in REFERENCE.finditer(text) if not re.search(r"\w", text[found.end() :])), None)
    return text[:end].rstrip(" .;,:|")


@lru_cache(maxsize=2048)
def parse_passage(text: str) -> tuple[LabelStatement, ...]:
    """Return the statements of a passage in order; a sentence that announces a list without items is none."""
    return tuple(_statements([line for line in map(str.strip, _INLINE_BULLET.sub("\n", text).split("\n")) if line]))


def _statements(lines: list[str]) -> Iterator[LabelStatement]:
    heads: tuple[str, ...] = ()
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if _is_heading(line):
            heads = (*(heads if lines[at - 2 : at - 1] == list(heads[-1:]) else ()), line)
            continue
        if _CELLS in line:
            yield LabelStatement(line, heads, is_row=True)
            continue
        *sentences, last = split_sentences(line[_bullet(line) :], "label") or [line]
        yield from (LabelStatement(one, heads) for one in sentences if _has_words(one))
        if not last.endswith(":"):
            if _has_words(last):
                yield LabelStatement(last, heads)
            continue
        first = at
        while at < len(lines) and (_bullet(lines[at]) or (at == first and _unmarked_item(lines[at]))):
            at += 1
        items = tuple(line[_bullet(line) :].strip() for line in lines[first:at] if _has_words(line))
        if items:
            yield LabelStatement(last, heads, items)
        else:
            heads = (*heads, last)


def _is_heading(line: str) -> bool:
    """Return whether a line is a heading or a caption: no sentence, no row and no item."""
    if line.endswith("?"):
        return True
    if _CELLS in line or len(line) > _LONGEST_HEADING or (_bullet(line) and not _NUMBERED.match(line)):
        return False
    if (_CAPTION.match(line) or _NUMBERED.match(line)) and not line.endswith("."):
        return True
    return not (line.endswith(ENDS) or ": " in line)


def _unmarked_item(line: str) -> bool:
    return not (_CELLS in line or line.endswith((".", ":", "?")) or _CAPTION.match(line))


def _bullet(line: str) -> int:
    """Return the length of the bullet of a line, 0 if it has none."""
    found = ITEM.match(line)
    return found.end() if found else 0


def _has_words(text: str) -> bool:
    return bool(re.search(r"\w", REFERENCE.sub("", text)))
