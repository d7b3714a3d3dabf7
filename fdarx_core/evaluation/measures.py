"""Means over rows that carry their own numbers, for the statistics that otherwise read Score rows.

A measure that a row should have and lacks counts as unscored: the row names it in `unscored` as `field: reason`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.metrics import Mask, Metric, ScoreColumns, mean_components, ratio

Measure = tuple[str, Callable[[Any], float | None]]
"""The field that a row's `unscored` names where the number is missing, and the function that reads the number."""


def measure_table(
    rows: Sequence[Any],
    measures: Mapping[str, Measure],
    *,
    cluster: Callable[[Any], str],
    question: Callable[[Any], str],
    keys: Sequence[str] = (),
) -> pa.Table:
    """Return the measures of all rows as the table that `ScoreColumns` reads.

    Args:
        rows: the rows; their field `unscored`, if they have it, names what could not be measured.
        measures: the measures by name.
        cluster: returns the cluster of a row, which is the column `set_id` of the table.
        question: returns the question of a row.
        keys: text fields of the rows that become columns too.
    """
    columns: dict[str, pa.Array] = {
        "set_id": pa.array([cluster(row) for row in rows], pa.string()),
        "question_id": pa.array([question(row) for row in rows], pa.string()),
        **{name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in keys},
    }
    for name, (field, read) in measures.items():
        lacking = [any(one.partition(":")[0] == field for one in getattr(row, "unscored", ())) for row in rows]
        columns[name] = pa.array([read(row) for row in rows], pa.float64())
        columns[_lacking(name)] = pa.array(lacking, pa.bool_())
    return pa.table(columns)


def mean_metric(name: str) -> Metric:
    """Return the mean of a measure of `measure_table`, about the rows that have it and those that should have it."""

    def over(columns: ScoreColumns) -> Mask:
        return ~np.isnan(columns.number(name)) | (columns.number(_lacking(name)) > 0)

    return Metric(name, over, lambda columns: mean_components(columns.number(name)), ratio, ())


def _lacking(name: str) -> str:
    return f"no_{name}"
