"""Correlations with their intervals, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

import plotly.graph_objects as go

from fdarx_core.report.evaluation.charts import SYMBOLS, Bars
from fdarx_core.report.figures import BAR_HEIGHT, NAME_WIDTH, styled


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
