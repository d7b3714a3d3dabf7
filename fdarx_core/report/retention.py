"""What a build kept and lost: retention diagrams from the stage counts, and sentences for the terminal and the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Literal

from fdarx_core.filters.round_trip import STAGE as ROUND_TRIP
from fdarx_core.generation.candidates import STAGE as GENERATE
from fdarx_core.records import StageCount
from fdarx_core.records.question_types import QUESTION_TYPES, type_title
from fdarx_core.report.page_engine import PAGE_WORDS, listed, plural, readable
from fdarx_core.storage.dataset_card import BASELINE, model_names, who_judged

Kind = Literal["kept", "rejected"]
End = tuple[int, int]
"""The last node of a question type, as its position in `SankeyDiagram.nodes`, and its rows."""

Dropped = Counter[tuple[str, str, str]]
"""Number of rejects by stage, reason and question type; the type is "" for rows that are no questions yet."""


def ordered_types(present: Collection[str]) -> list[str]:
    """Return question types in the order of the pages; other types follow by name."""
    return [*(name for name in QUESTION_TYPES if name in present), *sorted({*present}.difference(QUESTION_TYPES))]


UNITS: dict[str, str] = {"read": "Label files", "passages": "Labels", "contexts": "Passages", "generate": "Contexts"}
"""The name of the rows at the first stage of a sequence of stages."""

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


@dataclass(slots=True)
class SankeyDiagram:
    """A Sankey diagram of a sequence of stages in which a row stays one row. The first node is its start.

    A link has the positions of two nodes, and the rows that went from the first to the second.
    """

    nodes: list[Node]
    links: list[tuple[int, int, int]] = field(default_factory=list)

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


def draw_flow(stages: Sequence[StageCount], types: Mapping[str, int], dropped: Dropped, start: str) -> SankeyDiagram:
    """Return the flow of `types` (name → rows at the start) through stages that keep or reject each row.

    With several types, the diagram begins with one node named `start`. Raises ValueError if a stage rejects other
    types, or more rows of a type, than it received.
    """
    total = sum(types.values())
    flow = SankeyDiagram([Node(start, "kept", "", total, 0)])
    ends: dict[str, End] = {"": (0, total)}
    if set(types) != {""}:
        ends = {
            type: (flow.add(type_title(type), "kept", type, {type: (0, rows)}), rows) for type, rows in types.items()
        }
    for stage in (one.stage for one in stages):
        by_reason: dict[str, Counter[str]] = {}
        for (name, reason, type), rows in dropped.items():
            if name == stage:
                by_reason.setdefault(reason, Counter())[type] += rows
        lost = sum(by_reason.values(), Counter[str]())
        if any(rows > ends.get(type, (0, 0))[1] for type, rows in lost.items()):
            raise ValueError(f"stage {stage}: rejects {dict(lost)} are not among its rows {ends}; build the run again")
        before, ends = ends, {}
        for type, (source, rows) in before.items():
            # short, as columns are close; color and first node show the type
            words = PAGE_WORDS["kept_after"].get(stage, stage)
            label, kept = f"✓ {words if type else words.capitalize()}", rows - lost[type]
            ends[type] = flow.add(label, "kept", type, {type: (source, kept)}), kept
        ranked = sorted(by_reason, key=lambda reason: (-by_reason[reason].total(), reason))
        shown = ranked if len(ranked) <= REASONS_SHOWN + 1 else ranked[:REASONS_SHOWN]
        rejected = {readable(reason): by_reason[reason] for reason in shown}
        for reason in ranked[len(shown) :]:
            rejected.setdefault("other reasons", Counter()).update(by_reason[reason])
        for label, counts in rejected.items():
            flow.add(label, "rejected", "", {type: (before[type][0], rows) for type, rows in counts.items()})
    return flow


FLOW_HEIGHT = 240
"""Height in pixels of all rows of the first column."""

LABEL_WIDTH = 14
"""Characters in a line of a reason; longer reasons are broken into lines."""

LINE_HEIGHT = 18
"""Pixels of a line of text in a chart."""
_GAP = 6


def lay_out(flow: SankeyDiagram) -> tuple[list[float], float, float]:
    """Return the tops of the nodes, the height of a row, and the height of the diagram, in pixels.

    Kept nodes are at the top of their column, rejected ones below, each with space for its label.
    """
    scale = FLOW_HEIGHT / max(flow.nodes[0].rows, 1)
    ends: dict[int, float] = defaultdict(float)
    tops: list[float] = []
    for node in flow.nodes:
        room = _GAP + max(node.rows * scale, LINE_HEIGHT * len(label_lines(node)))
        tops.append(ends[node.column] + (room - node.rows * scale) / 2)
        ends[node.column] += room
    return tops, scale, max(ends.values())


def label_lines(node: Node) -> list[str]:
    """Return the label of a node in lines; the rows of a kept node are on a line of their own."""
    if node.kind == "kept":
        return [node.label, f"{node.rows:,}"]
    return wrap(f"{node.label} {node.rows:,}", LABEL_WIDTH)


TOO_MANY = 0.1
"""The share of unusable replies from which a stage, or a model, is named."""
MOST = 0.5
"""The share of rejected questions from which a stage is named."""
RULES = "rules"
_MAIN_REASONS = 2
_STRONGER = "Read some of them in responses/ of the run; if the model ignores the prompt, take a stronger one."


def why_rejected(stage: str, reason: str) -> str:
    """Return what a reason of a stage means, "" for a reason that says it itself."""
    if meaning := PAGE_WORDS["reject_reasons"].get(f"{stage}/{reason}"):
        return meaning
    beginnings = PAGE_WORDS["reason_beginnings"]
    general = next((meaning for start, meaning in beginnings.items() if reason.startswith(f"{start}_")), "")
    return general or (PAGE_WORDS["unusable_replies"].get(reason, "") if stage == GENERATE else "")


def meaning_of(reason: str, *, given: bool = False) -> str:
    """Return what a reason of unusable replies means and what to do; one that has no entry is a failed request.

    The replies were `given` by a file if no model was asked for them.
    """
    known = reason if reason in PAGE_WORDS["unusable_replies"] else "failed_request"
    remedy = PAGE_WORDS["unusable_remedies"].get("given" if given else known, _STRONGER)
    return f"{PAGE_WORDS['unusable_replies'][known]} {remedy}"


def unusable_lines(info: Mapping[str, Any]) -> list[str]:
    """Return sentences for each stage of a build, as run.json has it, at which many replies were unusable."""
    return [
        f"{_who(one['stage'], info)}: {one['unusable']:,} of {one['replies']:,} replies at the stage {one['stage']} "
        f"were unusable, most as {one['reason']}. {meaning_of(one['reason'])}"
        for one in info.get("replies", [])
        if one["unusable"] > TOO_MANY * one["replies"]
    ]


def silent_roles(info: Mapping[str, Any]) -> set[str]:
    """Return the roles of a build, with their models, of which no reply at a stage could be used."""
    return {_who(one["stage"], info) for one in info.get("replies", []) if 0 < one["replies"] == one["unusable"]}


def heavy_loss_lines(info: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each stage that rejects most of the questions that a model wrote, judged or read.

    A model that is too weak for its task often replies in the right form, so that nothing is unusable.
    """
    by_model = {row["stage"] for row in info.get("replies", [])} - {GENERATE}
    if model_names(info.get("config", {}).get("generator", BASELINE)) != BASELINE:
        by_model.add(RULES)
    lines: list[str] = []
    for one in info.get("stages", []):
        stage, rejected, rows = one["stage"], one["rejected"], one["rows_in"]
        if stage not in by_model or rejected <= MOST * rows:
            continue
        reasons = (reason for reason in info.get("reject_reasons", []) if reason["stage"] == stage)
        most = next((f", most as {reason['reason']}" for reason in reasons), "")
        task = "does not follow the prompt" if stage == RULES else "cannot judge them"
        lines.append(
            f"{_who(stage, info)}: {rejected:,} of {rows:,} questions were rejected at the stage {stage}{most}. "
            f"Read some of the rejects: either the questions are bad, or this model {task}."
        )
    return lines


def missing_lines(info: Mapping[str, Any]) -> list[str]:
    """Return sentences on questions without a verdict, and on labels of which the reader saw a part."""
    lines: list[str] = []
    if lacking := info.get("questions_without_verdict"):
        total = sum(info["questions"].values())
        lines.append(
            f"{lacking:,} of {total:,} questions were kept although a verdict of at least one stage is missing; their "
            "column unscored names the stages, and --strict drops them."
        )
    if cut := info.get("labels_read_in_part"):
        longer = "label is" if cut == 1 else "labels are"
        lines.append(f"{cut:,} {longer} longer than the context of the reader, who was shown the most important parts.")
    return lines


def main_reasons(info: Mapping[str, Any]) -> list[str]:
    """Return the first of the reasons in run.json for which rows were rejected, in words."""
    return [
        f"{plural(one['rows'], 'row')} at {one['stage']} as {one['reason']}. "
        f"{why_rejected(one['stage'], one['reason'])}".strip()
        for one in info.get("reject_reasons", [])[:_MAIN_REASONS]
    ]


def build_sentence(questions: Mapping[str, int], labels: int, config: Mapping[str, Any]) -> str:
    """Return the result of a build: its questions by type, its labels, and who wrote and judged the questions."""
    types = [kind for kind in ordered_types(questions) if questions[kind]]
    named = [f"{questions[kind]:,} {type_title(kind).lower()}" for kind in types]
    if not named:
        return f"This build made no question from {plural(labels, 'label')}."
    return f"This build has {listed(named)} questions from {plural(labels, 'label')}. {who_judged(config)}"


def _who(stage: str, info: Mapping[str, Any]) -> str:
    """Return the role whose model replies at a stage, with the name of the model."""
    role = {GENERATE: "generator", RULES: "generator", ROUND_TRIP: "reader"}.get(stage, "judge")
    names = model_names(info.get("config", {}).get(role, ""))
    return f"{'writer' if role == 'generator' else role} {names}".strip()
