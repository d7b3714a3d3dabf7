"""Tables written out so that every value stands with the headers of its row and of its column.

A body row becomes one line, `row header | column header: value | column header: value`; neighbours under common upper
headers share them, `row header | upper header column header: value; column header: value`. A row of one cell becomes
the heading of the group below it. Spanning cells count for every row and column they span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.xml import NS, Element

TABLE, THEAD, TBODY, TFOOT, TR, TH, TD = (NS + name for name in ("table", "thead", "tbody", "tfoot", "tr", "th", "td"))
CAPTION, CONTENT, PARAGRAPH, ITEM, LIST = (NS + name for name in ("caption", "content", "paragraph", "item", "list"))
_BULLET = re.compile(r"(?:^|(?<=; ))[•●○◦▪■□]\s*(?=.)")  # ends of items say the same
_AFTER_STOP = re.compile(r"(?<=[.,:;]); ")
_MAX_SPAN = 200
_HEADER_ROWS = 4
_FIGURE = re.compile(r"[<>≤≥±(−–↑↓~+-]{0,2}\s?\d")
_UNIT = re.compile(r"(?!.{25})(?:\(?[Nn]\s?[=(]|\(?%|\(?[mµμkn]?c?[gL]\b|\((?!\d))")
_BARE_FIGURE = re.compile(r"[\d.,±%()<>≤≥\s–-]+")
_NOTE_WORDS = 14
_REPEATED_WORDS = 15  # a longer text that spans rows is written once


@dataclass(slots=True)
class Cell:
    """A cell with text; `column` is its first column in the grid, `width` how many it spans, `first` its first row."""

    text: str
    column: int
    width: int
    element: Element
    first: bool

    @property
    def is_header(self) -> bool:
        """Marked as a header, or bold as headers written without `th` are, or reaching down from a row above."""
        return not self.first or self.element.tag == TH or _is_bold(self.element)


Row: TypeAlias = "list[Cell]"
_Spans: TypeAlias = "dict[int, tuple[Cell, int]]"


def table_lines(table: Element) -> Iterator[tuple[str, bool]]:
    """The table's caption, groups, rows and notes in order, as (line, whether the line is a heading)."""
    head, body, foot = _sections(table)
    caption = table.find(CAPTION)
    if caption is not None and (text := _cell_text(caption)):
        yield text, True
    _separate_blocks(table)
    rows, width = _grid(head + body)
    while len(rows) > 1 and _alone(rows[0], width):
        yield rows.pop(0)[0].text, True
        head = head[1:]
    depth = _leading_rows(rows, len(head)) if len(rows) > 1 else 0
    yield from _Writer(_header_paths(rows[:depth], width)).lines(rows[depth:], width)
    for row in _grid(foot)[0]:
        if row:
            yield " | ".join(cell.text for cell in row), False


def _sections(table: Element) -> tuple[list[Element], list[Element], list[Element]]:
    head: list[Element] = []
    body: list[Element] = []
    foot: list[Element] = []
    for part in table:
        if part.tag == TR:
            body.append(part)
        elif part.tag in (THEAD, TBODY, TFOOT):
            target = head if part.tag == THEAD else foot if part.tag == TFOOT else body
            target.extend(row for row in part if row.tag == TR)
    return head, body, foot


def sole_cells(table: Element) -> list[Element]:
    """The cells of a table that is only a frame round running text: no row has a second one. Else none."""
    cells: list[Element] = []
    for row in (row for part in _sections(table) for row in part):
        if len(row) > 1:
            return []
        cells += [td for td in row if td.tag in (TD, TH)]
    return cells


def _separate_blocks(table: Element) -> None:
    """Keep the blocks of a cell apart on the one line it becomes: spaces around each, a semicolon after an item."""
    for block in table.iter(PARAGRAPH, LIST, ITEM, TABLE):
        if block.tag == TABLE:
            if block is not table:
                _separate_cells(block)
            continue
        block.text = " " + (block.text or "")
        if block.getnext() is not None:
            block.tail = ("; " if block.tag == ITEM else " ") + (block.tail or "")
        elif block.tail:
            block.tail = " " + block.tail


def _separate_cells(nested: Element) -> None:
    for cell in nested.iter(TD, TH):
        cell.tail = "; " + (cell.tail or "")


def _grid(rows: list[Element]) -> tuple[list[Row], int]:
    """The cells with text of each row, and the number of columns.

    A cell that spans rows stands in each of them, marked as not first after its own.
    """
    grid: list[Row] = []
    spans: _Spans = {}
    columns = 0
    for element in rows:
        row: Row = []
        column = 0
        for td in element:
            if td.tag != TD and td.tag != TH:
                continue
            while column in spans:
                column = _continue_span(spans, column, row)
            text = _cell_text(td)
            width, height = td.get("colspan"), td.get("rowspan")
            cell = Cell(text, column, 1 if width is None else _span(width), td, True)
            if text:
                row.append(cell)
            if height is not None and (left := _span(height)) > 1:
                spans[column] = (cell, left)
            column += cell.width
        if spans:
            column = _close_row(spans, column, row)
        columns = max(columns, column)
        grid.append(row)
    return grid, columns


def _continue_span(spans: _Spans, column: int, row: Row) -> int:
    cell, _ = spans[column]
    if cell.text:
        row.append(Cell(cell.text, column, cell.width, cell.element, False))
    return column + cell.width


def _close_row(spans: _Spans, column: int, row: Row) -> int:
    """Continue the spans to the right of the row's last cell, and count the row off every span."""
    for start, (cell, left) in sorted(spans.items()):
        if start >= column:
            column = _continue_span(spans, start, row)
        if left <= 1:
            del spans[start]
        else:
            spans[start] = (cell, left - 1)
    return column


def _span(value: str) -> int:
    value = value.strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() and len(value) < 6 else 1


def _cell_text(td: Element) -> str:
    children = len(td)
    text = clean(raw_text(td) if children else td.text or "").replace("|", "/")
    if children and "; " in text:
        text = _AFTER_STOP.sub(" ", text.replace(" ; ", "; "))
    return text if text.isascii() else _BULLET.sub("", text)


def _is_bold(td: Element) -> bool:
    """Whether the cell's text begins inside bold content, as headers written without `th` do."""
    if (td.text or "").strip():
        return False
    for element in td.iter(CONTENT):
        if "bold" in (element.get("styleCode") or "").lower():
            return True
        if (element.text or "").strip():
            return False
    return False


def _alone(row: Row, width: int) -> bool:
    """One cell with text, the rest of the row empty or spanned by it; a value under a header is not alone."""
    return width > 1 and len(row) == 1 and row[0].column == 0 and row[0].first


def _leading_rows(rows: list[Row], thead: int) -> int:
    """How many rows at the top are headers: the thead, or rows of th or bold cells, or labels over figures."""
    limit = min(_HEADER_ROWS, len(rows) - 1)
    if thead:
        return min(thead, len(rows) - 1)
    depth = 0
    while depth < limit and _all_headers(rows[depth]) and not (depth and _is_data(rows[depth])):
        depth += 1
    if not depth:
        depth = int(_labels_over_figures(rows) or _spans_columns(rows[0]) or _in_capitals(rows))
    while 0 < depth < limit and _divides(rows[depth - 1], rows[depth]):
        depth += 1
    return depth


def _divides(above: Row, row: Row) -> bool:
    """Whether a row names the columns under a header that spans several, or their units under any."""
    if len(row) > 1 and row[0].column > 0 and all(_UNIT.match(cell.text) for cell in row):
        return True
    spanning = [(cell.column, cell.column + cell.width) for cell in above if cell.width > 1 and cell.column > 0]
    under = [cell for cell in row if any(start <= cell.column < end for start, end in spanning)]
    return len(under) > 1 and not any(_is_figure(cell.text) for cell in under)


def _all_headers(row: Row) -> bool:
    return len(row) > 1 and all(cell.is_header for cell in row)


def _is_data(row: Row) -> bool:
    """A row of bare figures under a name of its own ("No. of patients") is no header, however bold."""
    return row[0].column == 0 and row[0].first and all(_BARE_FIGURE.fullmatch(cell.text) for cell in row[1:])


def _labels_over_figures(rows: list[Row]) -> bool:
    """A first row without figures above rows whose other columns begin with figures."""
    first = [cell for cell in rows[0] if cell.column > 0]
    below = [cell for row in rows[1:6] for cell in row if cell.column > 0]
    if not first or len(below) < 2:
        return False
    return not any(_is_figure(cell.text) for cell in first) and 2 * sum(_is_figure(c.text) for c in below) > len(below)


def _spans_columns(row: Row) -> bool:
    """Short texts of which one lies over several columns."""
    short = all(cell.text.count(" ") < _REPEATED_WORDS and not _is_figure(cell.text) for cell in row)
    return short and any(cell.width > 1 and cell.column > 0 for cell in row)


def _in_capitals(rows: list[Row]) -> bool:
    """A first row in capitals over a table that is not."""
    return len(rows[0]) > 1 and all(c.text.isupper() for c in rows[0]) and not any(c.text.isupper() for c in rows[1])


def _is_figure(text: str) -> bool:
    return _FIGURE.match(text) is not None


def _header_paths(rows: list[Row], width: int) -> list[list[str]]:
    """For each column the header texts above it, top down, each once."""
    paths: list[list[str]] = [[] for _ in range(width)]
    for row in rows:
        for cell in row:
            name = cell.text.rstrip(" :")
            for column in range(cell.column, min(cell.column + cell.width, width)):
                if name and name not in paths[column]:
                    paths[column].append(name)
    return paths


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
        if _alone(row, width):
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
