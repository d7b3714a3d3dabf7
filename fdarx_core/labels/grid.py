"""The grid of a table: which cell stands in which row and columns, spans filled, each cell's text on one line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.xml import NS, Element

TABLE, THEAD, TBODY, TFOOT, TR, TH, TD = (NS + name for name in ("table", "thead", "tbody", "tfoot", "tr", "th", "td"))
CONTENT, PARAGRAPH, ITEM, LIST = (NS + name for name in ("content", "paragraph", "item", "list"))
_BULLET = re.compile(r"(?:^|(?<=; ))[•●○◦▪■□]\s*(?=.)")  # ends of items say the same
_AFTER_STOP = re.compile(r"(?<=[.,:;]); ")
_MAX_SPAN = 200


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


def sections(table: Element) -> tuple[list[Element], list[Element], list[Element]]:
    """The rows of the table's head, body and foot."""
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
    for row in (row for part in sections(table) for row in part):
        if len(row) > 1:
            return []
        cells += [td for td in row if td.tag in (TD, TH)]
    return cells


def separate_blocks(table: Element) -> None:
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


def grid(rows: list[Element]) -> tuple[list[Row], int]:
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


def alone(row: Row, width: int) -> bool:
    """One cell with text, the rest of the row empty or spanned by it; a value under a header is not alone."""
    return width > 1 and len(row) == 1 and row[0].column == 0 and row[0].first
