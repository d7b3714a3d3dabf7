"""Charts and subgroup tables of an evaluation's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fdarx_core.evaluation.bootstrap import with_holm
from fdarx_core.evaluation.tables import MISSING, build_table
from fdarx_core.records import Difference, Estimate, Figure, SettingProgress
from fdarx_core.report.charts import Point, Series, bar_numbers, bars, scatter
from fdarx_core.report.page_engine import (
    RETRIEVED_COLORS,
    SETTING_COLORS,
    Cell,
    FigurePanel,
    setting_name,
    setting_order,
    value_and_interval,
)
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
        self._by_key = {(*(figure.keys[name] for name in names), figure.metric): figure for figure in self.figures}

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
    place = info["config"].get("benchmark") or info.get("benchmark", {}).get("name", "")
    name = str(place).rstrip("/").rpartition("/")[2]
    split = info["config"].get("split", TEST)
    return name if split == TEST else f"{name} ({'all splits' if split == 'all' else f'{split} split'})"


def is_graded_file(info: Mapping[str, Any]) -> bool:
    """Return whether the questions are those of a graded file, which has no labels, question types and topics."""
    return bool(info.get("benchmark", {}).get("kind") == "graded_file")


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
        with_holm(read_records(run.file("comparisons.parquet"), Difference), ["group"]),  # of earlier versions, too
        list(read_records(run.file("cells.parquet"), SettingProgress)),
        types,
        len(labels),
    )


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
    name = "by-reference" if is_graded_file(sheets.info) else "by-setting"
    return FigurePanel.worded(
        name, bars(sheets.models, series, "estimates", "accuracy"), *bar_numbers("Model", sheets.models, series)
    )


def accuracy_and_cost(sheets: EvaluationTables) -> FigurePanel | None:
    """Return accuracy and USD per 1,000 questions, or tokens per question if no model has prices."""
    conditions = _answered_conditions(sheets)
    if not conditions:
        return None
    condition = FULL_LABEL if FULL_LABEL in conditions else conditions[-1]
    priced = any(_cost(sheets, model, condition) is not None for model in sheets.models)
    title, measure = ("USD per 1,000 questions", _cost) if priced else ("Tokens per question", _tokens)
    accuracy_of = {model: sheets.figure(model, condition, "accuracy", "answerable") for model in sheets.models}
    points = _comparable(
        [(model, Estimate(measure(sheets, model, condition)), accuracy) for model, accuracy in accuracy_of.items()]
    )
    if not points:
        return None
    rows: list[list[Cell]] = []
    for model, one in product(sheets.models, conditions):
        cost, tokens = _cost(sheets, model, one), _tokens(sheets, model, one)
        amounts = MISSING if cost is None else f"{cost:,.2f}", MISSING if tokens is None else round(tokens)
        accuracy = value_and_interval(sheets.figure(model, one, "accuracy", "answerable"))
        rows.append([model, setting_name(*one), *amounts, *accuracy])
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
        rows,
    )


_COMPARED = (
    ("citations", ("Accuracy", "accuracy"), ("Citation F1 (micro)", "citation_f1_micro"), "answerable"),
    ("refusals", ("Refusal recall", "refusal_recall"), ("Refusal precision", "refusal_precision"), "all"),
)
"""The charts of two metrics: name, title and metric on both axes, and the group of questions."""


def metric_pairs(sheets: EvaluationTables) -> list[FigurePanel]:
    """Return accuracy and citation F1, and refusal recall and precision, in the full label, where there are both.

    Source: FDARxBench, Figures 4 and 5.
    """
    panels = []
    for name, (x_title, x), (y_title, y), group in _COMPARED:
        values = [
            (model, sheets.figure(model, FULL_LABEL, x, group), sheets.figure(model, FULL_LABEL, y, group))
            for model in sheets.models
        ]
        if points := _comparable(values):
            rows = [[model, *value_and_interval(across), *value_and_interval(up)] for model, across, up in points]
            header = ["Model", x_title, "95 %", y_title, "95 %"]
            panels.append(FigurePanel.worded(name, scatter(points, x_title, y_title), header, rows))
    return panels


def _comparable(points: Sequence[Point]) -> list[Point]:
    """Return the points that have both values; none for fewer than a chart compares."""
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
    return sum(values) or None  # nothing is known of answers of other programs


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
    for at, condition in enumerate([] if is_graded_file(sheets.info) else sheets.conditions):
        tables = []
        for group_by, (title, stub) in GROUPINGS.items():
            cells = [
                (figure.keys["group"], figure.keys["model"], figure)
                for figure in sheets.figures
                if figure.metric == "accuracy" and figure.keys["group_by"] == group_by
                if (figure.keys["setting"], figure.keys["retriever"]) == condition
            ]
            cells.sort(key=lambda cell: (cell[0] == _LAST, _FIRST.index(cell[0]) if cell[0] in _FIRST else 0, cell[0]))
            tables.append(build_table(title, stub, [("", model, model) for model in sheets.models], cells))
        if tables := [table for table in tables if table.rows]:
            name, first = f"subgroup-{at}", condition == FULL_LABEL
            found.append({"name": name, "title": setting_name(*condition), "first": first, "tables": tables})
    return found
