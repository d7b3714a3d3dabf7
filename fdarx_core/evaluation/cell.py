"""One row of a sweep's tables."""

from __future__ import annotations

from typing import NamedTuple


class CellKey(NamedTuple):
    """Who is asked and with what in view; `retriever` is "" but in the setting retrieved."""

    model: str
    setting: str
    retriever: str

    def __str__(self) -> str:
        return " · ".join(part for part in self if part)
