"""The figure of a comparison and its tables that are no grids."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

import plotly.graph_objects as go

from fdarx_core.rag.tables import CONTEXT, DOCUMENT, SIMILARITY, Comparison, row_names
from fdarx_core.records import RagDifference, RagFigure, RagUsage
from fdarx_core.report.evaluation.charts import COLOURS, Bars, Interval, grouped_bars
from fdarx_core.report.exhibit import Cell, Exhibit
from fdarx_core.report.figures import NAME_WIDTH

MISSING = "–"
SIGNIFICANT = 0.05
"""Of p after Holm's correction."""
METRICS = [metric for _, metric in CONTEXT]
METRIC_NAMES: dict[str, str] = {
    **{metric: name for name, metric in CONTEXT},
    **{metric: f"{group} {name}" for group, name, metric in SIMILARITY},
    **{metric: f"Right document, {name}" for _, name, metric in DOCUMENT},
}
DIFFERENCE_HEADER = (
    "Metric", "Strategy", "Post-processing", "Difference", "95 %", "p", "p, Holm", "Questions",
)  # fmt: skip
USAGE_HEADER = (
    "Strategy", "Post-processing", "Answered", "Refused", "Failed", "Rewrite, s", "Search, s", "Rank, s", "Answer, s",
    "Total, s", "Requests a question", "Tokens in", "Tokens out", "USD",
)  # fmt: skip


def contexts(figures: Sequence[RagFigure], what: Comparison) -> Exhibit | None:
    """Context precision and recall of each strategy under the main post-processing; None where nothing was judged."""
    kept = [one for one in figures if one.postprocess == what.main and one.strategy not in what.ablations]
    found = {(one.strategy, one.model, one.metric): one for one in kept}
    names = row_names((one for one in kept if one.metric in METRICS), what)
    if not names:
        return None
    series = [
        Bars(name, COLOURS[at], [_interval(found.get((*key, metric))) for key in names])
        for at, (name, metric) in enumerate(CONTEXT)
    ]
    return Exhibit(
        "contexts",
        "Context precision and recall by strategy",
        "Precision: useful contexts stand first. Recall: share of the reference answer's statements that the contexts "
        f"bear out. With 95 % intervals; post-processing: {what.postprocessors.get(what.main, what.main).lower()}.",
        _drawn(list(names.values()), series),
        ["Strategy", *(part for one in series for part in (one.name, "95 %"))],
        [
            [name, *(part for one in series for part in _written(one.values[at]))]
            for at, name in enumerate(names.values())
        ],
        legend=[(one.name, one.colour) for one in series],
    )


def _drawn(names: Sequence[str], series: Sequence[Bars]) -> go.Figure:
    """Bars whose names are broken: narrow screens would have no room for bars."""
    broken = ["<br>".join(escape(line) for line in wrap(name, NAME_WIDTH)) for name in names]
    return grouped_bars(names, series, "mean over questions").update_traces(y=broken)


def difference_rows(
    differences: Sequence[RagDifference], what: Comparison
) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Rows below `DIFFERENCE_HEADER`, the surest first: those under the main post-processing, and the others."""
    ordered = sorted(differences, key=lambda one: (one.p_holm, one.p, -abs(one.difference)))
    several = len({one.model for one in differences}) > 1
    main = [_difference(one, what, several) for one in ordered if one.postprocess == what.main]
    return main, [_difference(one, what, several) for one in ordered if one.postprocess != what.main]


def usage_rows(usages: Sequence[RagUsage], what: Comparison) -> list[list[Cell]]:
    """Rows below `USAGE_HEADER`: times are the median and, in brackets, the 95th percentile."""
    names = row_names([RagFigure(one.strategy, "", one.model, "", None, None, None, 0, 0) for one in usages], what)
    order = list(names)
    return [
        [
            names[one.strategy, one.model],
            what.postprocessors.get(one.postprocess, one.postprocess),
            one.answered, one.refused, one.failed,
            *(_times(one, phase) for phase in ("rewrite", "search", "postprocess", "answer", "total")),
            f"{one.requests / max(one.answered + one.refused + one.failed, 1):.1f}",
            one.prompt_tokens, one.completion_tokens, f"{one.cost:,.2f}" if one.cost else "–",
        ]
        for one in sorted(usages, key=lambda one: order.index((one.strategy, one.model)))
    ]  # fmt: skip


def _difference(one: RagDifference, what: Comparison, several: bool) -> list[Cell]:
    model = f" · {one.model}" if several else ""
    return [
        METRIC_NAMES.get(one.metric, one.metric),
        f"{what.title(one.strategy)}{model}",
        what.postprocessors.get(one.postprocess, one.postprocess),
        f"{'✓ ' if one.p_holm < SIGNIFICANT else ''}{_signed(one.difference)}",
        f"{_signed(one.low)} to {_signed(one.high)}",
        _chance(one.p),
        _chance(one.p_holm),
        one.rows,
    ]


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):.3f}"


def _chance(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _times(one: RagUsage, phase: str) -> str:
    middle, most = (getattr(one, f"{phase}_p{share}") for share in (50, 95))
    return MISSING if middle is None else f"{middle:.2f} ({most:.2f})"


def _interval(figure: RagFigure | None) -> Interval:
    return Interval(figure.value, figure.low, figure.high) if figure else Interval(None)


def _written(interval: Interval) -> tuple[str, str]:
    if interval.value is None:
        return MISSING, MISSING
    ends = MISSING if interval.low is None else f"{interval.low:.3f}–{interval.high:.3f}"
    return f"{interval.value:.3f}", ends
