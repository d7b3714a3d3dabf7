"""What a reader of one kind of file gives: texts with their titles, and what could not be read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from fdarx_core.storage.archives import BadSource

_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class Text:
    """A document without its address. `title` is "" where the file names none; `breaks` as in `Document`."""

    title: str
    text: str
    breaks: list[int] = field(default_factory=list)

    @classmethod
    def of_pieces(cls, title: str, pieces: Sequence[str]) -> Text:
        """The pieces one after another, a blank line between them."""
        breaks: list[int] = []
        at = 0
        for piece in pieces[:-1]:
            at += len(piece) + len(_BETWEEN)
            breaks.append(at)
        return cls(title, _BETWEEN.join(pieces), breaks)


@dataclass(frozen=True, slots=True)
class Flaw:
    """A part of a file that can't be read: `at` is put after the file's name, ":12" for a line."""

    at: str
    why: BadSource


Reader = Callable[[BinaryIO], Iterator[Text | Flaw]]
"""Raises `BadSource` where nothing (more) of the file can be read."""
