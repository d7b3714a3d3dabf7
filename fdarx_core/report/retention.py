"""Layout of a retention diagram: nodes and links that add up to the stage counts, and their positions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from textwrap import wrap
from typing import Literal

from fdarx_core.records import StageCount
from fdarx_core.report.page_engine import readable

Kind = Literal["kept", "rejected"]
End = tuple[int, int]
"""Where a lane has come to: a position in `Flow.nodes`, and its rows."""

Dropped = Counter[tuple[str, str, str]]
"""(stage, reason, lane) → rejects. A lane is a question type, "" for rows that are no questions yet."""

TYPE_NAMES: dict[str, str] = {"factual": "Factual", "multihop": "Multi-hop", "refusal": "Refusal"}

UNITS: dict[str, str] = {
    "read": "Label files",
    "passages": "Labels",
    "contexts": "Passages",
    "generate": "Contexts",
}
"""What a row is at the first stage of a run of stages."""

KEPT_NAMES: dict[str, str] = {
    "read": "read",
    "identify": "newest version",
    "select": "selected",
    "passages": "with text",
    "contexts": "with contexts",
    "generate": "gave candidates",
    "rules": "rules",
    "duplicates": "unique",
}

REASONS_SHOWN = 4
"""Reasons drawn one by one at a stage; the rest share the node "other reasons"."""


@dataclass(frozen=True, slots=True)
class Node:
    """`kind` is kept or rejected; `lane` gives it its colour; `column` counts from the left, from 0."""

    label: str
    kind: Kind
    lane: str
    rows: int
    column: int


@dataclass(frozen=True, slots=True)
class Link:
    """`rows` that went from one node to another; ends are positions in `Flow.nodes`."""

    source: int
    target: int
    rows: int
    lane: str


@dataclass(slots=True)
class Flow:
    """One Sankey diagram: a run of stages in which a row stays one row. The first node is its start."""

    nodes: list[Node]
    links: list[Link] = field(default_factory=list)

    def add(self, label: str, kind: Kind, lane: str, sources: Mapping[str, End]) -> int:
        """Append a node with a link from each lane's end, one column to the right, and return its position."""
        target = len(self.nodes)
        column = 1 + max(self.nodes[source].column for source, _ in sources.values())
        self.nodes.append(Node(label, kind, lane, sum(rows for _, rows in sources.values()), column))
        self.links += [Link(source, target, rows, link_lane) for link_lane, (source, rows) in sources.items() if rows]
        return target


def split_stages(stages: Sequence[StageCount]) -> tuple[list[list[StageCount]], list[StageCount]]:
    """Stages before there are questions, in runs that each take in what the one before kept, and those of questions.

    A run ends where one row makes many. Questions exist from the stage after `generate` on.
    """
    first = [stage.stage for stage in stages].index("generate") + 1
    groups: list[list[StageCount]] = []
    for stage in stages[:first]:
        if groups and groups[-1][-1].kept == stage.rows_in:
            groups[-1].append(stage)
        else:
            groups.append([stage])
    return groups, list(stages[first:])


def check_accounts(stages: Sequence[StageCount], dropped: Dropped) -> None:
    """Raise ValueError where a stage's counts don't add up, or differ from the rejects on disk."""
    found: Counter[str] = Counter()
    for (stage, _, _), rows in dropped.items():
        found[stage] += rows
    for count in stages:
        if count.rows_in != count.kept + count.rejected or found[count.stage] != count.rejected:
            raise ValueError(
                f"stage {count.stage}: run.json says {count.rows_in} in = {count.kept} kept + {count.rejected} "
                f"rejected, rejects/ holds {found[count.stage]}; build the run again"
            )


def draw_flow(stages: Sequence[StageCount], lanes: Mapping[str, int], dropped: Dropped, start: str) -> Flow:
    """The flow of `lanes` (name → rows at the start) through stages that keep or reject each row.

    With several lanes, one node named `start` opens the diagram and the lanes part from it.
    Raises ValueError if a stage rejects other lanes, or more rows of a lane, than came in.
    """
    total = sum(lanes.values())
    flow = Flow([Node(start, "kept", "", total, 0)])
    ends: dict[str, End] = {"": (0, total)}
    if set(lanes) != {""}:
        ends = {lane: (_add_lane(flow, lane, rows), rows) for lane, rows in lanes.items()}
    for stage in stages:
        ends = _draw_stage(flow, stage.stage, ends, dropped)
    return flow


def _add_lane(flow: Flow, lane: str, rows: int) -> int:
    return flow.add(TYPE_NAMES.get(lane, lane), "kept", lane, {lane: (0, rows)})


def _draw_stage(flow: Flow, stage: str, ends: Mapping[str, End], dropped: Dropped) -> dict[str, End]:
    by_reason = _rejects_of(stage, dropped)
    lost = sum(by_reason.values(), Counter[str]())
    if any(rows > ends.get(lane, (0, 0))[1] for lane, rows in lost.items()):
        raise ValueError(f"stage {stage}: rejects {dict(lost)} are not among its rows {ends}; build the run again")
    kept = {lane: (source, rows - lost[lane]) for lane, (source, rows) in ends.items()}
    after = {lane: (_add_kept(flow, stage, lane, end), end[1]) for lane, end in kept.items()}
    for label, rejected in _grouped(by_reason).items():
        flow.add(label, "rejected", "", {lane: (ends[lane][0], rows) for lane, rows in rejected.items()})
    return after


def _add_kept(flow: Flow, stage: str, lane: str, end: End) -> int:
    # Short, because columns stand close: a lane's colour, and its first node, say which type it is.
    words = KEPT_NAMES.get(stage, stage)
    return flow.add(f"✓ {words if lane else words.capitalize()}", "kept", lane, {lane: end})


def _rejects_of(stage: str, dropped: Dropped) -> dict[str, Counter[str]]:
    by_reason: dict[str, Counter[str]] = {}
    for (name, reason, lane), rows in dropped.items():
        if name == stage:
            by_reason.setdefault(reason, Counter())[lane] += rows
    return by_reason


def _grouped(by_reason: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    ranked = sorted(by_reason, key=lambda reason: (-by_reason[reason].total(), reason))
    shown = ranked if len(ranked) <= REASONS_SHOWN + 1 else ranked[:REASONS_SHOWN]
    groups = {readable(reason): by_reason[reason] for reason in shown}
    for reason in ranked[len(shown) :]:
        groups.setdefault("other reasons", Counter()).update(by_reason[reason])
    return groups


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
