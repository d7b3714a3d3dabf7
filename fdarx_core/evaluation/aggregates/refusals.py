"""Telling what can't be answered: a refusal is the positive call, a refusal question the positive truth.

All questions of a cell count whose reply could be read: refusing an answerable question is a false alarm. A cell that
was asked no refusal questions has none of these metrics. Source: FDARxBench §4.1, §B.6, §B.7, Figure 5.
"""

from __future__ import annotations

import numpy as np

from fdarx_core.evaluation.aggregates.aggregate import (
    ALL,
    REFUSAL,
    Aggregate,
    divide,
    portion,
    ratio,
    refusal_questions,
    refused,
    understood,
)
from fdarx_core.evaluation.aggregates.columns import Columns, Mask, Numbers


def asked_to_refuse(columns: Columns) -> Mask:
    """Every row of a cell that holds refusal questions, none of another."""
    return np.full(columns.rows, refusal_questions(columns).any())


def confusion(columns: Columns) -> Numbers:
    """True positives, false positives, false negatives, true negatives."""
    truth, called = refusal_questions(columns), refused(columns)
    cases = np.column_stack([truth & called, ~truth & called, truth & ~called, ~truth & ~called])
    return np.where(understood(columns)[:, None], cases, np.nan)


def precision(sums: Numbers) -> Numbers:
    return divide(sums[..., 0], sums[..., 0] + sums[..., 1])


def recall(sums: Numbers) -> Numbers:
    return divide(sums[..., 0], sums[..., 0] + sums[..., 2])


def f1(sums: Numbers) -> Numbers:
    return divide(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])


def right_calls(sums: Numbers) -> Numbers:
    return divide(sums[..., 0] + sums[..., 3], sums.sum(axis=-1))


def hallucinations(columns: Columns) -> Numbers:
    return portion(~refused(columns), understood(columns))


REFUSALS: tuple[Aggregate, ...] = (
    Aggregate("refusal_precision", asked_to_refuse, confusion, precision, ALL),
    Aggregate("refusal_recall", asked_to_refuse, confusion, recall, ALL),
    Aggregate("refusal_f1", asked_to_refuse, confusion, f1, ALL),
    Aggregate("refusal_accuracy", asked_to_refuse, confusion, right_calls, ALL),
    Aggregate("hallucination_rate", refusal_questions, hallucinations, ratio, REFUSAL),
)
