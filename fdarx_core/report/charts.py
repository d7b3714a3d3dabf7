"""The kinds of charts of plain numbers and estimates, for all pages.

The colors are legible on light and dark backgrounds; the style sheet of the page sets the color of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from textwrap import wrap
from typing import Any, Literal

from fdarx_core.records import Estimate
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.report.page_engine import Cell, Chart, Mark, value_and_interval
from fdarx_core.report.retention import LINE_HEIGHT, SankeyDiagram, label_lines, lay_out

ROW_COLOR = "#5f7f9f"
"""The color of rows that are no questions."""
REJECT_COLOR = "#a3a3ab"
NAME_WIDTH = 44
"""Characters in a line of a name above its bars or in a legend; longer names are broken into lines."""


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
Curve = tuple[str, str, Sequence[tuple[float, float]]]
"""One line of a line chart: its name, its color, and x and y of its points."""


NUMBER = ",.10g"
"""The format of ticks: as many decimals as their step has."""
_Y_AXIS = {"top": 40, "left": 56}
"""The space that the texts of a y axis need, in pixels."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from its first tick to its last one; `form` is the format of their values."""

    ticks: Sequence[float]
    form: str = NUMBER
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the place of a value on the axis: 0 at the first tick, 1 at the last one."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.logarithmic:
            low, high, value = log10(low), log10(high), log10(value)
        return (value - low) / (high - low)

    def label(self, value: float) -> str:
        """Return the text of a tick; numbers of an axis to 100,000 and more are in thousands or millions."""
        high = self.ticks[-1]
        unit, letter = (1e6, "M") if high >= 1e6 else (1e3, "k") if high >= 1e5 else (1, "")
        return (format(value / unit, self.form) + (letter if value else "")).replace("-", "−")


def linear_axis(low: float, high: float, form: str = NUMBER, least_step: float = 0) -> Axis:
    """Return an axis with about five round ticks around the range, at least `least_step` apart."""
    high = high if high > low else low + 1
    rough = max((high - low) / 5, least_step)
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return Axis([at * step for at in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)], form)


def logarithmic_axis(low: float, high: float) -> Axis:
    """Return an axis around a range above 0: with ticks at 1, 2 and 5 times powers of ten, or at powers only."""
    powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
    finer = [power * factor for power in powers for factor in (1, 2, 5)]
    inner = [tick for tick in finer if low < tick < high]
    around = [max(t for t in finer if t <= low), *inner, min(t for t in finer if t >= high)]
    return Axis(around if len(around) <= 7 else powers, logarithmic=True)


def sankey(flow: SankeyDiagram) -> Chart:
    """Return a retention diagram. Links are as wide as their rows; rejects are gray."""
    tops, scale, height = lay_out(flow)
    last = max(node.column for node in flow.nodes) or 1
    x = [node.column / last for node in flow.nodes]
    colors = [REJECT_COLOR if node.kind == "rejected" else type_color(node.type) for node in flow.nodes]
    leaving, entering = list(tops), list(tops)
    links: list[Mark] = []
    nodes: list[Mark] = []
    for source, target, rows in sorted(flow.links, key=lambda link: (tops[link[0]], tops[link[1]])):
        wide = rows * scale
        start, end = leaving[source] + wide / 2, entering[target] + wide / 2
        leaving[source] += wide
        entering[target] += wide
        left, middle, right = (1000 * at for at in (x[source], (x[source] + x[target]) / 2, x[target]))
        curve = f"M{left:.1f} {start:.1f}C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {right:.1f} {end:.1f}"
        hover = f"{flow.nodes[source].label} → {flow.nodes[target].label}\n{rows:,}"
        links.append((curve, colors[target], max(wide, 1), flow.nodes[target].kind, hover))
    for node, left, top, color in zip(flow.nodes, x, tops, colors, strict=True):
        tall = node.rows * scale
        nodes.append(("bar", left, top, "12", max(tall, 1), color, f"{node.label}\n{node.rows:,}"))
        label = label_lines(node)
        baseline = top + tall / 2 - LINE_HEIGHT * (len(label) / 2 - 1) - 5
        nodes += [("text", left, baseline + LINE_HEIGHT * at, part, 18) for at, part in enumerate(label)]
    return Chart([("curves", height, links), *nodes], height, bottom=8, right=170, left=0)


BarKind = Literal["counts", "parts", "shares", "estimates"]
_BARS: dict[BarKind, tuple[bool, str, str, float]] = {
    "counts": (True, ",", NUMBER, 1),
    "parts": (True, ".1%", ".0%", 0.01),
    "shares": (False, ".1%", ".0%", 0.01),
    "estimates": (False, "", ".1f", 0),
}
"""Whether the bars of a name are stacked, the formats of a number and of a tick, and the least step of ticks."""
_STACKED, _GROUPED = 16, 13
"""Pixels of a bar."""
_GAP = 10


def bars(names: Sequence[str], series: Sequence[Series], kind: BarKind, title: str = "") -> Chart:
    """Return horizontal bars below their names, without a legend, the first name and the first series on top.

    Args:
        names: a name for each value of a series.
        series: the values: counts, or parts of 1, which are stacked; or shares or estimates from 0 to 1, below each
            other.
        kind: what the values are; estimates have their intervals.
        title: of the axis of values; of counts and parts it is their unit.
    """
    stacked, form, tick_form, least_step = _BARS[kind]
    tall = _STACKED if stacked else _GROUPED
    rows = [[one.values[at] for one in series] for at in range(len(names))]
    most = 1 if kind == "estimates" else max((sum(row) if stacked else max(row) for row in rows), default=0)
    axis = linear_axis(0, most, tick_form, least_step)
    marks, tops, height = _names_above(names, tall * (1 if stacked else len(series)))
    for name, row, top in zip(names, rows, tops, strict=True):
        start = 0.0
        for at, (one, value) in enumerate(zip(series, row, strict=True)):
            y = top if stacked else top + at * tall
            interval = _interval(axis, value, y + tall / 2) if isinstance(value, Estimate) else []
            number = (value.value or 0) if isinstance(value, Estimate) else value
            shown = _written(value) if isinstance(value, Estimate) else f"{value:{form}} {title}".rstrip()
            share = axis.share(number)
            marks += [("bar", start, y, share, tall - 1, one.color, f"{name}\n{one.name}: {shown}"), *interval]
            start += share if stacked else 0
    return Chart([("x_axis", axis, height, title), *marks], height)


def intervals(names: Sequence[str], series: Sequence[Series], title: str) -> Chart:
    """Return a point for each name and series with its 95 % interval, from -1 to 1, the first name on top."""
    axis = linear_axis(-1, 1, ".1f")
    marks, tops, height = _names_above(names, _GROUPED * len(series))
    marks.append(("line", 0.5, 0, 0.5, height, "interval", REJECT_COLOR))
    for row, (name, top) in enumerate(zip(names, tops, strict=True)):
        for at, one in enumerate(series):
            value, y = one.values[row], top + (at + 0.5) * _GROUPED
            if value.value is not None:
                marks += _interval(axis, value, y, one.color)
                x = axis.share(value.value)
                marks.append(("symbol", x, y, at, one.color, f"{name}\n{one.name}: {_written(value)}"))
    return Chart([("x_axis", axis, height, title), *marks], height)


def _names_above(names: Sequence[str], below: float) -> tuple[list[Mark], list[float], float]:
    """Return the names, the top of the space of `below` pixels under each, and the height of all."""
    marks: list[Mark] = []
    tops: list[float] = []
    y = 0.0
    for name in names:
        for part in wrap(name, NAME_WIDTH):
            y += LINE_HEIGHT
            marks.append(("text", 0, y - 5, part))
        tops.append(y)
        y += below + _GAP
    return marks, tops, y


def _written(one: Estimate) -> str:
    return " ".join(value_and_interval(one))


def _interval(axis: Axis, one: Estimate, y: float, color: str = "currentColor") -> list[Mark]:
    """Return the line of an interval; nothing without one."""
    low, high = map(axis.share, _bounds(one))
    return [("line", low, y, high, y, "interval", color)] if low < high else []


def _bounds(one: Estimate) -> tuple[float, float]:
    """Return the ends of an interval; without one, the value twice."""
    value = one.value or 0.0
    return (value, value) if one.low is None or one.high is None else (one.low, one.high)


def histogram(bins: Sequence[Bin], x_title: str, y_title: str) -> Chart:
    """Return bars of one width from binned counts."""
    height = 220
    across = linear_axis(bins[0][0] if bins else 0, bins[-1][1] if bins else 0, least_step=1)
    up = linear_axis(0, max((rows for _, _, rows, _ in bins), default=0), least_step=1)
    marks: list[Mark] = [("x_axis", across, height, x_title), ("y_axis", up, height, y_title)]
    for low, high, rows, name in bins:
        left, tall = across.share(low), height * up.share(rows)
        hover = f"{name} {x_title}\n{rows:,} {y_title}"
        marks.append(("bar", left, height - tall, across.share(high) - left, tall, ROW_COLOR, hover))
    return Chart(marks, height, **_Y_AXIS)


COLORS = ("#4477aa", "#d98b33", "#2f9c80", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850", "#8a8a94")
"""Distinct by lightness with red-green blindness, contrast 3:1 on both backgrounds; after ten they repeat."""


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


def scatter(points: Sequence[Point], x_title: str, y_title: str, *, amounts: bool = False) -> Chart:
    """Return points with their intervals in both directions, named in a legend below, whose entries hide their points.

    The axes show shares from 0 to 1. With `amounts` the x axis shows amounts from 0 on, on a logarithmic scale if the
    largest is more than ten times the smallest.
    """
    height, legend = 340, 402.0
    across = _axis_of_amounts([x for _, x, _ in points]) if amounts else _axis_of_shares([x for _, x, _ in points])
    up = _axis_of_shares([y for *_, y in points])
    marks: list[Mark] = [("x_axis", across, height, x_title), ("y_axis", up, height, y_title)]
    for at, (name, x, y) in enumerate(points):
        color, shape = COLORS[at % len(COLORS)], at + at // len(COLORS)
        left, top = across.share(x.value or 0), height * (1 - up.share(y.value or 0))
        low, high = (height * (1 - up.share(bound)) for bound in _bounds(y))
        across_value = f"{x.value:,.0f}" if amounts and (x.value or 0) >= 10 else _written(x)
        hover = f"{name}\n{x_title}: {across_value}\n{y_title}: {_written(y)}"
        marks += [("line", *one[1:], at) for one in _interval(across, x, top, color)]
        marks.append(("line", left, low, left, high, "interval", color, at))
        marks.append(("symbol", left, top, shape, color, hover, at))
        lines = [(legend + 4 + LINE_HEIGHT * row, part) for row, part in enumerate(wrap(name, NAME_WIDTH))]
        marks.append(("key", legend, shape, color, lines, at))
        legend += LINE_HEIGHT * len(lines)
    return Chart(marks, height, bottom=round(legend) - height, **_Y_AXIS)


def _axis_of_shares(values: Sequence[Estimate]) -> Axis:
    bounds = [bound for one in values for bound in _bounds(one)]
    low, high = max(min(bounds), 0), min(max(bounds), 1)
    return linear_axis(low, high) if low < high else linear_axis(max(low - 0.1, 0), min(high + 0.1, 1))


def _axis_of_amounts(values: Sequence[Estimate]) -> Axis:
    amounts = [one.value or 0 for one in values]
    if min(amounts) > 0 and max(amounts) > 10 * min(amounts):
        return logarithmic_axis(min(amounts), max(amounts))
    return linear_axis(0, max(amounts))


_DOTS = 100
"""The most points of a curve that have a dot; of more, some have an invisible one that the pointer finds."""


def lines(curves: Sequence[Curve], x_title: str, y_title: str, mark: tuple[float, str] | None = None) -> Chart:
    """Return curves without a legend; `mark` is an x with its text, at which there is a vertical line."""
    height = 280
    points = [point for *_, curve in curves for point in curve]
    across = linear_axis(0, max(x for x, _ in points), least_step=1)
    up = linear_axis(min(y for _, y in points), max(y for _, y in points))
    drawn: list[Mark] = []
    dots: list[Mark] = []
    for name, color, curve in curves:
        places = [(across.share(x), height * (1 - up.share(y))) for x, y in curve]
        drawn.append(("M" + "L".join(f"{1000 * x:.1f} {y:.1f}" for x, y in places), color, 2, "", name))
        every = ceil(len(curve) / _DOTS)
        for (x, y), place in zip(curve[::every], places[::every], strict=True):
            hover = f"{name}\n{x_title} {x:,}: {y:.4f}"
            dots.append(("dot", *place, "transparent" if every > 1 else color, hover))
    marks: list[Mark] = [("x_axis", across, height, x_title), ("y_axis", up, height, y_title)]
    marks += [("curves", height, drawn), *dots]
    if mark:
        left = across.share(mark[0])
        side = (-6, "end") if left > 0.5 else (6, "start")
        marks += [("line", left, 0, left, height, "mark"), ("text", left, 12, mark[1], *side)]
    return Chart(marks, height, **_Y_AXIS)
