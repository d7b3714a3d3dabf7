"""The diagram's links add up to the stage counts, whatever was rejected."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.records import StageCount
from fdarx_core.report.layout import label_lines, lay_out
from fdarx_core.report.retention import Dropped, Flow, check_accounts, draw_flow, split_stages

STAGES = ("rules", "duplicates")
Case = tuple[list[StageCount], dict[str, int], Dropped]
LANES = ("factual", "multihop", "refusal")


@st.composite
def accounts(draw: st.DrawFn) -> Case:
    """Stages, lanes and rejects that agree with each other."""
    lanes = {lane: draw(st.integers(0, 5000)) for lane in LANES}
    left, dropped, stages = dict(lanes), Counter[tuple[str, str, str]](), []
    for stage in STAGES:
        rows_in = sum(left.values())
        for number in range(draw(st.integers(0, 8))):
            for lane in LANES:
                rows = draw(st.integers(0, left[lane]))
                left[lane] -= rows
                dropped[stage, f"reason_{number}", lane] += rows
        kept = sum(left.values())
        stages.append(StageCount(stage, rows_in, kept, rows_in - kept, kept))
    return stages, lanes, +dropped


@given(accounts())
def test_every_stage_keeps_and_rejects_what_its_counts_say(
    case: Case,
) -> None:
    stages, lanes, dropped = case
    check_accounts(stages, dropped)
    flow = draw_flow(stages, lanes, dropped, "Candidates")
    for column, stage in enumerate(stages, start=2):
        rows: Counter[str] = Counter()
        for link in flow.links:
            if flow.nodes[link.target].column == column:
                rows[flow.nodes[link.target].kind] += link.rows
        assert (rows["kept"], rows["rejected"]) == (stage.kept, stage.rejected)


@given(accounts())
def test_no_node_gains_or_loses_rows(case: Case) -> None:
    stages, lanes, dropped = case
    flow = draw_flow(stages, lanes, dropped, "Candidates")
    came, went = _through(flow)
    last = max(node.column for node in flow.nodes)
    for at, node in enumerate(flow.nodes):
        assert at == 0 or came[at] == node.rows
        assert node.kind == "rejected" or node.column == last or went[at] == node.rows


@given(accounts())
def test_no_two_labels_of_a_column_lie_over_each_other(case: Case) -> None:
    stages, lanes, dropped = case
    flow = draw_flow(stages, lanes, dropped, "Candidates")
    layout = lay_out(flow)
    columns = defaultdict(list)
    for node, y in zip(flow.nodes, layout.y, strict=True):
        columns[node.column].append((y * layout.height, 8 * len(label_lines(node))))
    for places in columns.values():
        assert all(below - above >= half + other - 1e-6 for (above, half), (below, other) in pairwise(places))
        assert all(0 <= centre <= layout.height + 1e-6 for centre, _ in places)


def test_rare_reasons_share_a_node() -> None:
    dropped: Dropped = Counter({("rules", f"reason_{number}", ""): number for number in range(1, 9)})
    flow = draw_flow([StageCount("rules", 50, 14, 36, 14)], {"": 50}, dropped, "Rows")
    rejected = {node.label: node.rows for node in flow.nodes if node.kind == "rejected"}
    assert rejected == {"reason 8": 8, "reason 7": 7, "reason 6": 6, "reason 5": 5, "other reasons": 10}


def test_flow_is_cut_where_rows_multiply_and_where_questions_begin() -> None:
    stages = [
        StageCount("read", 10, 9, 1, 9),
        StageCount("select", 9, 5, 4, 5),
        StageCount("passages", 5, 5, 0, 90),
        StageCount("generate", 40, 40, 0, 40),
        StageCount("rules", 40, 30, 10, 30),
    ]
    groups, of_questions = split_stages(stages)
    assert [[stage.stage for stage in group] for group in groups] == [["read", "select", "passages"], ["generate"]]
    assert [stage.stage for stage in of_questions] == ["rules"]


def test_counts_that_disagree_with_the_rejects_are_refused() -> None:
    with pytest.raises(ValueError, match=r"stage rules: .* rejects/ holds 2"):
        check_accounts([StageCount("rules", 10, 7, 3, 7)], Counter({("rules", "too_long", "factual"): 2}))


def test_rejects_of_rows_that_never_came_in_are_refused() -> None:
    with pytest.raises(ValueError, match="stage rules"):
        draw_flow([StageCount("rules", 2, 1, 1, 1)], {"factual": 2}, Counter({("rules", "bad", "refusal"): 1}), "Rows")


def _through(flow: Flow) -> tuple[Counter[int], Counter[int]]:
    came, went = Counter[int](), Counter[int]()
    for link in flow.links:
        came[link.target] += link.rows
        went[link.source] += link.rows
    return came, went
