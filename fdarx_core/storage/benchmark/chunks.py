"""Pieces of labels as published rows hold them, and the passages that they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from fdarx_core.records import Passage
from fdarx_core.storage.benchmark.published import unprinted_title

_MOST = 10**7  # an index above it is no place in a label, and might not fit a column
_WORD = re.compile(r"\w+")
_ALIKE = 0.5
_UNCLASSIFIED = ("", "42229-5")
_PLR_CODES = (
    "34067-9", "34068-7", "43678-2", "34070-3", "43685-7", "34084-4", "34073-7", "43684-0", "42227-9", "34088-5",
    "34089-3", "34090-1", "43680-8", "34092-7", "34093-5", "34069-5", "34076-0",
)  # fmt: skip
"""Of the sections 1 to 17, which labels in the current format all have in this order. Source: 21 CFR 201.57(c)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a label. `index` is its doc_chunk_index, None where none is given; `text` may be empty."""

    text: str
    index: int | None
    within: int = 0
    code: str = ""
    number: str = ""
    title: str = ""
    has_answer: bool = True

    @property
    def folded(self) -> str:
        """Its text, white space apart."""
        return " ".join(self.text.split())

    @classmethod
    def read(cls, value: Any, position: int | None = None) -> Chunk | None:
        """An object of a context or of `chunks`, or a mere text, whose index is its position. None: neither."""
        if isinstance(value, str):
            return cls(value, position)
        if not isinstance(value, dict):
            return None
        number = text_of(value.get("section_label"))
        return cls(
            text=text_of(value.get("text")),
            index=_index(value.get("doc_chunk_index")),
            within=_index(value.get("section_chunk_index")) or 0,
            code=text_of(value.get("section_code")),
            number=number,
            title=unprinted_title(text_of(value.get("section_title")), number),
            has_answer=value.get("has_answer") is not False,
        )


def text_of(value: Any) -> str:
    """Numbers as their digits; what is neither text nor number as ""."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def passages_of(set_id: str, chunks: Iterable[Chunk]) -> dict[int, Passage]:
    """Passages by doc_chunk_index.

    The same text under the same index, however often, is one passage. A differing text under an index that is taken,
    or a text without index, is the passage that has this text, else a new one under an index above all that are given.
    """
    with_text = [chunk for chunk in chunks if chunk.folded]
    fresh = count(max((chunk.index for chunk in with_text if chunk.index is not None), default=-1) + 1)
    taken: dict[int, str] = {}
    by_text: dict[str, int] = {}
    passages: dict[int, Passage] = {}
    # Those that state their place come first: a text without one may be any of theirs.
    for chunk in sorted(with_text, key=lambda chunk: chunk.index is None):
        folded, index = chunk.folded, chunk.index
        if index is None or taken.get(index, folded) != folded:
            known = by_text.get(folded)
            index = next(fresh) if known is None else known
        by_text.setdefault(folded, index)
        if taken.setdefault(index, folded) == folded and index not in passages:
            passages[index] = _passage(set_id, index, chunk)
    return dict(sorted(passages.items()))


class Places:
    """Finds the passage that a question's context means."""

    def __init__(self, passages: Mapping[int, Passage]) -> None:
        self._folded = {index: " ".join(passage.text.split()) for index, passage in passages.items()}
        self._by_text = {text: index for index, text in reversed(self._folded.items())}

    def find(self, chunk: Chunk) -> int | None:
        """The passage under the chunk's index, where their texts agree or the chunk has none, else that of its text.

        Texts agree where one holds the other, or half of the words are common: labels may have been cut otherwise.
        """
        stated = self._folded.get(chunk.index) if chunk.index is not None else None
        if stated is not None and chunk.folded in ("", stated):
            return chunk.index
        found = self._by_text.get(chunk.folded)
        if found is None and stated is not None and _alike(stated, chunk.folded):
            return chunk.index
        return found


def with_sections(passages: Mapping[int, Passage], named: Iterable[tuple[int, Chunk]]) -> dict[int, Passage]:
    """Passages of a label that holds mere texts, with the sections that the questions' contexts name for them."""
    out = dict(passages)
    for index, chunk in named:
        if not (out[index].section_code or out[index].section_title):
            out[index] = replace(_passage(out[index].set_id, index, chunk), text=out[index].text)
    return out


def _passage(set_id: str, index: int, chunk: Chunk) -> Passage:
    return Passage(
        set_id=set_id,
        doc_chunk_index=index,
        section_chunk_index=chunk.within,
        section_code=chunk.code,
        core_code=_core_code(chunk),
        section_number=chunk.number,
        section_title=chunk.title,
        section_path=chunk.title,
        text=chunk.text,
    )


def _core_code(chunk: Chunk) -> str:
    """That of the section, or, of an unclassified one, of the top section that its number tells (right in 99 %)."""
    top = chunk.number.partition(".")[0]
    if chunk.code in _UNCLASSIFIED and re.fullmatch("[1-9][0-9]?", top) and int(top) <= len(_PLR_CODES):
        return _PLR_CODES[int(top) - 1]
    return chunk.code


def _index(value: Any) -> int | None:
    """A whole number, also where it was written as text or with a fraction of zero."""
    if isinstance(value, str):
        value = int(value) if value.strip().isascii() and value.strip().isdigit() and len(value) < 12 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        return None
    return int(value) if value == int(value) else None


def _alike(one: str, other: str) -> bool:
    if one in other or other in one:
        return True
    first, second = set(_WORD.findall(one.lower())), set(_WORD.findall(other.lower()))
    return len(first & second) >= _ALIKE * len(first | second)
