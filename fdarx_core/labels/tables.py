"""Tables written out so that every value stands with the headers of its row and of its column.

A body row becomes one line, `row header | column header: value | column header: value`; neighbours under common upper
headers share them, `row header | upper header column header: value; column header: value`. A row of one cell becomes
the heading of the group below it. Spanning cells count for every row and column they span.
"""

from __future__ import annotations

from collections.abc import Iterator

from fdarx_core.labels.grid import Row, alone, grid, sections, separate_blocks
from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.table_headers import header_paths, leading_rows
from fdarx_core.labels.xml import NS, Element

CAPTION = NS + "caption"
_NOTE_WORDS = 14
_REPEATED_WORDS = 15  # a longer text that spans rows is written once


def table_lines(table: Element) -> Iterator[tuple[str, bool]]:
    """The table's caption, groups, rows and notes in order, as (line, whether the line is a heading)."""
    head, body, foot = sections(table)
    caption = table.find(CAPTION)
    if caption is not None and (text := clean(raw_text(caption))):
        yield text, True
    separate_blocks(table)
    rows, width = grid(head + body)
    while len(rows) > 1 and alone(rows[0], width):
        yield rows.pop(0)[0].text, True
        head = head[1:]
    depth = leading_rows(rows, len(head)) if len(rows) > 1 else 0
    yield from _Writer(header_paths(rows[:depth], width)).lines(rows[depth:], width)
    for row in grid(foot)[0]:
        if row:
            yield " | ".join(cell.text for cell in row), False


class _Writer:
    """Writes body rows under given headers, and remembers which headers it has used."""

    def __init__(self, paths: list[list[str]]) -> None:
        self.paths = paths
        self.used: set[int] = set()
        self.leads: dict[tuple[int, int, int], str] = {}

    def lines(self, rows: list[Row], width: int) -> Iterator[tuple[str, bool]]:
        """The rows as lines, after one line of the headers that stand over no value: they belong to the text too."""
        written = [self._line(row, width) for row in rows if row]
        if unused := self._unused():
            yield unused, False
        yield from written

    def _line(self, row: Row, width: int) -> tuple[str, bool]:
        if alone(row, width):
            text = row[0].text
            return text, text.count(" ") < _NOTE_WORDS
        line = ""
        previous = -1
        for cell in row:
            text = cell.text
            if not cell.first and cell.column > 0 and text.count(" ") >= _REPEATED_WORDS:
                continue
            if cell.column == 0:
                line = self._row_header(text)
            else:
                key = (previous, cell.column, cell.width)
                lead = self.leads.get(key)
                if lead is None:
                    lead = self.leads[key] = self._lead(*key)
                line += (lead if line else lead.lstrip(" |;")) + text
            previous = cell.column
        return line, False

    def _row_header(self, text: str) -> str:
        """The first column heads its row, so its own header stands once, in the first row."""
        if 0 in self.used:
            return text
        self.used.add(0)
        return f"{' '.join(self.paths[0])}: {text}" if self.paths[0] else text

    def _lead(self, previous: int, column: int, width: int) -> str:
        """What stands between a value and the one before it: a separator and the value's headers."""
        columns = range(column, min(column + width, len(self.paths)))
        self.used.update(columns)
        if width > 1:
            names = (" ".join(self.paths[spanned]) for spanned in columns if self.paths[spanned])
            return f" | {name}: " if (name := " / ".join(dict.fromkeys(names))) else " | "
        path = self.paths[column]
        shared = _common(self.paths[previous], path) if previous > 0 else 0
        name = " ".join(path[shared:])
        return ("; " if shared else " | ") + (f"{name}: " if name else "")

    def _unused(self) -> str:
        used = {text for column in self.used for text in self.paths[column]}
        left = (text for column, path in enumerate(self.paths) if column not in self.used for text in path)
        return " | ".join(dict.fromkeys(text for text in left if text not in used))


def _common(previous: list[str], path: list[str]) -> int:
    """How many upper headers a cell shares with its neighbour, its own lowest header aside."""
    shared = 0
    while shared < min(len(previous), len(path) - 1) and previous[shared] == path[shared]:
        shared += 1
    return shared
