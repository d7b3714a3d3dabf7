"""What an aggregate metric is: numbers summed within each label, and a function of the sums.

Sums of labels add up, so the metric of a bootstrap sample of labels takes a matrix product, not a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fdarx_core.evaluation.aggregates.columns import Columns, Mask, Numbers

ANSWERABLE = ("factual", "multihop", "answerable")
REFUSAL = ("refusal",)
ALL = ("all",)
EVERY = ("factual", "multihop", "refusal", "answerable", "all")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One metric over many rows.

    `over` marks the rows that the metric is about. `components` gives k numbers for every row of the table, shape
    (rows, k), which are summed; NaN marks a row that could not be measured, and counts as unscored. `combine` turns
    sums of shape (…, k) into values of shape (…), NaN where they have no meaning. `types` are the groups by question
    type that the metric is reported for.
    """

    name: str
    over: Callable[[Columns], Mask]
    components: Callable[[Columns], Numbers]
    combine: Callable[[Numbers], Numbers]
    types: tuple[str, ...]


def counted(aggregate: Aggregate, columns: Columns) -> tuple[Mask, Mask, Numbers]:
    """The rows that the metric is about, those of them that it rests on, and their components (0 elsewhere)."""
    over = aggregate.over(columns)
    components = aggregate.components(columns)
    rests_on = over & ~np.isnan(components).any(axis=1)
    return over, rests_on, np.where(rests_on[:, None], components, 0.0)


def portion(part: Mask, base: Mask) -> Numbers:
    """Components of a share: 1 for rows in `part`, and 1 to count them; NaN outside `base`."""
    return np.where(base[:, None], np.column_stack([part, np.ones(len(part))]), np.nan)


def averaged(values: Numbers) -> Numbers:
    """Components of a mean of `values`, which may be NaN."""
    return np.column_stack([values, np.ones(len(values))])


def ratio(sums: Numbers) -> Numbers:
    """First sum over second, NaN over 0."""
    return divide(sums[..., 0], sums[..., 1])


def divide(above: Numbers, below: Numbers) -> Numbers:
    """Element by element, NaN where the divisor is 0."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below != 0))


def every_row(columns: Columns) -> Mask:
    return np.ones(columns.rows, dtype=np.bool_)


def refusal_questions(columns: Columns) -> Mask:
    return columns.is_in("type", "refusal")


def answerable_questions(columns: Columns) -> Mask:
    return ~refusal_questions(columns)


def understood(columns: Columns) -> Mask:
    """Rows whose reply could be read, as an answer or as a refusal."""
    return columns.is_in("outcome", "answered", "refused")


def refused(columns: Columns) -> Mask:
    return columns.is_in("outcome", "refused")
