"""Retention diagrams: nodes and links from the stage counts, and their positions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from textwrap import wrap
from typing import Literal

from fdarx_core.records import StageCount
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import readable

Kind = Literal["kept", "rejected"]
End = tuple[int, int]
"""The last node of a question type, as its position in `Flow.nodes`, and its rows."""

Dropped = Counter[tuple[str, str, str]]
"""Number of rejects by stage, reason and question type; the type is "" for rows that are no questions yet."""

TYPE_NAMES: dict[str, str] = {"factual": "Factual", "multihop": "Multi-hop", "refusal": "Refusal"}

UNITS: dict[str, str] = {"read": "Label files", "passages": "Labels", "contexts": "Passages", "generate": "Contexts"}
"""The name of the rows at the first stage of a sequence of stages."""

KEPT_NAMES = PAGE_WORDS["kept_after"]

REASONS_SHOWN = 4
"""Reasons with a node of their own at a stage; the others share the node "other reasons"."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node; the question type gives the color, `column` counts from 0 from the left."""

    label: str
    kind: Kind
    type: str
    rows: int
    column: int


Link = tuple[int, int, int]
"""The positions of two nodes in `Flow.nodes`, and the rows that went from the first to the second."""


@dataclass(slots=True)
class Flow:
    """A Sankey diagram of a sequence of stages in which a row stays one row. The first node is its start."""

    nodes: list[Node]
    links: list[Link] = field(default_factory=list)

    def add(self, label: str, kind: Kind, type: str, sources: Mapping[str, End]) -> int:
        """Append a node in the next column, with links from the last nodes of the types, and return its position."""
        target = len(self.nodes)
        column = 1 + max(self.nodes[source].column for source, _ in sources.values())
        self.nodes.append(Node(label, kind, type, sum(rows for _, rows in sources.values()), column))
        self.links += [(source, target, rows) for source, rows in sources.values() if rows]
        return target


def split_stages(stages: Sequence[StageCount]) -> tuple[list[list[StageCount]], list[StageCount]]:
    """Split the stages into sequences before there are questions, and the stages of questions.

    In a sequence the rows of a stage are those that the stage before kept. Questions exist after the stage `generate`.
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


def draw_flow(stages: Sequence[StageCount], types: Mapping[str, int], dropped: Dropped, start: str) -> Flow:
    """Return the flow of `types` (name → rows at the start) through stages that keep or reject each row.

    With several types, the diagram begins with one node named `start`. Raises ValueError if a stage rejects other
    types, or more rows of a type, than it received.
    """
    total = sum(types.values())
    flow = Flow([Node(start, "kept", "", total, 0)])
    ends: dict[str, End] = {"": (0, total)}
    if set(types) != {""}:
        ends = {
            type: (flow.add(TYPE_NAMES.get(type, type), "kept", type, {type: (0, rows)}), rows)
            for type, rows in types.items()
        }
    for stage in stages:
        ends = _draw_stage(flow, stage.stage, ends, dropped)
    return flow


def _draw_stage(flow: Flow, stage: str, ends: Mapping[str, End], dropped: Dropped) -> dict[str, End]:
    by_reason: dict[str, Counter[str]] = {}
    for (name, reason, type), rows in dropped.items():
        if name == stage:
            by_reason.setdefault(reason, Counter())[type] += rows
    lost = sum(by_reason.values(), Counter[str]())
    if any(rows > ends.get(type, (0, 0))[1] for type, rows in lost.items()):
        raise ValueError(f"stage {stage}: rejects {dict(lost)} are not among its rows {ends}; build the run again")
    kept = {type: (source, rows - lost[type]) for type, (source, rows) in ends.items()}
    after = {type: (_add_kept(flow, stage, type, end), end[1]) for type, end in kept.items()}
    for label, rejected in _grouped(by_reason).items():
        flow.add(label, "rejected", "", {type: (ends[type][0], rows) for type, rows in rejected.items()})
    return after


def _add_kept(flow: Flow, stage: str, type: str, end: End) -> int:
    # The name is short because columns are close; color and first node show the type.
    words = KEPT_NAMES.get(stage, stage)
    return flow.add(f"✓ {words if type else words.capitalize()}", "kept", type, {type: end})


def _grouped(by_reason: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    ranked = sorted(by_reason, key=lambda reason: (-by_reason[reason].total(), reason))
    shown = ranked if len(ranked) <= REASONS_SHOWN + 1 else ranked[:REASONS_SHOWN]
    groups = {readable(reason): by_reason[reason] for reason in shown}
    for reason in ranked[len(shown) :]:
        groups.setdefault("other reasons", Counter()).update(by_reason[reason])
    return groups


FLOW_HEIGHT = 240
"""Height in pixels of all rows of the first column."""

LABEL_WIDTH = 14
"""Characters in a line of a reason; longer reasons are broken into lines."""

_LINE_HEIGHT = 17
_GAP = 7


def lay_out(flow: Flow) -> tuple[list[float], list[float], float, float]:
    """Return x and y of the nodes as shares of width and height, the height in pixels, and the padding of nodes.

    Kept nodes are at the top of their column, rejected ones below, each with space for its label. Plotly scales links
    itself: to the column that, with this padding between its nodes, would fill the height.
    """
    columns: dict[int, list[int]] = defaultdict(list)
    for at, node in enumerate(flow.nodes):
        columns[node.column].append(at)
    scale = FLOW_HEIGHT / max(flow.nodes[0].rows, 1)
    needed = [_GAP + max(node.rows * scale, _LINE_HEIGHT * len(label_lines(node))) for node in flow.nodes]
    rooms = {number: [needed[at] for at in column] for number, column in columns.items()}
    height = max(sum(column) for column in rooms.values())
    y: dict[int, float] = {}
    for number, column in columns.items():
        ends = accumulate(rooms[number])
        y |= {at: (end - room / 2) / height for at, end, room in zip(column, ends, rooms[number], strict=True)}
    x = [0.001 + 0.998 * node.column / max(*columns, 1) for node in flow.nodes]
    drawn = [[flow.nodes[at].rows for at in column if flow.nodes[at].rows] for column in columns.values()]
    paddings = [(height - scale * sum(rows)) / (len(rows) - 1) for rows in drawn if len(rows) > 1]
    return x, [y[at] for at in range(len(flow.nodes))], height, min(paddings, default=0)


def label_lines(node: Node) -> list[str]:
    """Return the label of a node in lines; the rows of a kept node are on a line of their own."""
    if node.kind == "kept":
        return [node.label, f"{node.rows:,}"]
    *before, last = wrap(node.label, LABEL_WIDTH)
    return [*before, f"{last} {node.rows:,}"]
