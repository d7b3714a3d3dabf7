"""How well the cited passages meet the gold ones. Source: FDARxBench §3.5, §B.7, Figure 4.

Macro averages each question's number; micro is of the counts of all questions together. Names that end in `_eq` let a
passage that states the same stand for a gold one. A question whose answer cites nothing, or that was refused though
it has an answer, has precision, recall and F1 of 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fdarx_core.evaluation.aggregates.aggregate import (
    ANSWERABLE,
    Aggregate,
    answerable_questions,
    averaged,
    divide,
    ratio,
    refused,
)
from fdarx_core.evaluation.aggregates.columns import Columns, Mask, Numbers

Metric = Callable[[Numbers], Numbers]


def precision(counts: Numbers) -> Numbers:
    """Of counts (…, 4): right citations, citations, gold passages found, gold passages."""
    return divide(counts[..., 0], counts[..., 1])


def recall(counts: Numbers) -> Numbers:
    return divide(counts[..., 2], counts[..., 3])


def f1(counts: Numbers) -> Numbers:
    """The harmonic mean of precision and recall, 0 where nothing was found."""
    right, cited, found, gold = np.moveaxis(counts, -1, 0)
    both = right * gold + found * cited
    return np.where((both == 0) & (gold > 0), 0.0, divide(2 * right * found, both))


def per_row(metric: Metric, counts: Numbers) -> Numbers:
    """The metric of each row; no citation at all makes its precision 0."""
    return np.where((counts[:, 1] == 0) & (counts[:, 3] > 0), 0.0, metric(counts))


def citing(right: str, found: str, suffix: str) -> tuple[Aggregate, ...]:
    """The six metrics on the columns of Score that count right citations and gold passages found."""

    def over(columns: Columns) -> Mask:
        return answerable_questions(columns) & (columns.number("gold") > 0) & columns.measured(right)

    def counts(columns: Columns) -> Numbers:
        made = np.column_stack([columns.number(name) for name in (right, "cited", found)])
        made = np.where(refused(columns)[:, None], 0.0, made)
        return np.column_stack([made, columns.number("gold")])

    def macro(name: str, metric: Metric) -> Aggregate:
        rows = lambda columns: averaged(per_row(metric, counts(columns)))  # noqa: E731
        return Aggregate(f"citation_{name}{suffix}", over, rows, ratio, ANSWERABLE)

    metrics: tuple[tuple[str, Metric], ...] = (("precision", precision), ("recall", recall), ("f1", f1))
    micro = (Aggregate(f"citation_{name}_micro{suffix}", over, counts, metric, ANSWERABLE) for name, metric in metrics)
    return (*(macro(name, metric) for name, metric in metrics), *micro)


CITATIONS: tuple[Aggregate, ...] = (*citing("hits", "hits", ""), *citing("eq_right", "eq_hits", "_eq"))
