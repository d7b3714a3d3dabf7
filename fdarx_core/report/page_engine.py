"""The engine of all pages: templates, figure panels and the formatting of numbers, times and names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from importlib.resources import files
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fdarx_core.evaluation.tables import IntervalValue, ResultTable, TableColumn
from fdarx_core.labels.loinc import SECTION_NAMES

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class FigurePanel:
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


def render_figure(exhibit: FigurePanel) -> Markup:
    """A figure's element and script; the page that holds it inlines plotly.js once."""
    html = exhibit.figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{exhibit.name}",
        default_height=f"{exhibit.figure.layout.height}px",
        config={"responsive": True, "displayModeBar": False},
    )
    return Markup(html)


def readable(reason: str) -> str:
    """A reason's fixed name as words."""
    return reason.replace("_", " ")


def duration(info: Mapping[str, Any]) -> str:
    """From the run's start to its end, or to now where run.json has no end yet."""
    end = datetime.fromisoformat(info["finished"]) if "finished" in info else datetime.now(timezone.utc)
    seconds = round((end - datetime.fromisoformat(info["started"])).total_seconds())
    return f"{seconds // 60} min {seconds % 60} s"


@cache
def environment() -> Environment:
    """The pages' templates, with everything escaped that does not say it is HTML."""
    made = Environment(
        loader=PackageLoader("fdarx_core.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(style=_asset("report.css"), plotly=Markup(get_plotlyjs()), section_names=SECTION_NAMES)
    made.globals.update(asset=_asset)
    made.filters.update(figure=render_figure, readable=readable, shown=_shown)
    made.filters.update(number="{:,}".format, percent=_percent, moment=_moment, embedded=_embedded)
    return made


def _asset(name: str) -> Markup:
    return Markup(files("fdarx_core.report").joinpath(f"templates/{name}").read_text("utf-8"))


def _moment(iso: str) -> str:
    moment = datetime.fromisoformat(iso).astimezone(timezone.utc)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share == 0 or share >= 0.0005 else "< 0.1%"


def _embedded(value: Any) -> Markup:
    """JSON for a script element, where nothing of it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


DIGITS = 3
"""Values that look equal on the page are equally good."""


@dataclass(frozen=True, slots=True)
class PageTableCell:
    """`best` of its column; `first` of the columns under one upper header."""

    entry: IntervalValue | None
    best: bool
    first: bool


@dataclass(frozen=True, slots=True)
class PageTable:
    """A grid as the page shows it. Columns that no row has a value for are left out."""

    grid: ResultTable
    rows: list[tuple[str, list[PageTableCell]]]

    @property
    def firsts(self) -> list[bool]:
        """For each column, whether it is the first under its upper header."""
        return list(_firsts(self.grid.columns))


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper, strict and, where that makes a difference, under equivalence."""

    name: str
    strict: PageTable
    equivalent: PageTable | None = None


def paper_table(name: str, strict: ResultTable, equivalent: ResultTable | None = None) -> PaperTable:
    """`name` is unique in the page."""
    return PaperTable(name, show(strict), show(equivalent) if equivalent else None)


def plain_table(name: str, grid: ResultTable) -> PaperTable:
    """The same of rows that are no rivals: none is the best."""
    shown = show(grid)
    rows = [(row, [replace(cell, best=False) for cell in cells]) for row, cells in shown.rows]
    return PaperTable(name, PageTable(shown.grid, rows))


def show(grid: ResultTable) -> PageTable:
    """More is better in every column; a table of one row has no best."""
    grid = _filled(grid)
    tops = [_top([entries[at] for _, entries in grid.rows]) for at in range(len(grid.columns))]
    firsts = list(_firsts(grid.columns))
    rows = [
        (
            name,
            [
                PageTableCell(entry, _is(entry, top), first)
                for entry, top, first in zip(entries, tops, firsts, strict=True)
            ],
        )
        for name, entries in grid.rows
    ]
    return PageTable(grid, rows)


def _filled(grid: ResultTable) -> ResultTable:
    kept = [at for at in range(len(grid.columns)) if any(entries[at] for _, entries in grid.rows)]
    rows = [(name, [entries[at] for at in kept]) for name, entries in grid.rows]
    return ResultTable(grid.title, grid.stub, [grid.columns[at] for at in kept], rows, grid.notes)


def _top(entries: Sequence[IntervalValue | None]) -> float | None:
    return max((round(one.value, DIGITS) for one in entries if one), default=None) if len(entries) > 1 else None


def _is(entry: IntervalValue | None, top: float | None) -> bool:
    return entry is not None and round(entry.value, DIGITS) == top


def _firsts(columns: Sequence[TableColumn]) -> Iterator[bool]:
    before = None
    for column in columns:
        yield column.group != before
        before = column.group
