"""Text of pages that are pictures, in reading order: lines by RapidOCR, regions of the page by RapidLayout.

Both packages carry their models, so nothing is downloaded. Sources: PP-OCR (Du et al. 2020); the recursive XY-cut for
the order of regions (Nagy and Seth 1984).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import pypdfium2
from rapid_layout import RapidLayout
from rapidocr import RapidOCR

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""
Line: TypeAlias = tuple[Box, str]

DOTS_PER_INCH = 150
_POINTS_PER_INCH = 72
_TABLE = "table"
_MARGINS = frozenset(("header", "footer"))
_LEAST_SCORE = 0.5
_SAME_ROW = 0.5
"""The share of the height of the lower of two lines that they have in common if they are in one row."""


class PageRecognizer:
    """Recognizes the text of pages. The models are loaded once, when it is made.

    Raises ImportError where a package of the extra `ocr` is missing.
    """

    def __init__(self) -> None:
        self._ocr: Any
        self._layout: Any
        quiet: Any = {"Global.log_level": "critical"}
        logging.disable(logging.WARNING)  # RapidLayout logs each step of its start
        try:
            self._ocr, self._layout = RapidOCR(params=quiet), RapidLayout()
        finally:
            logging.disable(logging.NOTSET)

    def open(self, pdf: bytes) -> Callable[[int], str]:
        """Open a PDF; return the function from a page, counted from 0, to its text."""
        document = pypdfium2.PdfDocument(pdf)

        def read(page: int) -> str:
            picture = document[page].render(scale=DOTS_PER_INCH / _POINTS_PER_INCH).to_numpy()
            return self.text(picture)

        return read

    def text(self, picture: np.ndarray) -> str:
        """Return the text of a page.

        Paragraphs are divided by blank lines; the cells of a table's rows by " | ". Page headers and footers are left
        out.

        Args:
            picture: the pixels, shape (height, width, 3), in the order blue, green, red.
        """
        found = self._ocr(picture)
        lines = [
            (_bounds(corners), text)
            for corners, text, score in zip(
                () if found.boxes is None else found.boxes, found.txts or (), found.scores or (), strict=True
            )
            if score >= _LEAST_SCORE
        ]
        layout = self._layout(picture)
        names = layout.class_names or ()
        boxes = [(_bounds(box), name) for box, name in zip(() if not names else layout.boxes, names, strict=True)]
        regions = _by_region(lines, boxes)
        text, above = "", 0.0
        for kind, group, box in (regions[at] for at in _reading_order([one[2] for one in regions])):
            follows = not kind and 0 <= box[1] - above < box[3] - box[1]  # a line in no region, just below another
            text += ("\n" if follows else "\n\n") + _region_text(group, kind)
            above = box[3]
        return text.strip()


def _bounds(corners: Any) -> Box:
    """Return the bounds of points (x, y), or of boxes."""
    points = np.asarray(corners, dtype=float).reshape(-1, 2)
    (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return left, top, right, bottom


def _by_region(lines: Iterable[Line], boxes: Sequence[tuple[Box, str]]) -> list[tuple[str, list[Line], Box]]:
    """Return the lines of each region, with the region's kind and the bounds of its lines.

    A line belongs to the smallest region that holds its middle; a line outside of all is a region of its own, without
    a kind.
    """
    by_size = sorted(boxes, key=lambda one: (one[0][2] - one[0][0]) * (one[0][3] - one[0][1]))
    held: list[list[Line]] = [[] for _ in by_size]
    alone: list[tuple[str, list[Line], Box]] = []
    for box, text in lines:
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        holding = (at for at, ((a, b, c, d), _) in enumerate(by_size) if a <= x <= c and b <= y <= d)
        at = next(holding, None)
        if at is None:
            alone.append(("", [(box, text)], box))
        else:
            held[at].append((box, text))
    regions = [
        (name, group, _bounds([box for box, _ in group]))
        for (_, name), group in zip(by_size, held, strict=True)
        if group
    ]
    return [one for one in (*regions, *alone) if one[0] not in _MARGINS]


def _region_text(lines: Sequence[Line], kind: str) -> str:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda one: one[0][1]):
        if rows and _in_row(line[0], rows[-1][0][0]):
            rows[-1].append(line)
        else:
            rows.append([line])
    between = " | " if kind == _TABLE else " "
    return "\n".join(between.join(text for _, text in sorted(row)) for row in rows)


def _in_row(box: Box, other: Box) -> bool:
    common = min(box[3], other[3]) - max(box[1], other[1])
    return common > _SAME_ROW * min(box[3] - box[1], other[3] - other[1])


def _reading_order(boxes: Sequence[Box]) -> list[int]:
    """Return the positions of the boxes in reading order, by the recursive XY-cut.

    A set of boxes is cut at the horizontal gaps between them; where there is none, at the vertical gaps between
    columns. What cannot be cut is read from top to bottom.
    """

    def order(places: list[int]) -> list[int]:
        for low, high in ((1, 3), (0, 2)):
            groups = _cut(places, boxes, low, high)
            if len(groups) > 1:
                return [place for group in groups for place in order(group)]
        return sorted(places, key=lambda place: (boxes[place][1], boxes[place][0]))

    return order(list(range(len(boxes))))


def _cut(places: Sequence[int], boxes: Sequence[Box], low: int, high: int) -> list[list[int]]:
    """Return the places in groups between which there is a gap along one axis, in the order of the axis."""
    in_order = sorted(places, key=lambda place: boxes[place][low])
    ends = list(accumulate((boxes[place][high] for place in in_order), max))
    gaps = [at for at, (_, place) in enumerate(pairwise(in_order), 1) if boxes[place][low] >= ends[at - 1]]
    edges = [0, *gaps, len(in_order)]
    return [in_order[start:end] for start, end in pairwise(edges)]
