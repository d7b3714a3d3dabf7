"""Plotly figures from plain numbers. Colours read on light and on dark; the page's style sheet colours the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from fdarx_core.report.layout import label_lines, lay_out
from fdarx_core.report.retention import Flow, Link, Node

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
