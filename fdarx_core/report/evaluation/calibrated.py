"""Accuracies corrected by people's labels, beside the judge's own, as a page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.evaluation.grid import Entry, Grid
from fdarx_core.report.evaluation.charts import WIDTH, Bars, Interval, grouped_bars
from fdarx_core.report.evaluation.exhibits import written
from fdarx_core.report.evaluation.grids import plain_table
from fdarx_core.report.exhibit import Exhibit

_COLOURS = ("#8a8a94", "#2f9c80")
"""Of the judge alone and of what people's labels make of it; people alone stand in the table only."""


def calibrated_parts(tables: Sequence[Grid]) -> dict[str, Any]:
    """What the page's section is made of: the first table as a figure, and all of them; nothing of none."""
    return {
        "calibrated": [plain_table(f"calibrated-{at}", grid) for at, grid in enumerate(tables, 1)],
        "calibrated_figure": _figure(tables[0]) if tables else None,
    }


def _figure(grid: Grid) -> Exhibit:
    columns = list(zip(grid.columns, _COLOURS, strict=False))
    series = [
        Bars(column.name, colour, [_interval(entries[at]) for _, entries in grid.rows])
        for at, (column, colour) in enumerate(columns)
    ]
    names = [name for name, _ in grid.rows]
    return Exhibit(
        "calibrated-figure",
        "What people's labels make of the judge's accuracies",
        "By the judge alone, and corrected by what people found on the labelled answers, with 95 % intervals. Behind "
        "each name: labelled answers of all. Without a second bar: too few labels to correct anything.",
        grouped_bars(names, series, "accuracy").update_layout(width=WIDTH),
        [grid.stub, *(part for one in series for part in (one.name, "95 %"))],
        [[name, *(part for one in series for part in written(one.values[at]))] for at, name in enumerate(names)],
        legend=[(one.name, one.colour) for one in series],
        wide=True,
    )


def _interval(entry: Entry | None) -> Interval:
    return Interval(entry.value, entry.low, entry.high) if entry else Interval(None)
