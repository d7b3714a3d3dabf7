"""The share of table cells whose line in a passage has their column headers: 200 random cells of tables with a thead.

    python -m benchmarks.table_headers [--show] [PATH …]

The grid is built from the raw XML by code that shares nothing with the parser. A cell is right when a line of a
passage has its lowest column header, a colon and its text, with all upper headers earlier in the line. A header over
the whole width is the table's title, which must be a line of its own. Exits 1 when a cell is not right.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from lxml import etree

from benchmarks import read_documents, run
from fdarx_core.labels import parse_document

SAMPLE, SEED = 200, 0
_NS = {"h": "urn:hl7-org:v3"}
_OTHER = re.compile(r"[^a-z0-9.<>%:^\[\]]+")


DataCell = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A body cell outside the first column, as patterns: its text, the table's titles, its headers from the top."""


def examples_of(data: bytes) -> Iterator[DataCell]:
    """Yield the cells with text, outside the first column, whose column has a header, in tables with a thead."""
    for table in etree.fromstring(data).iterfind(".//h:table[h:thead]", _NS):
        if table.xpath("ancestor::h:excerpt", namespaces=_NS):
            continue
        head = table.findall("h:thead/h:tr", _NS)
        grid = _grid(head + table.findall("h:tbody/h:tr", _NS))
        full = max(map(len, grid))
        for row in grid[len(head) :]:
            for column, (cell, width) in row.items():
                above = [over[column] for over in grid[: len(head)] if column in over]
                patterns = [(_pattern(header).rstrip(":"), spanned == full) for header, spanned in above]
                titles, headers = (
                    tuple(dict.fromkeys(text for text, is_title in patterns if text and is_title is wanted))
                    for wanted in (True, False)
                )
                text = _pattern(cell)
                if (
                    column
                    and width == 1
                    and headers
                    and text
                    and len({one for one, _ in row.values() if _pattern(one)}) > 1
                ):
                    yield text, titles, headers


def _grid(rows: list[etree._Element]) -> list[dict[int, tuple[etree._Element, int]]]:
    """Return for each row the cell that covers each column, and the number of columns that it covers."""
    grid: list[dict[int, tuple[etree._Element, int]]] = [{} for _ in rows]
    for index, row in enumerate(rows):
        column = 0
        for cell in row.iterchildren(f"{{{_NS['h']}}}td", f"{{{_NS['h']}}}th"):
            while column in grid[index]:
                column += 1
            width, height = int(cell.get("colspan") or 1), int(cell.get("rowspan") or 1)
            for below in range(index, min(index + height, len(rows))):
                grid[below].update(dict.fromkeys(range(column, column + width), (cell, width)))
    return grid


def _pattern(element: etree._Element) -> str:
    """Return a pattern of the element's text in a squashed line, for all ways to write its superscripts."""
    name = etree.QName(element).localname
    if name in ("footnote", "footnoteRef"):
        return r"(?:\[\d+\])?"
    text = re.escape(squash(element.text or ""))
    for child in element.iterchildren("*"):
        text += _pattern(child) + re.escape(squash(child.tail or ""))
    return rf"(?:\[?\^?{text}\]?)?" if name == "sup" else text


def squash(text: str) -> str:
    """Return the text without white space and most punctuation, in lower case."""
    return _OTHER.sub("", text.lower())


def is_right(example: DataCell, lines: list[str]) -> bool:
    """Return whether a line has the value after its lowest header, with the upper headers before, and the titles."""
    text, titles, (*upper, leaf) = example
    if not all(any(re.fullmatch(title + ":?", line) for line in lines) for title in titles):
        return False
    beside = re.compile(f"{leaf}:+{text}")
    before = (line[: found.start()] for line in lines for found in beside.finditer(line))
    return any(all(re.search(header, start) for header in upper) for start in before)


def main(*paths: str, show: bool = False) -> int:
    """Print the share of right cells, and with --show each cell."""
    documents = read_documents(paths)
    pool = [(data, example) for data in documents for example in examples_of(data)]
    sample = random.Random(SEED).sample(pool, min(SAMPLE, len(pool)))
    wrong = []
    for data, example in sample:
        lines = [squash(line) for passage in parse_document(data)[1] for line in passage.text.split("\n")]
        right = is_right(example, lines)
        if not right:
            wrong.append(example)
        if show:
            print(example[2], "→", example[0], "" if right else "WRONG")
    share = 1 - len(wrong) / max(len(sample), 1)
    print(f"{len(sample)} cells of {len(pool)} in tables with a thead: {share:.1%} right")
    for example in wrong:
        print("wrong:", example)
    return int(bool(wrong))


if __name__ == "__main__":
    run(main)
