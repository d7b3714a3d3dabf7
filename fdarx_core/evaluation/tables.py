"""A table of figures as data, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from textwrap import wrap

MISSING = "–"


@dataclass(frozen=True, slots=True)
class IntervalValue:
    """One value with its 95 % interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`group` is the upper header that neighbouring columns of the same group share."""

    group: str
    name: str


@dataclass(slots=True)
class ResultTable:
    """A table: `rows` are a name and an entry for each column, None where a cell is missing.

    `stub` is the header over the rows' names.
    """

    title: str
    stub: str
    columns: list[TableColumn]
    rows: list[tuple[str, list[IntervalValue | None]]]
    notes: list[str] = field(default_factory=list)

    def header_groups(self) -> list[tuple[str, int]]:
        """Each upper header and the number of columns under it, from the left."""
        return [(group, stop - start) for group, start, stop in _spans(self.columns)]


Form = Callable[[IntervalValue], str]


def with_bounds(entry: IntervalValue) -> str:
    """`0.53 [0.50, 0.56]`, the value alone where it has no interval."""
    bounds = "" if entry.low is None or entry.high is None else f" [{_figure(entry.low)}, {_figure(entry.high)}]"
    return f"{_figure(entry.value)}{bounds}"


def with_margin(entry: IntervalValue) -> str:
    """`0.53 ±0.03`: the larger of the two distances to a bound, so that the interval is never shown too narrow."""
    if entry.low is None or entry.high is None:
        return _figure(entry.value)
    return f"{_figure(entry.value)} ±{max(entry.high - entry.value, entry.value - entry.low):.2f}"


def _figure(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def table_text(grid: ResultTable, width: int = 100) -> str:
    """The table in lines of at most `width` characters, wherever one group of columns alone fits.

    Groups of columns that don't fit beside each other follow below, with the rows' names again. Bounds are written out
    where that takes no more room downwards than a margin.
    """
    bounds, margins = _laid_out(grid, with_bounds, width), _laid_out(grid, with_margin, width)
    blocks = bounds if len(bounds) <= len(margins) and _widest(bounds) <= width else margins
    legend = [] if blocks == bounds else ["± is the distance to the farther end of the interval."]
    notes = [line for note in (*grid.notes, *legend) for line in wrap(note, width)]
    body = "\n\n".join("\n".join(block) for block in blocks)
    return "\n".join([*wrap(grid.title, width), "", body, *([""] if notes else []), *notes])


def _spans(columns: list[TableColumn]) -> Iterator[tuple[str, int, int]]:
    start = 0
    for stop in range(1, len(columns) + 1):
        if stop == len(columns) or columns[stop].group != columns[start].group:
            yield columns[start].group, start, stop
            start = stop


def _laid_out(grid: ResultTable, form: Form, width: int) -> list[list[str]]:
    """The table's lines in blocks: whole groups of columns beside each other, as many as fit."""
    blocks: list[list[int]] = []
    for _, start, stop in _spans(grid.columns):
        group = list(range(start, stop))
        if blocks and _widest([_block(grid, blocks[-1] + group, form)]) <= width:
            blocks[-1] += group
        else:
            blocks.append(group)
    return [_block(grid, columns, form) for columns in blocks]


def _widest(blocks: list[list[str]]) -> int:
    return max((len(line) for block in blocks for line in block), default=0)


def _block(grid: ResultTable, columns: list[int], form: Form) -> list[str]:
    names = [grid.stub, *(name for name, _ in grid.rows)]
    cells = [[_cell(entries[at], form) for _, entries in grid.rows] for at in columns]
    texts = [[grid.columns[at].name, *column] for at, column in zip(columns, cells, strict=True)]
    widths = _widths(grid, columns, texts)
    stub = max(map(len, names))
    upper = [
        (group, sum(widths[start:stop]) + 2 * (stop - start - 1))
        for group, start, stop in _spans([grid.columns[at] for at in columns])
    ]
    head = "  ".join([" " * stub, *(group.ljust(room) for group, room in upper)]).rstrip()
    rule = "  ".join(["-" * stub, *("-" * room for _, room in upper)])
    lines = ["  ".join([name.ljust(stub), *row]) for name, row in zip(names, _padded(texts, widths), strict=True)]
    return [head, rule, lines[0].rstrip(), rule, *(line.rstrip() for line in lines[1:])]


def _cell(entry: IntervalValue | None, form: Form) -> str:
    return MISSING if entry is None else form(entry)


def _widths(grid: ResultTable, columns: list[int], texts: list[list[str]]) -> list[int]:
    """Each column as wide as its widest text; the last of a group wider where the upper header needs it."""
    widths = [max(map(len, column)) for column in texts]
    for group, start, stop in _spans([grid.columns[at] for at in columns]):
        taken = sum(widths[start:stop]) + 2 * (stop - start - 1)
        widths[stop - 1] += max(0, len(group) - taken)
    return widths


def _padded(texts: list[list[str]], widths: list[int]) -> list[list[str]]:
    """Row by row, each text at its column's width."""
    columns = [[text.ljust(width) for text in column] for column, width in zip(texts, widths, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]
