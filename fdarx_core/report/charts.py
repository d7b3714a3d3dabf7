"""Plotly charts of plain numbers and estimates, for all pages.

The colors are legible on light and dark backgrounds; the style sheet of the page sets the color of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any, Literal

import plotly.graph_objects as go

from fdarx_core.records import Estimate
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.report.page_engine import Cell, value_and_interval
from fdarx_core.report.retention import SankeyDiagram, label_lines, lay_out

ROW_COLOR = "#5f7f9f"
"""The color of rows that are no questions."""
REJECT_COLOR = "#a3a3ab"
BAR_HEIGHT = 36
"""Pixels for one horizontal bar."""
_MARGIN = {"l": 8, "r": 16, "t": 12, "b": 44}
_LINE = 18
"""Pixels of a line of a bar's name."""
NAME_WIDTH = 24
"""Characters in a line of a bar's name; longer names are broken into lines."""


def type_color(name: str, default: str = ROW_COLOR) -> str:
    """Return the color of a question type; `default` if no installed package has it."""
    return QUESTION_TYPES[name].color if name in QUESTION_TYPES else default


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


def sankey(flow: SankeyDiagram) -> go.Figure:
    """Return a retention diagram. Links are as wide as their rows; rejects are gray."""
    x, y, height, padding = lay_out(flow)
    rejected = [node.kind == "rejected" for node in flow.nodes]
    colors = [REJECT_COLOR if gray else type_color(node.type) for node, gray in zip(flow.nodes, rejected, strict=True)]

    def faded(at: int) -> str:
        red, green, blue = (int(colors[at][start : start + 2], 16) for start in (1, 3, 5))
        return f"rgba({red},{green},{blue},{0.55 if rejected[at] else 0.36})"

    nodes = {
        "customdata": [escape(node.label) for node in flow.nodes],
        "color": colors,
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
        "color": [faded(target) for _, target, _ in flow.links],
        "hovertemplate": "%{source.customdata} → %{target.customdata}<br>%{value:,}<extra></extra>",
    }
    figure = go.Figure(go.Sankey(node=nodes, link=links, arrangement="fixed"))
    place = {"xref": "paper", "yref": "paper", "align": "left"}
    anchor = {"xanchor": "left", "yanchor": "middle", "xshift": 8, "showarrow": False}
    texts = ["<br>".join(escape(line) for line in label_lines(node)) for node in flow.nodes]
    # labels are to the right of nodes: plotly draws those of the last column over those of the column before
    figure.update_layout(
        annotations=[
            {"text": text, "x": left, "y": 1 - top, **place, **anchor}
            for text, left, top in zip(texts, x, y, strict=True)
        ]
    )
    return styled(figure, round(height) + 16, {"l": 0, "r": 210, "t": 8, "b": 8})


BarKind = Literal["counts", "shares", "estimates"]
_BARS: dict[BarKind, tuple[str, float, str, dict[str, Any]]] = {
    "counts": ("stack", 0.28, "%{x:,}", {"tickformat": ",", "tickangle": 0, "nticks": 4}),
    "shares": ("group", 0.3, "%{x:.1%}", {"tickformat": ".0%", "tickangle": 0, "nticks": 5, "rangemode": "tozero"}),
    "estimates": ("group", 0.25, "%{x:.3f}", {"range": [0, 1], "tickangle": 0, "dtick": 0.2, "tickformat": ".1f"}),
}
"""How bars of one name stand, the gap between names, the format of a value, and the axis of values."""


def bars(
    names: Sequence[str], series: Sequence[Series], kind: BarKind, title: str = "", *, broken: bool = True
) -> go.Figure:
    """Return horizontal bars without a legend, the first name and the first series on top.

    Args:
        names: a name for each value of a series.
        series: the values: counts, which are stacked; or shares or estimates from 0 to 1, below each other.
        kind: what the values are; estimates have their intervals.
        title: of the axis of values; of counts it is their unit.
        broken: break long names into lines, so that narrow screens have room for the bars.
    """
    mode, gap, value, axis = _BARS[kind]
    unit = f" {title}" if kind == "counts" else ""
    figure = go.Figure()
    for one in series:
        estimates = {"error_x": {**_arms(one.values), "thickness": 1.2, "width": 3}} if kind == "estimates" else {}
        figure.add_bar(
            y=_broken(names) if broken else [escape(name) for name in names],
            x=[got.value for got in one.values] if kind == "estimates" else list(one.values),
            name=escape(one.name),
            orientation="h",
            marker={"color": one.color, "line": {"width": 0}},
            **estimates,
            hovertemplate=f"%{{y}}<br>{value}{unit}<extra>%{{fullData.name}}</extra>",
        )
    figure.update_layout(barmode=mode, bargap=gap, showlegend=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8, showgrid=False)
    figure.update_xaxes(**({"title": {"text": title}} if title else {}), **axis)
    lines = max((len(wrap(name, NAME_WIDTH)) for name in names), default=1)
    heights = {"counts": max(BAR_HEIGHT, _LINE * lines + 4), "shares": 44, "estimates": _BAR * len(series) + _GAP}
    return styled(figure, 64 + heights[kind] * len(names))


def histogram(bins: Sequence[Bin], x_title: str, y_title: str) -> go.Figure:
    """Return bars of one width from binned counts."""
    bars = go.Bar(
        x=[low for low, *_ in bins],
        y=[rows for _, _, rows, _ in bins],
        customdata=[name for *_, name in bins],
        width=[high - low for low, high, *_ in bins],
        offset=0,
        marker={"color": ROW_COLOR, "line": {"width": 1, "color": "#8888"}},
        hovertemplate="%{customdata} " + x_title + "<br>%{y:,} " + y_title + "<extra></extra>",
    )
    figure = go.Figure(bars)
    edges = [bins[0][0], bins[-1][1]] if bins else None
    figure.update_xaxes(title={"text": x_title}, tickformat=",", tickangle=0, showgrid=False, range=edges)
    figure.update_yaxes(title={"text": y_title}, tickformat=",")
    return styled(figure, 300)


def styled(figure: go.Figure, height: int, margin: Mapping[str, int] = _MARGIN) -> go.Figure:
    """Apply the common style; `height` and `margin` are in pixels. Charts do not zoom, so that the page scrolls."""
    figure.update_layout(
        template=go.layout.Template(),
        height=height,
        margin=dict(margin),
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

LEGEND_ROW = 12
"""Pixels of height for one entry of a legend below a chart."""
_BAR = 17
_GAP = 20


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
    for at, (name, x, y) in enumerate(points):
        color = COLORS[at % len(COLORS)]
        figure.add_scatter(
            x=[x.value],
            y=[y.value],
            name=escape(name),
            mode="markers",
            cliponaxis=False,
            marker={"size": 11, "color": color, "symbol": SYMBOLS[(at + at // len(COLORS)) % len(SYMBOLS)]},
            error_x=_error(x, color),
            error_y=_error(y, color),
            hovertemplate="%{x:.4~g}, %{y:.3f}<extra>%{fullData.name}</extra>",
        )
    styled(figure, 430 + LEGEND_ROW * len(points))
    figure.update_layout(showlegend=True, legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"})
    figure.update_xaxes(title={"text": x_title}, nticks=8, tickangle=0)
    figure.update_yaxes(title={"text": y_title}, nticks=8, minallowed=0, maxallowed=1)
    if not amounts:
        return figure.update_xaxes(minallowed=0, maxallowed=1)
    values = [x.value or 0 for _, x, _ in points]
    if min(values, default=0) > 0 and max(values) > 10 * min(values):
        return figure.update_xaxes(type="log", dtick="D2")
    return figure.update_xaxes(rangemode="tozero")


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
    styled(figure, 64 + BAR_HEIGHT * len(names))
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=_broken(names), range=[len(names) - 0.5, -0.5], showgrid=False
    )
    return figure.update_xaxes(title={"text": title}, range=[-1, 1], dtick=0.5, tickformat=".1f", tickangle=0)
