"""Tables of figures with the best value of each column found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fdarx_core.evaluation.grid import Column, Entry, Grid

DIGITS = 3
"""Values that look equal on the page are equally good."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """`best` of its column; `first` of the columns under one upper header."""

    entry: Entry | None
    best: bool
    first: bool


@dataclass(frozen=True, slots=True)
class ShownGrid:
    """A grid as the page shows it. Columns that no row has a value for are left out."""

    grid: Grid
    rows: list[tuple[str, list[GridCell]]]

    @property
    def firsts(self) -> list[bool]:
        """For each column, whether it is the first under its upper header."""
        return list(_firsts(self.grid.columns))


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper, strict and, where that makes a difference, under equivalence."""

    name: str
    strict: ShownGrid
    equivalent: ShownGrid | None = None


def paper_table(name: str, strict: Grid, equivalent: Grid | None = None) -> PaperTable:
    """`name` is unique in the page."""
    return PaperTable(name, show(strict), show(equivalent) if equivalent else None)


def plain_table(name: str, grid: Grid) -> PaperTable:
    """The same of rows that are no rivals: none is the best."""
    shown = show(grid)
    rows = [(row, [replace(cell, best=False) for cell in cells]) for row, cells in shown.rows]
    return PaperTable(name, ShownGrid(shown.grid, rows))


def show(grid: Grid) -> ShownGrid:
    """More is better in every column; a table of one row has no best."""
    grid = _filled(grid)
    tops = [_top([entries[at] for _, entries in grid.rows]) for at in range(len(grid.columns))]
    firsts = list(_firsts(grid.columns))
    rows = [
        (
            name,
            [GridCell(entry, _is(entry, top), first) for entry, top, first in zip(entries, tops, firsts, strict=True)],
        )
        for name, entries in grid.rows
    ]
    return ShownGrid(grid, rows)


def _filled(grid: Grid) -> Grid:
    kept = [at for at in range(len(grid.columns)) if any(entries[at] for _, entries in grid.rows)]
    rows = [(name, [entries[at] for at in kept]) for name, entries in grid.rows]
    return Grid(grid.title, grid.stub, [grid.columns[at] for at in kept], rows, grid.notes)


def _top(entries: Sequence[Entry | None]) -> float | None:
    return max((round(one.value, DIGITS) for one in entries if one), default=None) if len(entries) > 1 else None


def _is(entry: Entry | None, top: float | None) -> bool:
    return entry is not None and round(entry.value, DIGITS) == top


def _firsts(columns: Sequence[Column]) -> Iterator[bool]:
    before = None
    for column in columns:
        yield column.group != before
        before = column.group
