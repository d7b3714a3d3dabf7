"""Where a table's header ends: rows of a thead, of th or bold cells, or labels over figures."""

from __future__ import annotations

import re

from fdarx_core.labels.grid import Row

_HEADER_WORDS = 15
_HEADER_ROWS = 4
_FIGURE = re.compile(r"[<>≤≥±(−–↑↓~+-]{0,2}\s?\d")
_UNIT = re.compile(r"(?!.{25})(?:\(?[Nn]\s?[=(]|\(?%|\(?[mµμkn]?c?[gL]\b|\((?!\d))")
_BARE_FIGURE = re.compile(r"[\d.,±%()<>≤≥\s–-]+")


def leading_rows(rows: list[Row], thead: int) -> int:
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
    short = all(cell.text.count(" ") < _HEADER_WORDS and not _is_figure(cell.text) for cell in row)
    return short and any(cell.width > 1 and cell.column > 0 for cell in row)


def _in_capitals(rows: list[Row]) -> bool:
    """A first row in capitals over a table that is not."""
    return len(rows[0]) > 1 and all(c.text.isupper() for c in rows[0]) and not any(c.text.isupper() for c in rows[1])


def _is_figure(text: str) -> bool:
    return _FIGURE.match(text) is not None


def header_paths(rows: list[Row], width: int) -> list[list[str]]:
    """For each column the header texts above it, top down, each once."""
    paths: list[list[str]] = [[] for _ in range(width)]
    for row in rows:
        for cell in row:
            name = cell.text.rstrip(" :")
            for column in range(cell.column, min(cell.column + cell.width, width)):
                if name and name not in paths[column]:
                    paths[column].append(name)
    return paths
