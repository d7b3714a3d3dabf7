"""Static SVG charts: axes, marks and their texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from fdarx_core.records import Estimate
from fdarx_core.report.charts import (
    Series,
    bars,
    histogram,
    intervals,
    linear_axis,
    lines,
    logarithmic_axis,
    sankey,
    scatter,
)
from fdarx_core.report.page_engine import Chart, template_macros
from fdarx_core.report.retention import Node, SankeyDiagram

HOSTILE = '</title></svg><script>alert(1)</script> & "dose"'


def drawn(chart: Chart) -> str:
    return str(template_macros("chart.html.j2").drawing("figure-a", "A title", "A note", chart))


def flow() -> SankeyDiagram:
    nodes = [Node("Rows", "kept", "", 10, 0), Node("Kept", "kept", "", 7, 1), Node(HOSTILE, "rejected", "", 3, 1)]
    return SankeyDiagram(nodes, [(0, 1, 7), (0, 2, 3)])


ESTIMATES = [Estimate(0.5, 0.25, 0.75), Estimate(None), Estimate(0.0, 0.0, 0.125)]
NAMES = [HOSTILE, "b", "c"]
CHARTS = {
    "counts": bars(NAMES, [Series("x", "#111111", [1, 0, 3]), Series("y", "#222222", [2, 0, 1])], "counts", "rows"),
    "parts": bars(NAMES, [Series("x", "#111111", [0.5, 1, 0]), Series("y", "#222222", [0.5, 0, 1])], "parts"),
    "shares": bars(NAMES, [Series("x", "#111111", [0.0, 0.25, 0.5])], "shares"),
    "estimates": bars(NAMES, [Series("x", "#111111", ESTIMATES)], "estimates", "accuracy"),
    "no bars": bars([], [], "counts"),
    "intervals": intervals(NAMES, [Series("x", "#111111", ESTIMATES)], "rho"),
    "histogram": histogram([(0, 5, 2, "0-4"), (5, 10, 4000, "5-9")], "words", "passages"),
    "empty histogram": histogram([], "words", "passages"),
    "scatter": scatter([(HOSTILE, ESTIMATES[0], ESTIMATES[2]), ("b", ESTIMATES[2], ESTIMATES[2])], "x", "y"),
    "amounts": scatter([("a", Estimate(0.5), ESTIMATES[0]), ("b", Estimate(50), ESTIMATES[0])], "x", "y", amounts=True),
    "lines": lines([("a", "#111111", [(1, 2.0), (300, 1.0)])], "step", "loss", (2, HOSTILE)),
    "sankey": sankey(flow()),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_the_same_bytes_and_reads_nothing_from_texts(name: str) -> None:
    text = drawn(CHARTS[name])
    assert text == drawn(CHARTS[name])
    tree = lxml_html.fragment_fromstring(text)
    assert not list(tree.iter("script")) and "nan" not in text.lower()
    assert [tree.find(one).text for one in ("title", "desc")] == ["A title", "A note"]
    assert {tree.get("aria-labelledby"), tree.get("aria-describedby")} == {"figure-a-title", "figure-a-note"}


def marks(name: str, kind: str) -> list[tuple[Any, ...]]:
    return [mark[1:] for mark in CHARTS[name].marks if mark[0] == kind]


def test_stacked_bars_begin_where_the_one_before_ends() -> None:
    first, second = marks("counts", "bar")[:2]
    assert (first[0], first[2], second[0], second[2]) == (0, 0.25, 0.25, 0.5)
    assert first[1] == second[1] and first[-1] == f"{HOSTILE}\nx: 1 rows"


def test_estimates_have_their_intervals_and_values_that_are_missing_have_none() -> None:
    assert [line[:3:2] for line in marks("estimates", "line")] == [(0.25, 0.75), (0.0, 0.125)]
    assert [bar[2] for bar in marks("estimates", "bar")] == [0.5, 0, 0]
    assert marks("estimates", "bar")[0][-1].endswith("x: 0.500 [0.250, 0.750]")
    assert len(marks("intervals", "symbol")) == 2


def test_links_fill_their_nodes() -> None:
    ((_, links),) = marks("sankey", "curves")
    heights = [bar[3] for bar in marks("sankey", "bar")]
    assert [link[2] for link in links] == heights[1:] and sum(heights[1:]) == heights[0]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_a_linear_axis_holds_its_range_with_few_ticks(low: float, width: float) -> None:
    axis = linear_axis(low, low + width)
    assert -1e-6 <= axis.share(low) <= axis.share(low + width) <= 1 + 1e-6
    assert 2 <= len(axis.ticks) <= 7


def test_ticks_are_round_numbers() -> None:
    assert [linear_axis(0, 1).label(tick) for tick in linear_axis(0, 1).ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [linear_axis(0, 2, least_step=1).ticks, linear_axis(0, 0).ticks[0]] == [[0, 1, 2], 0]
    assert linear_axis(-1, 1, ".1f").label(-0.5) == "−0.5"


@given(st.floats(1e-4, 1e4), st.floats(10, 1e5))
def test_a_logarithmic_axis_holds_its_range(low: float, factor: float) -> None:
    axis = logarithmic_axis(low, low * factor)
    assert -1e-9 <= axis.share(low) < axis.share(low * factor) <= 1 + 1e-9
    assert len(axis.ticks) <= 11
