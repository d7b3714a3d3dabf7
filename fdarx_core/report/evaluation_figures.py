"""Figures of an evaluation's page, each with the table of its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fdarx_core.evaluation.tables import IntervalValue, ResultTable
from fdarx_core.records import Comparison, Figure, SettingProgress
from fdarx_core.report.charts import WIDTH, Axis, Bars, Interval, Point, amount_axis, grouped_bars, scatter, share_axis
from fdarx_core.report.page_engine import Cell, FigurePanel, plain_table
from fdarx_core.report.wrong_answers import (
    RETRIEVED_COLOURS,
    SETTING_COLOURS,
    condition_of,
    setting_name,
    setting_order,
)
from fdarx_core.storage import RunDirectory, read_records, read_table

Record = TypeVar("Record")
Condition = tuple[str, str]
"""A setting, and the retriever where it is `retrieved`."""
FULL_LABEL: Condition = ("full_label", "")
Key = tuple[str, str, str, str, str, str]


@dataclass(slots=True)
class EvaluationTables:
    """What a run says of itself and the rows of its three tables.

    `types` gives the type of each question by its id; `labels` counts the labels they are on.
    """

    info: Mapping[str, Any]
    figures: list[Figure]
    comparisons: list[Comparison]
    cells: list[SettingProgress]
    types: dict[str, str]
    labels: int
    _by_key: dict[Key, Figure] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._by_key = {
            (one.model, one.setting, one.retriever, one.group_by, one.group, one.metric): one for one in self.figures
        }

    @property
    def models(self) -> list[str]:
        """In the order of the cells."""
        return list(dict.fromkeys(cell.model for cell in self.cells))

    @property
    def conditions(self) -> list[Condition]:
        """Settings, and retrievers within them, in which at least one model was asked."""
        return sorted({condition_of(cell) for cell in self.cells if cell.status != "skipped"}, key=setting_order)

    @property
    def questions(self) -> Counter[str]:
        """Questions by type."""
        return Counter(self.types.values())

    def figure(
        self, model: str, condition: Condition, metric: str, group: str, group_by: str = "type"
    ) -> Figure | None:
        """None where the run has no such figure, or nothing to rest it on."""
        found = self._by_key.get((model, *condition, group_by, group, metric))
        return found if found is not None and found.value is not None else None

    def interval(self, model: str, condition: Condition, metric: str, group: str) -> Interval:
        """A figure over a type of questions, empty where there is none."""
        found = self.figure(model, condition, metric, group)
        return Interval(found.value, found.low, found.high) if found else Interval(None)


def benchmark_name(info: Mapping[str, Any]) -> str:
    """The folder or file that was evaluated, without where it lies."""
    return str(info["config"].get("benchmark", "")).rstrip("/").rpartition("/")[2]


def read_evaluation_tables(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> EvaluationTables:
    """The run's tables whole: their size depends on models and settings, not on how many questions were asked.

    `summary` is what `RunDirectory.finish` will add to run.json, for a page that is written before it.
    """
    types: dict[str, str] = {}
    labels: set[str] = set()
    for part in run.parts("questions"):
        columns = read_table(part, ["id", "type", "set_id"]).to_pydict()
        types.update(zip(columns["id"], columns["type"], strict=True))
        labels.update(columns["set_id"])
    return EvaluationTables(
        {**run.info(), **(summary or {})},
        _rows(run, "metrics.parquet", Figure),
        _rows(run, "comparisons.parquet", Comparison),
        _rows(run, "cells.parquet", SettingProgress),
        types,
        len(labels),
    )


def _rows(run: RunDirectory, name: str, record: type[Record]) -> list[Record]:
    return list(read_records(run.file(name), record))


MISSING = "–"

Measure = Callable[[str], Interval]
"""Of a model."""


def by_setting(sheets: EvaluationTables) -> FigurePanel:
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
    return FigurePanel(
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


def answers_and_citations(sheets: EvaluationTables) -> FigurePanel | None:
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


def refusals(sheets: EvaluationTables) -> FigurePanel | None:
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


def accuracy_and_cost(sheets: EvaluationTables) -> FigurePanel | None:
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
    return FigurePanel(
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
    sheets: EvaluationTables, name: str, title: str, note: str, x: tuple[str, Measure], y: tuple[str, Measure]
) -> FigurePanel | None:
    points = _points(sheets.models, x[1], y[1])
    if not points:
        return None
    return FigurePanel(
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


def _answered_conditions(sheets: EvaluationTables) -> list[Condition]:
    return [
        condition for condition in sheets.conditions
        if any(sheets.figure(model, condition, "accuracy", "answerable") for model in sheets.models)
    ]  # fmt: skip


def _colours(conditions: Sequence[Condition]) -> list[str]:
    others = iter(RETRIEVED_COLOURS * len(conditions))
    return [SETTING_COLOURS.get(setting) or next(others) for setting, _ in conditions]


def _cost(sheets: EvaluationTables, model: str, condition: Condition) -> float | None:
    found = sheets.figure(model, condition, "cost_per_question", "answerable")
    return None if found is None or found.value is None else 1000 * found.value


def _tokens(sheets: EvaluationTables, model: str, condition: Condition) -> float | None:
    found = [sheets.figure(model, condition, name, "answerable") for name in ("prompt_tokens", "completion_tokens")]
    values = [one.value for one in found if one is not None and one.value is not None]
    return sum(values) if values else None


def _cost_row(sheets: EvaluationTables, model: str, condition: Condition) -> list[Cell]:
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


GROUPINGS: dict[str, tuple[str, str]] = {
    "category": ("By topic", "Topic"),
    "section": ("By section of the first gold passage", "Section"),
    "label_length": ("By length of the label, in thirds", "Length"),
    "numeric": ("By whether the gold answer holds a number", "Gold answer"),
}
_FIRST = ("short", "medium", "long", "numeric", "not numeric")
_LAST = "other"


@dataclass(frozen=True, slots=True)
class SubgroupTable:
    """One way to group; a row is its group, the most questions that a model has there, and a figure a model."""

    title: str
    heading: str
    rows: list[tuple[str, int, list[Figure | None]]]


@dataclass(frozen=True, slots=True)
class SettingTables:
    """All groupings in one setting. `name` is unique in the page; the page opens with the `first` one."""

    name: str
    title: str
    first: bool
    models: list[str]
    tables: list[SubgroupTable]


def subgroups(sheets: EvaluationTables) -> list[SettingTables]:
    """A setting without any figure by subgroup is left out."""
    made = [_setting(sheets, at, condition) for at, condition in enumerate(sheets.conditions)]
    return [one for one in made if one.tables]


def _setting(sheets: EvaluationTables, at: int, condition: Condition) -> SettingTables:
    tables = [_table(sheets, condition, group_by) for group_by in GROUPINGS]
    first = condition == FULL_LABEL
    return SettingTables(
        f"subgroup-{at}", setting_name(*condition), first, sheets.models, [one for one in tables if one.rows]
    )


def _table(sheets: EvaluationTables, condition: Condition, group_by: str) -> SubgroupTable:
    here = [one for one in sheets.figures if (one.setting, one.retriever) == condition and one.metric == "accuracy"]
    names = sorted({one.group for one in here if one.group_by == group_by}, key=_order)
    found = [
        (name, [sheets.figure(model, condition, "accuracy", name, group_by) for model in sheets.models])
        for name in names
    ]
    rows = [(name, max((one.rows for one in row if one), default=0), row) for name, row in found]
    title, heading = GROUPINGS[group_by]
    return SubgroupTable(title, heading, [row for row in rows if row[1]])


def _order(name: str) -> tuple[bool, int, str]:
    return name == _LAST, _FIRST.index(name) if name in _FIRST else 0, name


_COLOURS = ("#8a8a94", "#2f9c80")
"""Of the judge alone and of what people's labels make of it; people alone stand in the table only."""


def calibrated_parts(tables: Sequence[ResultTable]) -> dict[str, Any]:
    """What the page's section is made of: the first table as a figure, and all of them; nothing of none."""
    return {
        "calibrated": [plain_table(f"calibrated-{at}", grid) for at, grid in enumerate(tables, 1)],
        "calibrated_figure": _figure(tables[0]) if tables else None,
    }


def _figure(grid: ResultTable) -> FigurePanel:
    columns = list(zip(grid.columns, _COLOURS, strict=False))
    series = [
        Bars(column.name, colour, [_interval(entries[at]) for _, entries in grid.rows])
        for at, (column, colour) in enumerate(columns)
    ]
    names = [name for name, _ in grid.rows]
    return FigurePanel(
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


def _interval(entry: IntervalValue | None) -> Interval:
    return Interval(entry.value, entry.low, entry.high) if entry else Interval(None)
