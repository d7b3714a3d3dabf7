"""Tables of figures: built from figures by their keys, and printed as text in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from fdarx_core.evaluation.bootstrap import FEW_LABELS
from fdarx_core.records import Estimate

MISSING = "–"

Column = tuple[str, str]
"""The upper header, which neighboring columns share, and the header of the column itself."""


@dataclass(slots=True)
class ResultTable:
    """A table: `rows` have a name and an entry for each column, None where there is no value.

    `stub` is the header of the rows' names.
    """

    title: str
    stub: str
    columns: list[Column]
    rows: list[tuple[str, list[Estimate | None]]]
    notes: list[str] = field(default_factory=list)

    def header_groups(self) -> list[tuple[str, int]]:
        """Return each upper header and the number of columns under it, from the left."""
        return [(group, stop - start) for group, start, stop in _spans(self.columns)]


def build_table(
    title: str,
    stub: str,
    columns: Sequence[tuple[str, str, Hashable]],
    cells: Iterable[tuple[str, Hashable, Estimate]],
    clusters: str = "",
) -> ResultTable:
    """Arrange estimates in a table. Columns without any value are left out.

    Args:
        title: the title of the table.
        stub: the header of the rows' names.
        columns: upper header, header and key of each column.
        cells: name of the row, key of the column, and the estimate; rows are in the order of their first cells.
        clusters: what the bootstrap drew, in the plural, for a note on the intervals; "" for no note.
    """
    keys = {key for *_, key in columns}
    found = [(row, key, one) for row, key, one in cells if key in keys]
    filled = {(row, key): one for row, key, one in found if one.value is not None}
    used = {key for _, key in filled}
    kept = [column for column in columns if column[2] in used]
    names = dict.fromkeys(row for row, *_ in found) if kept else {}
    return ResultTable(
        title,
        stub,
        [(group, name) for group, name, _ in kept],
        [(row, [filled.get((row, key)) for *_, key in kept]) for row in names],
        [interval_note(filled.values(), clusters)] if clusters else [],
    )


def interval_note(estimates: Iterable[Estimate], clusters: str) -> str:
    """Return the note on how the intervals were made, or why there are none; `clusters` names clusters in plural."""
    number = max((one.clusters for one in estimates), default=0)
    if number < 2:
        return f"No intervals: they need two {clusters} at least."
    few = f" With fewer than {FEW_LABELS} they are too narrow." if number < FEW_LABELS else ""
    return f"Intervals: 95 %, bootstrap over {clusters} (up to {number:,}).{few}"


def unscored_notes(estimates: Sequence[Estimate], what: str, where: str) -> list[str]:
    """Return the note on how many of the values have no verdict, empty where all have one."""
    unscored = sum(one.unscored for one in estimates)
    total = unscored + sum(one.rows for one in estimates)
    return [f"{unscored:,} of {total:,} {what} have no verdict and are in no {where}."] if unscored else []


Form = Callable[[Estimate], str]


def with_bounds(entry: Estimate) -> str:
    """Return a value with its interval, `0.53 [0.50, 0.56]`, or only the value without an interval."""
    bounds = "" if entry.low is None or entry.high is None else f" [{_figure(entry.low)}, {_figure(entry.high)}]"
    return f"{_figure(entry.value)}{bounds}"


def with_margin(entry: Estimate) -> str:
    """Return a value with the larger distance to a bound, `0.53 ±0.03`, so that no interval appears too narrow."""
    if entry.value is None or entry.low is None or entry.high is None:
        return _figure(entry.value)
    return f"{_figure(entry.value)} ±{max(entry.high - entry.value, entry.value - entry.low):.2f}"


def _figure(value: float | None) -> str:
    return MISSING if value is None else f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def table_text(grid: ResultTable, width: int = 100) -> str:
    """Return the table in lines of at most `width` characters, where each group of columns fits into that.

    Groups of columns that do not fit beside each other follow below, with the rows' names again. Intervals are printed
    as bounds where that needs no more lines than margins do.
    """
    bounds, margins = _laid_out(grid, with_bounds, width), _laid_out(grid, with_margin, width)
    blocks = bounds if len(bounds) <= len(margins) and _widest(bounds) <= width else margins
    legend = [] if blocks == bounds else ["± is the distance to the farther end of the interval."]
    notes = [line for note in (*grid.notes, *legend) for line in wrap(note, width)]
    body = "\n\n".join("\n".join(block) for block in blocks)
    return "\n".join([*wrap(grid.title, width), "", body, *([""] if notes else []), *notes])


def _spans(columns: Sequence[Column]) -> Iterator[tuple[str, int, int]]:
    start = 0
    for stop in range(1, len(columns) + 1):
        if stop == len(columns) or columns[stop][0] != columns[start][0]:
            yield columns[start][0], start, stop
            start = stop


def _laid_out(grid: ResultTable, form: Form, width: int) -> list[list[str]]:
    """Return the lines of the table in blocks: as many whole groups of columns beside each other as fit."""
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
    cells = [[form(entries[at] or Estimate(None)) for _, entries in grid.rows] for at in columns]
    texts = [[grid.columns[at][1], *column] for at, column in zip(columns, cells, strict=True)]
    widths = _widths(grid, columns, texts)
    stub = max(map(len, names))
    upper = [
        (group, sum(widths[start:stop]) + 2 * (stop - start - 1))
        for group, start, stop in _spans([grid.columns[at] for at in columns])
    ]
    head = "  ".join([" " * stub, *(group.ljust(room) for group, room in upper)]).rstrip()
    rule = "  ".join(["-" * stub, *("-" * room for _, room in upper)])
    padded = [[text.ljust(width) for text in column] for column, width in zip(texts, widths, strict=True)]
    lines = ["  ".join([name.ljust(stub), *row]) for name, *row in zip(names, *padded, strict=True)]
    return [head, rule, lines[0].rstrip(), rule, *(line.rstrip() for line in lines[1:])]


def _widths(grid: ResultTable, columns: list[int], texts: list[list[str]]) -> list[int]:
    """Return the width of each column: its widest text; the last of a group is wider if the upper header needs it."""
    widths = [max(map(len, column)) for column in texts]
    for group, start, stop in _spans([grid.columns[at] for at in columns]):
        taken = sum(widths[start:stop]) + 2 * (stop - start - 1)
        widths[stop - 1] += max(0, len(group) - taken)
    return widths
