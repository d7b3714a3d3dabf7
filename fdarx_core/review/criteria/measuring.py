"""A judge with the old and with the new criteria, both held against what people said of the same items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.aggregates import Columns
from fdarx_core.evaluation.statistics import Estimate, Slice, contrast, estimate
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.agreement.aggregates import WEIGHT, between
from fdarx_core.review.agreement.scales import Scale, scales
from fdarx_core.review.tasks import REVIEW_TASKS

OLD, NEW, PEOPLE = "old", "new", "people"


@dataclass(frozen=True, slots=True)
class Judged:
    """One held-out item: what people say together, and what the judge says by the old and the new criteria, "" where
    it reached no decision. `because` is its reason by the new ones."""

    item: ReviewItem
    people: str
    old: str
    new: str
    because: str = ""

    @property
    def scored(self) -> bool:
        """Whether the judge decided both times."""
        return bool(self.old and self.new)


@dataclass(frozen=True, slots=True)
class Measured:
    """One coefficient of agreement with people by the old and the new criteria, and the difference, new less old.

    All three rest on the same items, those that the judge decided both times; `unscored` are the others.
    """

    task: str
    metric: str
    old: Estimate
    new: Estimate
    difference: Estimate
    unscored: int


def measured(judged: Sequence[Judged], *, seed: int, resamples: int) -> list[Measured]:
    """By task; relevance counts as relevant or not. 95 % intervals by bootstrap over labels, items weighted alike."""
    found: list[Measured] = []
    for task in dict.fromkeys(one.item.task for one in judged):
        of_task = [one for one in judged if one.item.task == task]
        scored = [one for one in of_task if one.scored]
        scale = scales(REVIEW_TASKS[task])[0]
        if scored:
            found += _measured(scored, scale, len(of_task) - len(scored), seed, resamples)
    return found


def _measured(scored: Sequence[Judged], scale: Scale, unscored: int, seed: int, resamples: int) -> list[Measured]:
    columns = Columns(_table(scored, scale))
    every = np.ones(columns.rows, dtype=np.bool_)
    old, new = ([Slice(one, every) for one in between(PEOPLE, by, scale).values()] for by in (OLD, NEW))
    values = estimate(columns, [*old, *new], seed=seed, resamples=resamples)
    differences = contrast(columns, list(zip(new, old, strict=True)), seed=seed, resamples=resamples)
    rows = zip(between(PEOPLE, NEW, scale), values[: len(old)], values[len(old) :], differences, strict=True)
    return [Measured(scale.task, metric, before, after, apart, unscored) for metric, before, after, apart in rows]


def _table(scored: Sequence[Judged], scale: Scale) -> pa.Table:
    def codes(values: Sequence[str]) -> pa.Array:
        return pa.array([scale.code(scale.read(value)) for value in values], pa.float64())

    return pa.table(
        {
            "question_id": pa.array([one.item.id for one in scored], pa.string()),
            "set_id": pa.array([one.item.set_id for one in scored], pa.string()),
            WEIGHT: pa.array([1.0] * len(scored), pa.float64()),
            PEOPLE: codes([one.people for one in scored]),
            OLD: codes([one.old for one in scored]),
            NEW: codes([one.new for one in scored]),
        }
    )


def moved(judged: Sequence[Judged]) -> list[Judged]:
    """The items on which the judge changed its mind, or reached a decision once only."""
    return [one for one in judged if one.old != one.new]
