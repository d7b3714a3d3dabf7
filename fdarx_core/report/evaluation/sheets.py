"""The tables of an evaluation's run, and ways to look figures up in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fdarx_core.records import Cell, Comparison, Figure
from fdarx_core.report.evaluation.charts import Interval
from fdarx_core.report.evaluation.wording import condition_of, setting_order
from fdarx_core.storage import RunDirectory, read_records, read_table

Record = TypeVar("Record")
Condition = tuple[str, str]
"""A setting, and the retriever where it is `retrieved`."""
FULL_LABEL: Condition = ("full_label", "")
Key = tuple[str, str, str, str, str, str]


@dataclass(slots=True)
class Sheets:
    """What a run says of itself and the rows of its three tables.

    `types` gives the type of each question by its id; `labels` counts the labels they are on.
    """

    info: Mapping[str, Any]
    figures: list[Figure]
    comparisons: list[Comparison]
    cells: list[Cell]
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


def read_sheets(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> Sheets:
    """The run's tables whole: their size depends on models and settings, not on how many questions were asked.

    `summary` is what `RunDirectory.finish` will add to run.json, for a page that is written before it.
    """
    types: dict[str, str] = {}
    labels: set[str] = set()
    for part in run.parts("questions"):
        columns = read_table(part, ["id", "type", "set_id"]).to_pydict()
        types.update(zip(columns["id"], columns["type"], strict=True))
        labels.update(columns["set_id"])
    return Sheets(
        {**run.info(), **(summary or {})},
        _rows(run, "metrics.parquet", Figure),
        _rows(run, "comparisons.parquet", Comparison),
        _rows(run, "cells.parquet", Cell),
        types,
        len(labels),
    )


def _rows(run: RunDirectory, name: str, record: type[Record]) -> list[Record]:
    return list(read_records(run.file(name), record))
