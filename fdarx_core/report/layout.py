"""Where the nodes of a retention diagram stand, so that no two labels lie over each other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap

from fdarx_core.report.retention import Flow, Node

FLOW_HEIGHT = 240
"""Pixels that all rows of the first column take together."""

LABEL_WIDTH = 14
"""Characters in a line of a reason; longer ones are broken."""

_LINE_HEIGHT = 17
_GAP = 7


@dataclass(frozen=True, slots=True)
class Layout:
    """Node centres as shares of width and height, the figure's height in pixels, and the padding between nodes.

    Plotly scales links itself: to the column that, with this padding between its nodes, would fill the height.
    """

    x: list[float]
    y: list[float]
    height: float
    padding: float


def lay_out(flow: Flow) -> Layout:
    """Kept nodes on top of their column, rejected ones below, each with room for its label."""
    columns: dict[int, list[int]] = defaultdict(list)
    for at, node in enumerate(flow.nodes):
        columns[node.column].append(at)
    scale = FLOW_HEIGHT / max(flow.nodes[0].rows, 1)
    rooms = {number: [_room(flow.nodes[at], scale) for at in column] for number, column in columns.items()}
    height = max(sum(column) for column in rooms.values())
    y: dict[int, float] = {}
    for number, column in columns.items():
        ends = accumulate(rooms[number])
        y |= {at: (end - room / 2) / height for at, end, room in zip(column, ends, rooms[number], strict=True)}
    x = [0.001 + 0.998 * node.column / max(*columns, 1) for node in flow.nodes]
    drawn = [[flow.nodes[at].rows for at in column if flow.nodes[at].rows] for column in columns.values()]
    paddings = [(height - scale * sum(rows)) / (len(rows) - 1) for rows in drawn if len(rows) > 1]
    return Layout(x, [y[at] for at in range(len(flow.nodes))], height, min(paddings, default=0))


def label_lines(node: Node) -> list[str]:
    """A node's name and rows as they are printed beside it: rows on a line of their own below a kept node."""
    if node.kind == "kept":
        return [node.label, f"{node.rows:,}"]
    *before, last = wrap(node.label, LABEL_WIDTH)
    return [*before, f"{last} {node.rows:,}"]


def _room(node: Node, scale: float) -> float:
    return _GAP + max(node.rows * scale, _LINE_HEIGHT * len(label_lines(node)))
