"""A figure with its numbers, as any page of the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from markupsafe import Markup

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure with its title, a sentence on how to read it, and its numbers as a table.

    `legend` is names with their colours; a `wide` figure scrolls on narrow screens.
    """

    name: str
    title: str
    note: str
    figure: go.Figure
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False


@dataclass(frozen=True, slots=True)
class ShadedTable:
    """Shares from 0 to 1 as a table whose cells are shaded by them. A row is its heading, a count and its shares."""

    name: str
    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[tuple[str, int, Sequence[float]]]


def render_figure(exhibit: Exhibit) -> Markup:
    """A figure's element and script; the page that holds it inlines plotly.js once."""
    html = exhibit.figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{exhibit.name}",
        default_height=f"{exhibit.figure.layout.height}px",
        config={"responsive": True, "displayModeBar": False},
    )
    return Markup(html)
