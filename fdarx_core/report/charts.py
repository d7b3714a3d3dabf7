"""Plotly charts of plain numbers and estimates, for all pages.

The colors are legible on light and dark backgrounds; the style sheet of the page sets the color of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from fdarx_core.records import Estimate
from fdarx_core.report.page_engine import Cell, value_and_interval
from fdarx_core.report.retention import Flow, Node, label_lines, lay_out

TYPE_COLORS: dict[str, str] = {"": "#5f7f9f", "factual": "#4a80c4", "multihop": "#2f9c80", "refusal": "#d98b33"}
REJECT_COLOR = "#a3a3ab"
BAR_HEIGHT = 36
"""Pixels for one horizontal bar."""
_LINE = 18
"""Pixels of a line of a bar's name."""
NAME_WIDTH = 24
"""Characters in a line of a bar's name; longer names are broken into lines."""


@dataclass(frozen=True, slots=True)
class Series:
    """One color of a bar chart: a count or an estimate for each bar."""

    name: str
    color: str
    values: Sequence[Any]


Bin = tuple[int, int, int, str]
"""One bar of a histogram: its range from the first number up to but without the second, its count, its name."""
Point = tuple[str, Estimate, Estimate]
"""One named point of a scatter plot: its name, x and y."""


def sankey(flow: Flow) -> go.Figure:
    """Return a retention diagram. Links are as wide as their rows; rejects are gray."""
    x, y, height, padding = lay_out(flow)
    nodes = {
        "customdata": [escape(node.label) for node in flow.nodes],
        "color": [_node_color(node) for node in flow.nodes],
        "x": x,
        "y": y,
        "align": "left",
        "pad": padding,
        "thickness": 12,
        "line": {"width": 0},
        "hovertemplate": "%{customdata}<br>%{value:,}<extra></extra>",
    }
    links = {
        "source": [source for source, _, _ in flow.links],
        "target": [target for _, target, _ in flow.links],
        "value": [rows for _, _, rows in flow.links],
        "color": [_link_color(flow.nodes[target]) for _, target, _ in flow.links],
        "hovertemplate": "%{source.customdata} → %{target.customdata}<br>%{value:,}<extra></extra>",
    }
    figure = go.Figure(go.Sankey(node=nodes, link=links, arrangement="fixed"))
    figure.update_layout(annotations=[_label(*place) for place in zip(flow.nodes, x, y, strict=True)])
    return styled(figure, round(height) + 16, {"l": 0, "r": 210, "t": 8, "b": 8})


def stacked_bars(names: Sequence[str], series: Sequence[Series], unit: str) -> go.Figure:
    """Return horizontal bars, the first name on top, each stacked from one value of every series, without a legend."""
    figure = go.Figure()
    for one in series:
        figure.add_bar(
            y=_broken(names),
            x=list(one.values),
            name=escape(one.name),
            orientation="h",
            marker={"color": one.color, "line": {"width": 0}},
            hovertemplate="%{y}<br>%{x:,} " + unit + "<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.28, showlegend=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8, showgrid=False)
    figure.update_xaxes(title={"text": unit}, tickformat=",", tickangle=0, nticks=4)
    lines = max((len(wrap(name, NAME_WIDTH)) for name in names), default=1)
    height = max(BAR_HEIGHT, _LINE * lines + 4)
    return styled(figure, 64 + height * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})


def compared_shares(names: Sequence[str], series: Sequence[Series]) -> go.Figure:
    """Return for each name the shares of all series below each other, the first name on top, without a legend."""
    figure = go.Figure()
    for one in series:
        figure.add_bar(
            y=_broken(names),
            x=list(one.values),
            name=escape(one.name),
            orientation="h",
            marker={"color": one.color, "line": {"width": 0}},
            hovertemplate="%{y}<br>%{x:.1%}<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(barmode="group", bargap=0.3, showlegend=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8, showgrid=False)
    figure.update_xaxes(tickformat=".0%", tickangle=0, nticks=5, rangemode="tozero")
    return styled(figure, 64 + 44 * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})


def histogram(bins: Sequence[Bin], x_title: str, y_title: str) -> go.Figure:
    """Return bars of one width from binned counts."""
    bars = go.Bar(
        x=[low for low, *_ in bins],
        y=[rows for _, _, rows, _ in bins],
        customdata=[name for *_, name in bins],
        width=[high - low for low, high, *_ in bins],
        offset=0,
        marker={"color": TYPE_COLORS[""], "line": {"width": 1, "color": "#8888"}},
        hovertemplate="%{customdata} " + x_title + "<br>%{y:,} " + y_title + "<extra></extra>",
    )
    figure = go.Figure(bars)
    edges = [bins[0][0], bins[-1][1]] if bins else None
    figure.update_xaxes(title={"text": x_title}, tickformat=",", tickangle=0, showgrid=False, range=edges)
    figure.update_yaxes(title={"text": y_title}, tickformat=",")
    return styled(figure, 300, {"l": 8, "r": 16, "t": 12, "b": 44})


def _label(node: Node, x: float, y: float) -> dict[str, Any]:
    """Return a label to the right of a node; plotly draws the last column's labels over those of the one before."""
    text = "<br>".join(escape(line) for line in label_lines(node))
    return {
        "text": text, "x": x, "y": 1 - y, "xref": "paper", "yref": "paper", "align": "left",
        "xanchor": "left", "yanchor": "middle", "xshift": 8, "showarrow": False,
    }  # fmt: skip


def _node_color(node: Node) -> str:
    return REJECT_COLOR if node.kind == "rejected" else TYPE_COLORS.get(node.type, TYPE_COLORS[""])


def _link_color(target: Node) -> str:
    color = _node_color(target)
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{0.55 if target.kind == 'rejected' else 0.36})"


def styled(figure: go.Figure, height: int, margin: dict[str, int]) -> go.Figure:
    """Apply the common style; `height` and `margin` are in pixels. Charts do not zoom, so that the page scrolls."""
    figure.update_layout(
        template=go.layout.Template(),
        height=height,
        margin=margin,
        font={"family": "system-ui, sans-serif", "size": 13},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"bgcolor": "#1f2933", "bordercolor": "#1f2933", "font": {"color": "#ffffff"}},
        dragmode=False,
    )
    axes = {"automargin": True, "gridcolor": "#8884", "zeroline": False, "fixedrange": True}
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(title={"font": {"size": 13}}, **axes)
    return figure


COLORS = ("#4477aa", "#d98b33", "#2f9c80", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850", "#8a8a94")
"""Distinct by lightness with red-green blindness, contrast 3:1 on both backgrounds; after ten they repeat."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon", "triangle-down", "bowtie")

WIDTH = 760
"""Pixels of a chart with long names on every screen; narrow screens scroll."""
LEGEND_ROW = 12
"""Pixels of height for one entry of a legend below a chart."""
_BAR = 17
_GAP = 20


def grouped_bars(names: Sequence[str], series: Sequence[Series], title: str, *, broken: bool = False) -> go.Figure:
    """Return horizontal bars from 0 to 1 with intervals, the first name and the first series on top.

    `broken` breaks long names into lines, so that narrow screens have room for the bars.
    """
    figure = go.Figure()
    for one in series:
        figure.add_bar(
            y=_broken(names) if broken else [escape(name) for name in names],
            x=[value.value for value in one.values],
            name=escape(one.name),
            orientation="h",
            marker={"color": one.color, "line": {"width": 0}},
            error_x={**_arms(one.values), "thickness": 1.2, "width": 3},
            hovertemplate="%{y}<br>%{x:.3f}<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(barmode="group", bargap=0.25, showlegend=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8, showgrid=False)
    figure.update_xaxes(title={"text": title}, range=[0, 1], tickangle=0, dtick=0.2, tickformat=".1f")
    return styled(figure, 64 + (_BAR * len(series) + _GAP) * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})


def bar_numbers(
    stub: str, names: Sequence[str], series: Sequence[Series]
) -> tuple[list[str], list[list[Cell]], list[tuple[str, str]]]:
    """Return header, rows and legend for the panel of grouped bars."""
    header = [stub, *(part for one in series for part in (one.name, "95 %"))]
    rows: list[list[Cell]] = [
        [name, *(part for one in series for part in value_and_interval(one.values[at]))]
        for at, name in enumerate(names)
    ]
    return header, rows, [(one.name, one.color) for one in series]


def scatter(points: Sequence[Point], x_title: str, y_title: str, *, amounts: bool = False) -> go.Figure:
    """Return points with their intervals in both directions, named in a legend below.

    The axes show shares from 0 to 1. With `amounts` the x axis shows amounts from 0 on, on a logarithmic scale if the
    largest is more than ten times the smallest.
    """
    figure = go.Figure()
    for at, point in enumerate(points):
        figure.add_scatter(**_trace(at, point))
    styled(figure, 430 + LEGEND_ROW * len(points), {"l": 8, "r": 16, "t": 12, "b": 44})
    figure.update_layout(showlegend=True, legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"})
    figure.update_xaxes(title={"text": x_title}, nticks=8, tickangle=0)
    figure.update_yaxes(title={"text": y_title}, nticks=8, minallowed=0, maxallowed=1)
    if not amounts:
        return figure.update_xaxes(minallowed=0, maxallowed=1)
    values = [x.value or 0 for _, x, _ in points]
    if min(values, default=0) > 0 and max(values) > 10 * min(values):
        return figure.update_xaxes(type="log", dtick="D2")
    return figure.update_xaxes(rangemode="tozero")


def _trace(at: int, point: Point) -> dict[str, Any]:
    color = COLORS[at % len(COLORS)]
    name, x, y = point
    return {
        "x": [x.value],
        "y": [y.value],
        "name": escape(name),
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"size": 11, "color": color, "symbol": SYMBOLS[(at + at // len(COLORS)) % len(SYMBOLS)]},
        "error_x": _error(x, color),
        "error_y": _error(y, color),
        "hovertemplate": "%{x:.4~g}, %{y:.3f}<extra>%{fullData.name}</extra>",
    }


def _error(one: Estimate, color: str) -> dict[str, Any]:
    arms = _arms([one])
    shown = any((*arms["array"], *arms["arrayminus"]))
    return {**arms, "color": f"{color}88", "thickness": 1, "width": 0, "visible": shown}


def _arms(values: Sequence[Estimate]) -> dict[str, Any]:
    """Return the error bars of the values, for plotly."""
    arms = [
        (0.0, 0.0) if one.value is None or one.low is None or one.high is None
        else (max(one.value - one.low, 0.0), max(one.high - one.value, 0.0))
        for one in values
    ]  # fmt: skip
    return {"type": "data", "arrayminus": [below for below, _ in arms], "array": [above for _, above in arms]}


def _broken(names: Sequence[str]) -> list[str]:
    return ["<br>".join(escape(line) for line in wrap(name, NAME_WIDTH)) for name in names]


def intervals(names: Sequence[str], series: Sequence[Series], title: str) -> go.Figure:
    """Return a point for each name and series with its 95 % interval, from -1 to 1, the first name on top."""
    figure = go.Figure()
    for at, one in enumerate(series):
        apart = (at - (len(series) - 1) / 2) * 0.24
        figure.add_scatter(
            x=[value.value for value in one.values],
            y=[place + apart for place in range(len(names))],
            name=escape(one.name),
            mode="markers",
            marker={"size": 10, "color": one.color, "symbol": SYMBOLS[at]},
            error_x={**_arms(one.values), "color": one.color, "thickness": 2, "width": 4},
            customdata=[escape(name) for name in names],
            hovertemplate="%{customdata}<br>%{x:.3f}<extra>%{fullData.name}</extra>",
        )
    figure.add_vline(x=0, line_width=1, line_color="#8a8a94")
    figure.update_layout(showlegend=False)
    styled(figure, 64 + BAR_HEIGHT * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=_broken(names), range=[len(names) - 0.5, -0.5], showgrid=False
    )
    return figure.update_xaxes(title={"text": title}, range=[-1, 1], dtick=0.5, tickformat=".1f", tickangle=0)
