"""Plotly charts made from plain numbers, for all pages.

The colours are legible on light and on dark backgrounds; the page's style sheet sets the colour of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from fdarx_core.report.label_placement import Spot, place_labels
from fdarx_core.report.retention import Flow, Link, Node, label_lines, lay_out

LANE_COLOURS: dict[str, str] = {"": "#5f7f9f", "factual": "#4a80c4", "multihop": "#2f9c80", "refusal": "#d98b33"}
REJECT_COLOUR = "#a3a3ab"
BAR_HEIGHT = 36
"""Pixels for one horizontal bar."""
NAME_WIDTH = 24
"""Characters in a line of a bar's name; longer ones are broken, or narrow screens would have no room for bars."""


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of a stacked bar chart: a value for each bar."""

    name: str
    colour: str
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a histogram: from `low` up to and without `high`, its count, and its range in words."""

    low: int
    high: int
    rows: int
    name: str


def sankey(flow: Flow) -> go.Figure:
    """A retention diagram. Links are as wide as their rows; rejects are grey."""
    layout = lay_out(flow)
    nodes = {
        "customdata": [escape(node.label) for node in flow.nodes],
        "color": [_node_colour(node) for node in flow.nodes],
        "x": layout.x,
        "y": layout.y,
        "align": "left",
        "pad": layout.padding,
        "thickness": 12,
        "line": {"width": 0},
        "hovertemplate": "%{customdata}<br>%{value:,}<extra></extra>",
    }
    links = {
        "source": [link.source for link in flow.links],
        "target": [link.target for link in flow.links],
        "value": [link.rows for link in flow.links],
        "color": [_link_colour(flow, link) for link in flow.links],
        "hovertemplate": "%{source.customdata} → %{target.customdata}<br>%{value:,}<extra></extra>",
    }
    figure = go.Figure(go.Sankey(node=nodes, link=links, arrangement="fixed"))
    figure.update_layout(annotations=[_label(*place) for place in zip(flow.nodes, layout.x, layout.y, strict=True)])
    return styled(figure, round(layout.height) + 16, {"l": 0, "r": 210, "t": 8, "b": 8})


def stacked_bars(names: Sequence[str], series: Sequence[Series], unit: str) -> go.Figure:
    """Horizontal bars, the first name on top, each stacked from one value of every series. The legend is the page's."""
    figure = go.Figure()
    for one in series:
        figure.add_bar(
            y=["<br>".join(escape(line) for line in wrap(name, NAME_WIDTH)) for name in names],
            x=list(one.values),
            name=escape(one.name),
            orientation="h",
            marker={"color": one.colour, "line": {"width": 0}},
            hovertemplate="%{y}<br>%{x:,} " + unit + "<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.28, showlegend=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8, showgrid=False)
    figure.update_xaxes(title={"text": unit}, tickformat=",", tickangle=0, nticks=4)
    return styled(figure, 64 + BAR_HEIGHT * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})


def histogram(bins: Sequence[Bin], x_title: str, y_title: str) -> go.Figure:
    """Bars from counts that are binned already, of one width."""
    bars = go.Bar(
        x=[one.low for one in bins],
        y=[one.rows for one in bins],
        customdata=[one.name for one in bins],
        width=[one.high - one.low for one in bins],
        offset=0,
        marker={"color": LANE_COLOURS[""], "line": {"width": 1, "color": "#8888"}},
        hovertemplate="%{customdata} " + x_title + "<br>%{y:,} " + y_title + "<extra></extra>",
    )
    figure = go.Figure(bars)
    edges = [bins[0].low, bins[-1].high] if bins else None
    figure.update_xaxes(title={"text": x_title}, tickformat=",", tickangle=0, showgrid=False, range=edges)
    figure.update_yaxes(title={"text": y_title}, tickformat=",")
    return styled(figure, 300, {"l": 8, "r": 16, "t": 12, "b": 44})


def _label(node: Node, x: float, y: float) -> dict[str, Any]:
    """To the right of a node. Plotly's own labels of the last column would lie over those of the one before."""
    text = "<br>".join(escape(line) for line in label_lines(node))
    return {
        "text": text, "x": x, "y": 1 - y, "xref": "paper", "yref": "paper", "align": "left",
        "xanchor": "left", "yanchor": "middle", "xshift": 8, "showarrow": False,
    }  # fmt: skip


def _node_colour(node: Node) -> str:
    return REJECT_COLOUR if node.kind == "rejected" else LANE_COLOURS.get(node.lane, LANE_COLOURS[""])


def _link_colour(flow: Flow, link: Link) -> str:
    target = flow.nodes[link.target]
    colour = _node_colour(target)
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{0.55 if target.kind == 'rejected' else 0.36})"


def styled(figure: go.Figure, height: int, margin: dict[str, int]) -> go.Figure:
    """The look that all figures share; `height` and `margin` in pixels. The page scrolls past it: no zoom, no drag."""
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


COLOURS = ("#4477aa", "#d98b33", "#2f9c80", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850", "#8a8a94")
"""Told apart with red-green blindness by lightness too, and 3:1 against both papers; beyond ten they repeat."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon", "triangle-down", "bowtie")

WIDTH = 760
"""Pixels of a scatter plot, on every screen: only so can its labels be placed beforehand. Narrow ones scroll."""
HEIGHT = 470
_MARGIN = {"l": 64, "r": 24, "t": 16, "b": 56}
_BAR = 17
_GAP = 20


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the ends of its 95 % interval; None where there is nothing to rest on."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def arms(self) -> tuple[float, float]:
        """Lengths of the error bar below and above."""
        if self.value is None or self.low is None or self.high is None:
            return 0.0, 0.0
        return max(self.value - self.low, 0.0), max(self.high - self.value, 0.0)


@dataclass(frozen=True, slots=True)
class Bars:
    """One colour of a grouped bar chart: an interval for each group."""

    name: str
    colour: str
    values: Sequence[Interval]


@dataclass(frozen=True, slots=True)
class Point:
    """One labelled point of a scatter plot."""

    name: str
    x: Interval
    y: Interval


@dataclass(frozen=True, slots=True)
class Axis:
    """It shows what lies between `low` and `high`; a logarithmic one only amounts above 0."""

    title: str
    low: float
    high: float
    log: bool = False

    def part(self, value: float) -> float:
        """Where a value stands, 0 at the axis's start and 1 at its end."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def layout(self) -> dict[str, Any]:
        """For plotly's axis."""
        same = {"title": {"text": self.title}, "automargin": False}
        if not self.log:
            return {**same, "type": "linear", "range": [self.low, self.high], "nticks": 8}
        ticks = [step * 10.0**power for power in range(-9, 10) for step in (1, 3)]
        ticks = [tick for tick in ticks if self.low <= tick <= self.high]
        ends = [log10(self.low), log10(self.high)]
        return {**same, "type": "log", "range": ends, "tickvals": ticks, "ticktext": [f"{tick:,.9g}" for tick in ticks]}


def grouped_bars(names: Sequence[str], series: Sequence[Bars], title: str) -> go.Figure:
    """Horizontal bars from 0 to 1 with their intervals, the first name and the first series on top."""
    figure = go.Figure()
    for one in series:
        arms = [value.arms for value in one.values]
        figure.add_bar(
            y=[escape(name) for name in names],
            x=[value.value for value in one.values],
            name=escape(one.name),
            orientation="h",
            marker={"color": one.colour, "line": {"width": 0}},
            error_x={"type": "data", "array": [arm[1] for arm in arms], "arrayminus": [arm[0] for arm in arms],
                     "thickness": 1.2, "width": 3},
            hovertemplate="%{y}<br>%{x:.3f}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="group", bargap=0.25, showlegend=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8, showgrid=False)
    figure.update_xaxes(title={"text": title}, range=[0, 1], tickangle=0, dtick=0.2, tickformat=".1f")
    return styled(figure, 64 + (_BAR * len(series) + _GAP) * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})


def scatter(points: Sequence[Point], x: Axis, y: Axis) -> go.Figure:
    """A point a name with its intervals both ways, each labelled beside it."""
    figure = go.Figure()
    for at, point in enumerate(points):
        figure.add_scatter(**_trace(at, point))
    figure.update_layout(showlegend=False, annotations=_annotations(points, x, y))
    styled(figure, HEIGHT, _MARGIN).update_layout(width=WIDTH)
    figure.update_xaxes(**x.layout())
    figure.update_yaxes(**y.layout())
    return figure


def share_axis(title: str, intervals: Sequence[Interval]) -> Axis:
    """An axis for shares that shows all the intervals with a tenth to spare, within 0 to 1."""
    ends = [end for one in intervals for end in (one.value, one.low, one.high) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    spare = max((high - low) * 0.1, 0.03)
    return Axis(title, max(low - spare, 0.0), min(high + spare, 1.0))


def amount_axis(title: str, amounts: Sequence[float]) -> Axis:
    """An axis for amounts above 0; logarithmic where they are more than tenfold apart."""
    low, high = min(amounts, default=1.0), max(amounts, default=1.0)
    if low > 0 and high > 10 * low:
        return Axis(title, low / 1.6, high * 1.6, log=True)
    return Axis(title, 0.0, 1.12 * high if high > 0 else 1.0)


def _trace(at: int, point: Point) -> dict[str, Any]:
    colour = COLOURS[at % len(COLOURS)]
    return {
        "x": [point.x.value],
        "y": [point.y.value],
        "name": escape(point.name),
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"size": 11, "color": colour, "symbol": SYMBOLS[at % len(SYMBOLS)]},
        "error_x": _error(point.x, colour),
        "error_y": _error(point.y, colour),
        "hovertemplate": "%{x:.4~g}, %{y:.3f}<extra>%{fullData.name}</extra>",
    }


def _error(interval: Interval, colour: str) -> dict[str, Any]:
    below, above = interval.arms
    shown = bool(below or above)
    return {"type": "data", "array": [above], "arrayminus": [below], "color": f"{colour}88", "thickness": 1, "width": 0,
            "visible": shown}  # fmt: skip


def _annotations(points: Sequence[Point], x: Axis, y: Axis) -> list[dict[str, Any]]:
    size = (WIDTH - _MARGIN["l"] - _MARGIN["r"], HEIGHT - _MARGIN["t"] - _MARGIN["b"])
    places = [(x.part(point.x.value or 0) * size[0], (1 - y.part(point.y.value or 0)) * size[1]) for point in points]
    spots = place_labels(places, [point.name for point in points], size)
    return [_annotation(point, place, spot, size) for point, place, spot in zip(points, places, spots, strict=True)]


def _annotation(point: Point, place: tuple[float, float], spot: Spot, size: tuple[float, float]) -> dict[str, Any]:
    """In shares of the field, so that it holds for logarithmic axes too; far ones have a line to their point."""
    return {
        "text": escape(point.name), "font": {"size": 12}, "xref": "x domain", "yref": "y domain",
        "x": place[0] / size[0], "y": 1 - place[1] / size[1], "ax": spot.dx, "ay": spot.dy,
        "showarrow": True, "arrowhead": 0, "arrowwidth": 1, "borderpad": 0, "standoff": 7,
        "arrowcolor": "#8888" if spot.distance > 0 else "rgba(0,0,0,0)",
    }  # fmt: skip


def intervals(names: Sequence[str], series: Sequence[Bars], title: str) -> go.Figure:
    """A point a name and series with its 95 % interval, from -1 to 1, the first name on top; zero is drawn."""
    figure = go.Figure()
    for at, one in enumerate(series):
        apart = (at - (len(series) - 1) / 2) * 0.24
        arms = [value.arms for value in one.values]
        figure.add_scatter(
            x=[value.value for value in one.values],
            y=[place + apart for place in range(len(names))],
            name=escape(one.name),
            mode="markers",
            marker={"size": 10, "color": one.colour, "symbol": SYMBOLS[at]},
            error_x={"type": "data", "array": [arm[1] for arm in arms], "arrayminus": [arm[0] for arm in arms],
                     "color": one.colour, "thickness": 2, "width": 4},
            customdata=[escape(name) for name in names],
            hovertemplate="%{customdata}<br>%{x:.3f}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    lines = ["<br>".join(escape(line) for line in wrap(name, NAME_WIDTH)) for name in names]
    figure.add_vline(x=0, line_width=1, line_color="#8a8a94")
    figure.update_layout(showlegend=False)
    styled(figure, 64 + BAR_HEIGHT * len(names), {"l": 8, "r": 16, "t": 12, "b": 44})
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=lines, range=[len(names) - 0.5, -0.5], showgrid=False
    )
    return figure.update_xaxes(title={"text": title}, range=[-1, 1], dtick=0.5, tickformat=".1f", tickangle=0)
