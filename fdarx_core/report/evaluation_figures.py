"""Charts and subgroup tables of an evaluation's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.evaluation.tables import MISSING, ResultTable, build_table
from fdarx_core.records import Difference, Estimate, Figure, SettingProgress
from fdarx_core.report.charts import WIDTH, Point, Series, bar_numbers, grouped_bars, scatter
from fdarx_core.report.names import RETRIEVED_COLORS, SETTING_COLORS, setting_name, setting_order
from fdarx_core.report.page_engine import Cell, FigurePanel, TableBlock, value_and_interval
from fdarx_core.storage import RunDirectory, read_records, read_table
from fdarx_core.storage.splits import TEST

Condition = tuple[str, str]
"""A setting, and the retriever where it is `retrieved`."""
_FEWEST_POINTS = 2
"""Points of a scatter plot; a single point shows nothing that the tables do not."""
FULL_LABEL: Condition = ("full_label", "")
NOTHING = Estimate(None)


@dataclass(slots=True)
class EvaluationTables:
    """The run.json of an evaluation and the rows of its three tables.

    `types` gives the type of each question by its id; `labels` counts the labels of the questions.
    """

    info: Mapping[str, Any]
    figures: list[Figure]
    comparisons: list[Difference]
    cells: list[SettingProgress]
    types: dict[str, str]
    labels: int
    _by_key: dict[tuple[str, ...], Figure] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = ("model", "setting", "retriever", "group_by", "group")
        self._by_key = {(*(one.keys[name] for name in names), one.metric): one for one in self.figures}

    @property
    def models(self) -> list[str]:
        """The models in the order of the cells."""
        return list(dict.fromkeys(cell.model for cell in self.cells))

    @property
    def conditions(self) -> list[Condition]:
        """Settings, and retrievers within them, in which at least one model was asked."""
        asked = {(cell.setting, cell.retriever) for cell in self.cells if cell.status != "skipped"}
        return sorted(asked, key=setting_order)

    @property
    def questions(self) -> Counter[str]:
        """The number of questions by type."""
        return Counter(self.types.values())

    def figure(self, model: str, condition: Condition, metric: str, group: str, group_by: str = "type") -> Estimate:
        """Return a figure, without a value if the run has no such figure."""
        return self._by_key.get((model, *condition, group_by, group, metric), NOTHING)


def benchmark_name(info: Mapping[str, Any]) -> str:
    """Return the name of the folder or file of the benchmark, without its path, and its split unless that is test."""
    name = str(info["config"].get("benchmark", "")).rstrip("/").rpartition("/")[2]
    split = info["config"].get("split", TEST)
    return name if split == TEST else f"{name} ({'all splits' if split == 'all' else f'{split} split'})"


def read_evaluation_tables(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> EvaluationTables:
    """Read the tables of a run; their size depends on models and settings, not on the number of questions.

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
        list(read_records(run.file("metrics.parquet"), Figure)),
        list(read_records(run.file("comparisons.parquet"), Difference)),
        list(read_records(run.file("cells.parquet"), SettingProgress)),
        types,
        len(labels),
    )


Measure = Callable[[str], Estimate]
"""The value of a model."""


def by_setting(sheets: EvaluationTables) -> FigurePanel:
    """Return the accuracy of each model in each setting. Source: FDARxBench, Figure 3."""
    conditions = _answered_conditions(sheets)
    others = iter(RETRIEVED_COLORS * len(conditions))
    colors = {condition: SETTING_COLORS.get(condition[0]) or next(others) for condition in conditions}
    series = [
        Series(
            setting_name(*condition),
            colors[condition],
            [sheets.figure(model, condition, "accuracy", "answerable") for model in sheets.models],
        )
        for condition in conditions
    ]
    return FigurePanel.worded(
        "by-setting",
        grouped_bars(sheets.models, series, "accuracy"),
        *bar_numbers("Model", sheets.models, series),
    )


def answers_and_citations(sheets: EvaluationTables) -> FigurePanel | None:
    """Return accuracy and micro-averaged citation F1 in the full label, if any. Source: FDARxBench, Figure 4."""
    x, y = ("Accuracy", "accuracy"), ("Citation F1 (micro)", "citation_f1_micro")
    return _shares(sheets, "citations", x, y, "answerable")


def refusals(sheets: EvaluationTables) -> FigurePanel | None:
    """Return refusal recall and precision in the full label, if any. Source: FDARxBench, Figure 5."""
    x, y = ("Refusal recall", "refusal_recall"), ("Refusal precision", "refusal_precision")
    return _shares(sheets, "refusals", x, y, "all")


def accuracy_and_cost(sheets: EvaluationTables) -> FigurePanel | None:
    """Return accuracy and USD per 1,000 questions, or tokens per question if no model has prices."""
    conditions = _answered_conditions(sheets)
    if not conditions:
        return None
    condition = FULL_LABEL if FULL_LABEL in conditions else conditions[-1]
    priced = any(_cost(sheets, model, condition) is not None for model in sheets.models)
    title, measure = ("USD per 1,000 questions", _cost) if priced else ("Tokens per question", _tokens)
    points = _points(
        sheets.models,
        lambda model: Estimate(measure(sheets, model, condition)),
        lambda model: sheets.figure(model, condition, "accuracy", "answerable"),
    )
    if not points:
        return None
    named = setting_name(*condition).lower()
    lacking = [model for model in sheets.models if model not in {name for name, *_ in points}]
    note = f" Not drawn, for want of one of the two: {', '.join(lacking)}." if lacking else ""
    return FigurePanel(
        "cost",
        "Accuracy and cost" if priced else "Accuracy and tokens",
        f"Accuracy over factual and multi-hop questions in the setting {named} against {title}.{note} "
        "The table has all settings.",
        scatter(points, title, "Accuracy", amounts=True),
        ["Model", "Setting", "USD per 1,000 questions", "Tokens per question", "Accuracy", "95 %"],
        [_cost_row(sheets, model, one) for model in sheets.models for one in conditions],
    )


def _shares(
    sheets: EvaluationTables, name: str, x: tuple[str, str], y: tuple[str, str], group: str
) -> FigurePanel | None:
    """Return two metrics in the full label against each other; `x` and `y` are title and name."""
    points = _points(
        sheets.models,
        lambda model: sheets.figure(model, FULL_LABEL, x[1], group),
        lambda model: sheets.figure(model, FULL_LABEL, y[1], group),
    )
    if not points:
        return None
    return FigurePanel.worded(
        name,
        scatter(points, x[0], y[0]),
        ["Model", x[0], "95 %", y[0], "95 %"],
        [[model, *value_and_interval(across), *value_and_interval(up)] for model, across, up in points],
    )


def _points(models: Sequence[str], x: Measure, y: Measure) -> list[Point]:
    """Return the points of the models that have both values; none for fewer models than a chart compares."""
    points = [(model, x(model), y(model)) for model in models]
    found = [point for point in points if point[1].value is not None and point[2].value is not None]
    return found if len(found) >= _FEWEST_POINTS else []


def _answered_conditions(sheets: EvaluationTables) -> list[Condition]:
    return [
        condition
        for condition in sheets.conditions
        if any(sheets.figure(model, condition, "accuracy", "answerable").value is not None for model in sheets.models)
    ]


def _cost(sheets: EvaluationTables, model: str, condition: Condition) -> float | None:
    value = sheets.figure(model, condition, "cost_per_question", "answerable").value
    return None if value is None else 1000 * value


def _tokens(sheets: EvaluationTables, model: str, condition: Condition) -> float | None:
    found = (sheets.figure(model, condition, name, "answerable") for name in ("prompt_tokens", "completion_tokens"))
    values = [one.value for one in found if one.value is not None]
    return sum(values) if values else None


def _cost_row(sheets: EvaluationTables, model: str, condition: Condition) -> list[Cell]:
    cost, tokens = _cost(sheets, model, condition), _tokens(sheets, model, condition)
    return [
        model,
        setting_name(*condition),
        MISSING if cost is None else f"{cost:,.2f}",
        MISSING if tokens is None else round(tokens),
        *value_and_interval(sheets.figure(model, condition, "accuracy", "answerable")),
    ]


GROUPINGS: dict[str, tuple[str, str]] = {
    "category": ("By topic", "Topic"),
    "section": ("By section of the first gold passage", "Section"),
    "label_length": ("By length of the label, in thirds", "Length"),
    "numeric": ("By whether the gold answer holds a number", "Gold answer"),
}
_FIRST = ("short", "medium", "long", "numeric", "not numeric")
_LAST = "other"


def subgroups(sheets: EvaluationTables) -> list[dict[str, Any]]:
    """Return name, title and tables of each setting that has figures by subgroup.

    A table has a row for each group and a column for each model. The page opens with the setting that is `first`.
    """
    found = []
    for at, condition in enumerate(sheets.conditions):
        made = [_subgroup_table(sheets, condition, group_by) for group_by in GROUPINGS]
        if tables := [one for one in made if one.rows]:
            name, first = f"subgroup-{at}", condition == FULL_LABEL
            found.append({"name": name, "title": setting_name(*condition), "first": first, "tables": tables})
    return found


def _subgroup_table(sheets: EvaluationTables, condition: Condition, group_by: str) -> ResultTable:
    cells = [
        (one.keys["group"], one.keys["model"], one)
        for one in sheets.figures
        if one.metric == "accuracy" and one.keys["group_by"] == group_by
        if (one.keys["setting"], one.keys["retriever"]) == condition
    ]
    columns = [("", model, model) for model in sheets.models]
    return build_table(*GROUPINGS[group_by], columns, sorted(cells, key=lambda cell: _group_order(cell[0])))


def _group_order(name: str) -> tuple[bool, int, str]:
    return name == _LAST, _FIRST.index(name) if name in _FIRST else 0, name


_CALIBRATED_COLORS = ("#8a8a94", "#2f9c80")
"""Colors of the judge's accuracy and the corrected accuracy; the accuracy by people alone is only in the table."""


def calibrated_parts(tables: Sequence[ResultTable]) -> dict[str, Any]:
    """Return the section on calibrated accuracy: the first table as a chart, and all tables; empty without any."""
    return {
        "calibrated": [TableBlock(f"calibrated-{at}", table) for at, table in enumerate(tables, 1)],
        "calibrated_figure": _calibrated_figure(tables[0]) if tables else None,
    }


def _calibrated_figure(table: ResultTable) -> FigurePanel:
    series = [
        Series(name, color, [entries[at] or NOTHING for _, entries in table.rows])
        for at, ((_, name), color) in enumerate(zip(table.columns, _CALIBRATED_COLORS, strict=False))
    ]
    names = [name for name, _ in table.rows]
    return FigurePanel.worded(
        "calibrated-figure",
        grouped_bars(names, series, "accuracy").update_layout(width=WIDTH),
        *bar_numbers(table.stub, names, series),
        wide=True,
    )
