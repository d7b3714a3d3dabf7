"""Accuracy by kind of question: one shaded table for each setting and way to group, a column a model."""

from __future__ import annotations

from dataclasses import dataclass

from fdarx_core.records import Figure
from fdarx_core.report.evaluation.sheets import FULL_LABEL, Condition, Sheets
from fdarx_core.report.evaluation.wording import setting_name

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


def subgroups(sheets: Sheets) -> list[SettingTables]:
    """A setting without any figure by subgroup is left out."""
    made = [_setting(sheets, at, condition) for at, condition in enumerate(sheets.conditions)]
    return [one for one in made if one.tables]


def _setting(sheets: Sheets, at: int, condition: Condition) -> SettingTables:
    tables = [_table(sheets, condition, group_by) for group_by in GROUPINGS]
    first = condition == FULL_LABEL
    return SettingTables(
        f"subgroup-{at}", setting_name(*condition), first, sheets.models, [one for one in tables if one.rows]
    )


def _table(sheets: Sheets, condition: Condition, group_by: str) -> SubgroupTable:
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
