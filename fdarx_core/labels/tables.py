"""Tables as lines of text in which every value has the headers of its row and column.

A body row becomes one line, `row header | column header: value | column header: value`. Neighbouring cells under common
upper headers share them: `row header | upper header column header: value; column header: value`. A row of one cell
becomes the heading of the group below it. A spanning cell counts for every row and column that it spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from fdarx_core.labels.xml import CAPTION, CONTENT, ITEM, LIST, PARAGRAPH, TABLE, Element, children, clean, raw_text

_THEAD, _TBODY, _TFOOT, _TR, _TH, _TD = "thead", "tbody", "tfoot", "tr", "th", "td"
_BULLETS = frozenset("•●○◦▪■□")
_BULLET = re.compile(f"(?:^|(?<=; ))[{''.join(sorted(_BULLETS))}]\\s*(?=.)")  # the end of each item says the same
_AFTER_STOP = re.compile(r"(?<=[.,:;]); ")
CELL_TAGS = (_TD, _TH)
OWN_MARK = re.compile(r"(?:\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)]|[*†‡§¶#•●○◦▪■□–·-]+)(?=\s)")
"""The number, letter or sign that the author of an ordered list has written before an item."""
_ROMAN = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv")
_MAX_SPAN = 200
_HEADER_WORDS = 15
_HEADER_ROWS = 4
_NOTE_WORDS = 14
_TITLE_WORDS = 40  # of a row of one cell above the columns; in a table for layout such rows are running text
_REPEATED_WORDS = 15  # a longer text that spans rows is written once
_NUMBERED = re.compile(r"(?:table|figure)\b", re.I)
_FIGURE = re.compile(r"[<>≤≥±(−–↑↓~+-]{0,2}\s?\d")
_UNIT = re.compile(r"(?!.{25})(?:\(?[Nn]\s?[=(]|\(?%|\(?[mµμkn]?c?[gL]\b|\((?!\d))")
_BARE_FIGURE = re.compile(r"[\d.,±%()<>≤≥\s–-]+")


RowGroups: TypeAlias = tuple[list[Element], list[Element], list[Element]]
"""The `<tr>` elements of a table's head, body and foot."""


@dataclass(slots=True)
class Cell:
    """A cell with text, as one row of the grid has it.

    Attributes:
        column: the first column of the grid that it covers.
        width: the number of columns that it covers.
        first: whether this is its own row, not one further down that it spans.
    """

    text: str
    column: int
    width: int
    element: Element
    first: bool

    @property
    def is_header(self) -> bool:
        """Whether it is a `<th>`, or bold as headers without `<th>` are, or reaches down from a row above."""
        return not self.first or self.element.tag == _TH or _is_bold(self.element)


Row: TypeAlias = "list[Cell]"
_Spans: TypeAlias = "dict[int, tuple[Cell, int]]"
"""By column: the cell that reaches down into the next rows, and how many rows are left."""


def list_mark(number: int, style: str) -> str:
    """Return the mark of an item of an ordered list: "2.", in the styles LittleAlpha and BigRoman "b." and "II."

    Args:
        number: the number of the item, from 1.
        style: the `styleCode` of the list; others than those of letters and Roman numerals are Arabic.
    """
    style = style.lower()
    if style.endswith("alpha") and 0 < number <= 26:
        mark = chr(ord("a") + number - 1)
    elif style.endswith("roman") and 0 < number < len(_ROMAN):
        mark = _ROMAN[number]
    else:
        return f"{number}."
    return f"{mark.upper() if style.startswith('big') else mark}."


def item_mark(container: Element, number: int) -> str:
    """Return the mark of the item of that number, from 1, of a list; "" for a bullet, where the list is not ordered."""
    if container.tag != LIST or container.get("listType") != "ordered":
        return ""
    return list_mark(number, container.get("styleCode") or "")


def row_groups(table: Element) -> RowGroups:
    """Return the rows of the table's head, body and foot."""
    groups: RowGroups = [], [], []
    group_of = dict(zip((_THEAD, _TBODY, _TFOOT), groups, strict=True))
    for part in children(table):
        tag = part.tag
        if tag == _TR:
            groups[1].append(part)
        elif tag in group_of:
            group_of[tag] += [row for row in children(part) if row.tag == _TR]
    return groups


def layout_cells(groups: RowGroups) -> list[Element]:
    """Return the cells of a table that only frames running text: no row has a second cell. Else an empty list."""
    cells: list[Element] = []
    for rows in groups:
        for row in rows:
            if len(row) > 1:
                return []
            cells += row.iterchildren(_TD, _TH)
    return cells


def table_lines(table: Element, groups: RowGroups) -> Iterator[tuple[str, bool, str]]:
    """Yield the table's caption, group headings, rows and notes in order.

    Each comes with whether it is a heading, and with the caption and the headings that apply to it, one a line. Of rows
    of one cell above the columns these are the first and the last two, without long ones.
    """
    title: list[str] = []
    caption = next(table.iterchildren(CAPTION), None)
    if caption is not None and (text := clean(raw_text(caption))):
        yield text, True, ""
        title.append(text)
    _separate_blocks(table)
    head, body, foot = groups
    rows, width = _grid(head + body)
    header_rows = len(head)
    while len(rows) > 1 and _is_single_cell(rows[0], width):
        text = rows.pop(0)[0].text
        yield text, True, "\n".join(title)
        if text.count(" ") < _TITLE_WORDS:
            title = [*title[:1], *title[1:][-1:], text]
        header_rows = max(header_rows - 1, 0)
    depth = _header_depth(rows, header_rows) if len(rows) > 1 else 0
    above = "\n".join(title)
    if not depth and title and _begins_group(title, rows, width):
        title = title[:-1]
    for line, heading in _RowWriter(_header_paths(rows[:depth], width)).lines(rows[depth:], width):
        yield line, heading, "\n".join(title) if heading else above
        if heading:
            above = "\n".join([*title, line])
    for row in _grid(foot)[0]:
        if row:
            yield " | ".join(cell.text for cell in row), False, "\n".join(title)


def _begins_group(title: list[str], rows: list[Row], width: int) -> bool:
    """Return whether the last title of a table without headers is the heading of its first group of rows.

    It is if other groups follow, and it is not the table's only title.
    """
    followed = any(_is_single_cell(row, width) and row[0].text.count(" ") < _NOTE_WORDS for row in rows if row)
    return followed and (len(title) > 1 or not _NUMBERED.match(title[0]))


def _separate_blocks(table: Element) -> None:
    """Keep the blocks of a cell apart on the one line it becomes: a space around each, a semicolon after an item."""
    for block in table.iter(PARAGRAPH, LIST, ITEM, TABLE):
        tag = block.tag
        if tag == TABLE:
            if block is not table:
                for cell in block.iter(_TD, _TH):
                    cell.tail = "; " + (cell.tail or "")
            continue
        block.text = f" {_mark_in_cell(block)}{block.text or ''}" if tag == ITEM else " " + (block.text or "")
        if block.getnext() is not None:
            block.tail = ("; " if tag == ITEM else " ") + (block.tail or "")
        elif block.tail:
            block.tail = " " + block.tail


def _mark_in_cell(item: Element) -> str:
    """Return the mark of an item of an ordered list and a space.

    It is "" for a bullet, an item with a mark of its own, and where a list of one item or of figures is only layout.
    """
    container = item.getparent()
    if container is None or container.get("listType") != "ordered" or len(container) < 2:
        return ""
    text = clean(raw_text(item))
    if OWN_MARK.match(text) or _BARE_FIGURE.fullmatch(text):
        return ""
    number = 1 + sum(1 for _ in item.itersiblings(ITEM, preceding=True))
    return f"{item_mark(container, number)} "


def _grid(rows: list[Element]) -> tuple[list[Row], int]:
    """Return the cells with text of each row, and the number of columns.

    A cell that spans rows is in each of them, and is marked as not `first` after its own row.
    """
    grid: list[Row] = []
    spans: _Spans = {}
    columns = 0
    for element in rows:
        row: Row = []
        column = 0
        for td in children(element):
            tag = td.tag
            if tag != _TD and tag != _TH:
                continue
            while column in spans:
                column = _continue_span(spans[column][0], row)
            text = _cell_text(td)
            colspan, rowspan = td.get("colspan"), td.get("rowspan")
            width = 1 if colspan is None else _span(colspan)
            if text:
                row.append(Cell(text, column, width, td, True))
            if rowspan is not None and (left := _span(rowspan)) > 1:
                spans[column] = Cell(text, column, width, td, False), left
            column += width
        if spans:
            column = _close_row(spans, column, row)
        columns = max(columns, column)
        grid.append(row)
    return grid, columns


def _continue_span(cell: Cell, row: Row) -> int:
    """Add a cell that reaches down from above to the row, and return the next free column."""
    if cell.text:
        row.append(cell)
    return cell.column + cell.width


def _close_row(spans: _Spans, column: int, row: Row) -> int:
    """Continue the spans to the right of the row's last cell, and count the row off every span."""
    for start, (cell, left) in sorted(spans.items()):
        if start >= column:
            column = _continue_span(cell, row)
        if left <= 1:
            del spans[start]
        else:
            spans[start] = cell, left - 1
    return column


def _span(value: str) -> int:
    value = value.strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() and len(value) < 6 else 1


def _cell_text(td: Element) -> str:
    if len(td):
        text = clean(raw_text(td))
        if "; " in text:
            text = _AFTER_STOP.sub(" ", text.replace(" ; ", "; "))
    else:
        text = clean(td.text or "")
    if "|" in text:
        text = text.replace("|", "/")
    if text.isascii() or not (text[0] in _BULLETS or "; " in text):
        return text
    return _BULLET.sub("", text)


def _is_bold(td: Element) -> bool:
    """Return whether the cell's text begins inside bold content."""
    if (td.text or "").strip():
        return False
    for element in td.iter(CONTENT):
        if "bold" in (element.get("styleCode") or "").lower():
            return True
        if (element.text or "").strip():
            return False
    return False


def _is_single_cell(row: Row, width: int) -> bool:
    """Return whether one cell holds all text of the row and begins it. A value under a header does not count."""
    return width > 1 and len(row) == 1 and row[0].column == 0 and row[0].first


def _header_depth(rows: list[Row], thead: int) -> int:
    """Return how many rows at the top are headers: the thead, rows of th or bold cells, or labels over figures."""
    limit = min(_HEADER_ROWS, len(rows) - 1)
    if thead:
        return min(thead, len(rows) - 1)
    depth = 0
    for row in rows[:limit]:
        if len(row) < 2 or not all(cell.is_header for cell in row) or (depth and _is_data(row)):
            break
        depth += 1
    if not depth:
        depth = int(_labels_over_figures(rows) or _spans_columns(rows[0]) or _in_capitals(rows))
    while 0 < depth < limit and _divides(rows[depth - 1], rows[depth]):
        depth += 1
    return depth


def _divides(above: Row, row: Row) -> bool:
    """Return whether a row names the columns under a header that spans several, or their units under any header."""
    if len(row) > 1 and row[0].column > 0 and all(_UNIT.match(cell.text) for cell in row):
        return True
    spanning = [(cell.column, cell.column + cell.width) for cell in above if cell.width > 1 and cell.column > 0]
    under = [cell for cell in row if any(start <= cell.column < end for start, end in spanning)]
    return len(under) > 1 and not any(_is_figure(cell.text) for cell in under)


def _is_data(row: Row) -> bool:
    """Return whether the row has a name of its own ("No. of patients") and bare figures: no header, however bold."""
    return row[0].column == 0 and row[0].first and all(_BARE_FIGURE.fullmatch(cell.text) for cell in row[1:])


def _labels_over_figures(rows: list[Row]) -> bool:
    """Return whether the first row has no figures and the other columns of the rows below begin with figures."""
    first = [cell for cell in rows[0] if cell.column > 0]
    below = [cell for row in rows[1:6] for cell in row if cell.column > 0]
    if not first or len(below) < 2:
        return False
    return not any(_is_figure(cell.text) for cell in first) and 2 * sum(_is_figure(c.text) for c in below) > len(below)


def _spans_columns(row: Row) -> bool:
    """Return whether the row has only short texts, one of them over several columns."""
    short = all(cell.text.count(" ") < _HEADER_WORDS and not _is_figure(cell.text) for cell in row)
    return short and any(cell.width > 1 and cell.column > 0 for cell in row)


def _in_capitals(rows: list[Row]) -> bool:
    """Return whether the first row is in capitals and the second is not."""
    return len(rows[0]) > 1 and all(c.text.isupper() for c in rows[0]) and not any(c.text.isupper() for c in rows[1])


def _is_figure(text: str) -> bool:
    return _FIGURE.match(text) is not None


def _header_paths(rows: list[Row], width: int) -> list[list[str]]:
    """Return for each column the header texts above it, top down, each once."""
    paths: list[list[str]] = [[] for _ in range(width)]
    for row in rows:
        for cell in row:
            name = cell.text.rstrip(" :")
            for path in paths[cell.column : cell.column + cell.width]:
                if name and name not in path:
                    path.append(name)
    return paths


class _RowWriter:
    """Writes body rows under given headers, and remembers which headers it has used."""

    def __init__(self, paths: list[list[str]]) -> None:
        self.paths = paths
        self.used: set[int] = set()
        self.prefixes: dict[tuple[int, int, int], str] = {}

    def lines(self, rows: list[Row], width: int) -> Iterator[tuple[str, bool]]:
        """Yield the rows as lines, after one line of the headers that stand over no value."""
        written = [self._line(row, width) for row in rows if row]
        used = {text for column in self.used for text in self.paths[column]}
        unused = [text for path in self.paths for text in path if text not in used]
        if unused:
            yield " | ".join(dict.fromkeys(unused)), False
        yield from written

    def _line(self, row: Row, width: int) -> tuple[str, bool]:
        if _is_single_cell(row, width):
            text = row[0].text
            return text, text.count(" ") < _NOTE_WORDS
        line = ""
        previous = -1
        for cell in row:
            text, column = cell.text, cell.column
            if column == 0:
                header = "" if 0 in self.used else " ".join(self.paths[0])  # only in the first row
                self.used.add(0)
                line = f"{header}: {text}" if header else text
            elif cell.first or text.count(" ") < _REPEATED_WORDS:
                key = (previous, column, cell.width)
                prefix = self.prefixes.get(key)
                if prefix is None:
                    prefix = self.prefixes[key] = self._prefix(*key)
                line += (prefix if line else prefix.lstrip(" |;")) + text
            else:
                continue
            previous = column
        return line, False

    def _prefix(self, previous: int, column: int, width: int) -> str:
        """Return the text between a value and the one before it: a separator and the value's headers."""
        columns = range(column, min(column + width, len(self.paths)))
        self.used.update(columns)
        if width > 1:
            names = (" ".join(self.paths[spanned]) for spanned in columns if self.paths[spanned])
            return f" | {name}: " if (name := " / ".join(dict.fromkeys(names))) else " | "
        path = self.paths[column]
        # Upper headers that the cell shares with its neighbour; its own lowest header does not count.
        pairs = zip(self.paths[previous] if previous > 0 else (), path[:-1], strict=False)
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        name = " ".join(path[shared:])
        return ("; " if shared else " | ") + (f"{name}: " if name else "")
