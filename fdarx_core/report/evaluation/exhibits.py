"""The figures of an evaluation's report, each with the table of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fdarx_core.report.evaluation.charts import (
    Axis,
    Bars,
    Interval,
    Point,
    amount_axis,
    grouped_bars,
    scatter,
    share_axis,
)
from fdarx_core.report.evaluation.sheets import FULL_LABEL, Condition, Sheets
from fdarx_core.report.evaluation.wording import RETRIEVED_COLOURS, SETTING_COLOURS, setting_name
from fdarx_core.report.exhibit import Cell, Exhibit

MISSING = "–"

Measure = Callable[[str], Interval]
"""Of a model."""


def by_setting(sheets: Sheets) -> Exhibit:
    """Accuracy of each model in each setting. Source: FDARxBench, Figure 3."""
    conditions = _answered_conditions(sheets)
    colours = dict(zip(conditions, _colours(conditions), strict=True))
    series = [
        Bars(
            setting_name(*condition),
            colours[condition],
            [sheets.interval(model, condition, "accuracy", "answerable") for model in sheets.models],
        )
        for condition in conditions
    ]
    return Exhibit(
        "by-setting",
        "Accuracy by evidence",
        "Share of factual and multi-hop questions answered correctly, by what the model was shown, with 95 % "
        "intervals. As in Figure 3 of the FDARxBench paper.",
        grouped_bars(sheets.models, series, "accuracy"),
        ["Model", *(name for one in series for name in (one.name, "95 %"))],
        [
            [model, *(part for one in series for part in written(one.values[at]))]
            for at, model in enumerate(sheets.models)
        ],
        legend=[(one.name, one.colour) for one in series],
    )


def answers_and_citations(sheets: Sheets) -> Exhibit | None:
    """Accuracy against micro-averaged citation F1 in the full label; None without. Source: FDARxBench, Figure 4."""
    return _shares(
        sheets,
        "citations",
        "Right answers and right citations",
        "Accuracy over factual and multi-hop questions against the F1 of cited passages, over all citations together, "
        "in the full label, with 95 % intervals. As in Figure 4 of the FDARxBench paper.",
        ("Accuracy", lambda model: sheets.interval(model, FULL_LABEL, "accuracy", "answerable")),
        ("Citation F1 (micro)", lambda model: sheets.interval(model, FULL_LABEL, "citation_f1_micro", "answerable")),
    )


def refusals(sheets: Sheets) -> Exhibit | None:
    """Refusal recall against precision in the full label; None without. Source: FDARxBench, Figure 5."""
    return _shares(
        sheets,
        "refusals",
        "Refusing what the label does not tell",
        "Recall: the share of unanswerable questions that were refused. Precision: the share of refusals that were "
        "right. In the full label, with 95 % intervals. As in Figure 5 of the FDARxBench paper.",
        ("Refusal recall", lambda model: sheets.interval(model, FULL_LABEL, "refusal_recall", "all")),
        ("Refusal precision", lambda model: sheets.interval(model, FULL_LABEL, "refusal_precision", "all")),
    )


def accuracy_and_cost(sheets: Sheets) -> Exhibit | None:
    """Accuracy against USD per 1,000 questions, or tokens a question where no model has prices; None without either."""
    conditions = _answered_conditions(sheets)
    if not conditions:
        return None
    condition = FULL_LABEL if FULL_LABEL in conditions else conditions[-1]
    priced = any(sheets.figure(model, condition, "cost_per_question", "answerable") for model in sheets.models)
    title, measure = ("USD per 1,000 questions", _cost) if priced else ("Tokens a question", _tokens)
    points = _points(
        sheets.models,
        lambda model: Interval(measure(sheets, model, condition)),
        lambda model: sheets.interval(model, condition, "accuracy", "answerable"),
    )
    if not points:
        return None
    named = setting_name(*condition).lower()
    lacking = [model for model in sheets.models if model not in {point.name for point in points}]
    note = f" Not drawn, for want of one of the two: {', '.join(lacking)}." if lacking else ""
    return Exhibit(
        "cost",
        "Accuracy and what it costs" if priced else "Accuracy and the tokens it takes",
        f"Accuracy over factual and multi-hop questions in the setting {named} against {title}.{note} "
        "The table has all settings.",
        scatter(points, amount_axis(title, [point.x.value or 0 for point in points]), _axis("Accuracy", points, "y")),
        ["Model", "Setting", "USD per 1,000 questions", "Tokens a question", "Accuracy", "95 %"],
        [_cost_row(sheets, model, one) for model in sheets.models for one in conditions],
        wide=True,
    )


def _shares(
    sheets: Sheets, name: str, title: str, note: str, x: tuple[str, Measure], y: tuple[str, Measure]
) -> Exhibit | None:
    points = _points(sheets.models, x[1], y[1])
    if not points:
        return None
    return Exhibit(
        name,
        title,
        note,
        scatter(points, _axis(x[0], points, "x"), _axis(y[0], points, "y")),
        ["Model", x[0], "95 %", y[0], "95 %"],
        [[point.name, *written(point.x), *written(point.y)] for point in points],
        wide=True,
    )


def _points(models: Sequence[str], x: Measure, y: Measure) -> list[Point]:
    """Of the models that have both."""
    points = [Point(model, x(model), y(model)) for model in models]
    return [point for point in points if point.x.value is not None and point.y.value is not None]


def _axis(title: str, points: Sequence[Point], side: str) -> Axis:
    return share_axis(title, [getattr(point, side) for point in points])


def _answered_conditions(sheets: Sheets) -> list[Condition]:
    return [
        condition for condition in sheets.conditions
        if any(sheets.figure(model, condition, "accuracy", "answerable") for model in sheets.models)
    ]  # fmt: skip


def _colours(conditions: Sequence[Condition]) -> list[str]:
    others = iter(RETRIEVED_COLOURS * len(conditions))
    return [SETTING_COLOURS.get(setting) or next(others) for setting, _ in conditions]


def _cost(sheets: Sheets, model: str, condition: Condition) -> float | None:
    found = sheets.figure(model, condition, "cost_per_question", "answerable")
    return None if found is None or found.value is None else 1000 * found.value


def _tokens(sheets: Sheets, model: str, condition: Condition) -> float | None:
    found = [sheets.figure(model, condition, name, "answerable") for name in ("prompt_tokens", "completion_tokens")]
    values = [one.value for one in found if one is not None and one.value is not None]
    return sum(values) if values else None


def _cost_row(sheets: Sheets, model: str, condition: Condition) -> list[Cell]:
    cost, tokens = _cost(sheets, model, condition), _tokens(sheets, model, condition)
    return [
        model,
        setting_name(*condition),
        MISSING if cost is None else f"{cost:,.2f}",
        MISSING if tokens is None else round(tokens),
        *written(sheets.interval(model, condition, "accuracy", "answerable")),
    ]


def written(interval: Interval) -> tuple[str, str]:
    """Value and bounds: "0.562" and "0.530–0.594"."""
    if interval.value is None:
        return MISSING, MISSING
    ends = MISSING if interval.low is None else f"{interval.low:.3f}–{interval.high:.3f}"
    return f"{interval.value:.3f}", ends
