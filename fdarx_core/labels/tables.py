"""Tables written out so that every value stands with the headers of its row and of its column.

A body row becomes one line, `row header | column header: value | column header: value`; neighbours under common upper
headers share them, `row header | upper header column header: value; column header: value`. A row of one cell becomes the
heading of the group below it. Spanning cells count for every row and column they span.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fdarx_core.labels.inline import LINE_BREAK, clean, raw_text
from fdarx_core.labels.xml import NS, Element

THEAD, TBODY, TFOOT, TR, TH, TD = (NS + name for name in ("thead", "tbody", "tfoot", "tr", "th", "td"))
CAPTION, CONTENT, PARAGRAPH, ITEM, LIST = (NS + name for name in ("caption", "content", "paragraph", "item", "list"))
_MAX_SPAN = 200
_HEADER_ROWS = 4
_NOTE_WORDS = 14
_REPEATED_WORDS = 15  # a longer text that spans rows is written once


@dataclass(slots=True)
class Cell:
    """A table cell; `column` is its first column in the grid, `width` how many it spans, `first` its first row."""

    text: str
    column: int
    width: int
    header: bool
    bold: bool
    first: bool = True


Row = list[Cell]


def table_lines(table: Element) -> Iterator[tuple[str, bool]]:
    """The table's caption, groups, rows and notes in order, as (line, whether the line is a heading)."""
    head, body, foot = _sections(table)
    caption = table.find(CAPTION)
    if caption is not None and (text := _cell_text(caption)):
        yield text, True
    rows = _grid(head + body)
    width = max((cell.column + cell.width for row in rows for cell in row), default=0)
    while len(rows) > 1 and _alone(rows[0], width):
        yield next(cell.text for cell in rows.pop(0) if cell.text), True
        head = head[1:]
    depth = _leading_rows(rows, len(head)) if len(rows) > 1 else 0
    yield from _Writer(_header_paths(rows[:depth], width)).lines(rows[depth:], width)
    for row in _grid(foot):
        if line := " | ".join(cell.text for cell in row if cell.text):
            yield line, False


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


def _grid(rows: list[Element]) -> list[Row]:
    """Rows with spans filled: a cell that spans rows stands in each of them, marked as not first after its own."""
    grid: list[Row] = []
    open_spans: dict[int, tuple[Cell, int]] = {}
    for element in rows:
        row: Row = []
        column = 0
        for td in element:
            if td.tag not in (TD, TH):
                continue
            while column in open_spans:
                column = _continue_span(open_spans, column, row)
            cell = _cell(td, column)
            row.append(cell)
            if (height := _span(td, "rowspan")) > 1:
                open_spans[column] = (cell, height)
            column += cell.width
        for start in sorted(start for start in open_spans if start >= column):
            if start in open_spans:
                _continue_span(open_spans, start, row)
        _age(open_spans, row)
        grid.append(row)
    return grid


def _continue_span(open_spans: dict[int, tuple[Cell, int]], column: int, row: Row) -> int:
    cell, _ = open_spans[column]
    row.append(Cell(cell.text, column, cell.width, cell.header, cell.bold, first=False))
    return column + cell.width


def _age(open_spans: dict[int, tuple[Cell, int]], row: Row) -> None:
    row.sort(key=lambda cell: cell.column)
    for column, (cell, left) in list(open_spans.items()):
        if left <= 1:
            del open_spans[column]
        else:
            open_spans[column] = (cell, left - 1)


def _span(td: Element, name: str) -> int:
    value = td.get(name)
    if value is None:
        return 1
    value = value.strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() and len(value) < 6 else 1


def _cell(td: Element, column: int) -> Cell:
    text = _cell_text(td)
    return Cell(text, column, _span(td, "colspan"), td.tag == TH, bool(text) and _is_bold(td))


def _cell_text(td: Element) -> str:
    """A cell on one line: paragraphs and breaks become spaces, list items end in a semicolon."""
    if not len(td):
        return clean(td.text or "")
    for item in td.iter(ITEM):
        item.tail = "; "
    for paragraph in td.iter(PARAGRAPH, LIST):
        paragraph.tail = " " + (paragraph.tail or "")
    return clean(raw_text(td).replace(LINE_BREAK, " ")).rstrip("; ").replace(" ; ", "; ").replace("|", "/")


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
    filled = [cell for cell in row if cell.text]
    return width > 1 and len(filled) == 1 and filled[0].column == 0 and filled[0].first


def _leading_rows(rows: list[Row], thead: int) -> int:
    """How many rows at the top are headers: the thead, or rows of th or bold cells, or labels over figures."""
    if thead:
        return min(thead, len(rows) - 1)
    depth = 0
    while depth < min(_HEADER_ROWS, len(rows) - 1) and _all_headers(rows[depth]):
        depth += 1
    if not depth:
        depth = int(_labels_over_figures(rows))
    while 0 < depth < min(_HEADER_ROWS, len(rows) - 1) and _divides(rows[depth - 1], rows[depth]):
        depth += 1
    return depth


def _divides(above: Row, row: Row) -> bool:
    """Whether a row names the columns under a header that spans several."""
    spanning = [(cell.column, cell.column + cell.width) for cell in above if cell.width > 1 and cell.column > 0]
    under = [cell for cell in row if cell.text and any(start <= cell.column < end for start, end in spanning)]
    return len(under) > 1 and not any(_is_figure(cell.text) for cell in under)


def _all_headers(row: Row) -> bool:
    filled = [cell for cell in row if cell.text]
    return len(filled) > 1 and all(cell.header or cell.bold or not cell.first for cell in filled)


def _labels_over_figures(rows: list[Row]) -> bool:
    """A first row without figures above rows whose other columns begin with figures."""
    first = [cell for cell in rows[0] if cell.text and cell.column > 0]
    below = [cell for row in rows[1:6] for cell in row if cell.text and cell.column > 0]
    if not first or len(below) < 2:
        return False
    return not any(_is_figure(cell.text) for cell in first) and 2 * sum(_is_figure(c.text) for c in below) > len(below)


def _is_figure(text: str) -> bool:
    return text[0].isdigit() or (len(text) > 1 and text[0] in "<>≤≥±(-−–↑↓~+" and any(map(str.isdigit, text[:4])))


def _header_paths(rows: list[Row], width: int) -> list[list[str]]:
    """For each column the header texts above it, top down, each once."""
    paths: list[list[str]] = [[] for _ in range(width)]
    for row in rows:
        for cell in row:
            for column in range(cell.column, min(cell.column + cell.width, width)):
                if cell.text and cell.text not in paths[column]:
                    paths[column].append(cell.text)
    return paths


class _Writer:
    """Writes body rows under given headers, and remembers which headers it has used."""

    def __init__(self, paths: list[list[str]]) -> None:
        self.paths = paths
        self.used: set[int] = set()

    def lines(self, rows: list[Row], width: int) -> Iterator[tuple[str, bool]]:
        written = [self._line(row, width) for row in rows if any(cell.text for cell in row)]
        if unused := self._unused():
            yield unused, False
        yield from written

    def _line(self, row: Row, width: int) -> tuple[str, bool]:
        if _alone(row, width):
            text = next(cell.text for cell in row if cell.text)
            return text, text.count(" ") < _NOTE_WORDS
        line = ""
        previous: list[str] = []
        for cell in row:
            if not cell.text or (not cell.first and cell.column > 0 and cell.text.count(" ") >= _REPEATED_WORDS):
                continue
            path = self._path(cell)
            shared = _common(previous, path)
            name = " ".join(path[shared:])
            line += ("; " if shared else " | " if line else "") + (f"{name}: {cell.text}" if name else cell.text)
            previous = path
        return line, False

    def _path(self, cell: Cell) -> list[str]:
        """The headers of one cell; the first column heads its row, so its own header stands once, in the first row."""
        columns = range(cell.column, min(cell.column + cell.width, len(self.paths)))
        if cell.column == 0 and 0 in self.used:
            return []
        self.used.update(columns)
        if len(columns) == 1 or cell.column == 0:
            return self.paths[cell.column]
        return [" / ".join(dict.fromkeys(" ".join(self.paths[column]) for column in columns if self.paths[column]))]

    def _unused(self) -> str:
        """Headers that stand over no value still belong to the text."""
        used = {text for column in self.used for text in self.paths[column]}
        left = (text for column, path in enumerate(self.paths) if column not in self.used for text in path)
        return " | ".join(dict.fromkeys(text for text in left if text not in used))


def _common(previous: list[str], path: list[str]) -> int:
    """How many upper headers a cell shares with its neighbour, its own lowest header aside."""
    shared = 0
    while shared < min(len(previous), len(path)) - 1 and previous[shared] == path[shared]:
        shared += 1
    return shared
