"""Agreement of two raters from their confusion table, and of many from their coincidences.

A confusion table has shape (…, k, k): the reference's values down, the other's across, counts or sums of weights in
its cells. All functions give shape (…), NaN where a figure has no meaning.
"""

from __future__ import annotations

import numpy as np

from fdarx_core.evaluation.aggregates import Numbers
from fdarx_core.evaluation.aggregates.aggregate import divide

POSITIVE = 0
"""Where the positive value stands in a table of two values."""


def accuracy(table: Numbers) -> Numbers:
    """The share of rows with equal values."""
    return divide(_diagonal(table).sum(axis=-1), table.sum(axis=(-2, -1)))


def precision(table: Numbers) -> Numbers:
    """Of the rows that the other calls positive, the share that the reference does."""
    return divide(table[..., POSITIVE, POSITIVE], table.sum(axis=-2)[..., POSITIVE])


def recall(table: Numbers) -> Numbers:
    """Of the rows that the reference calls positive, the share that the other does."""
    return divide(table[..., POSITIVE, POSITIVE], table.sum(axis=-1)[..., POSITIVE])


def f1(table: Numbers) -> Numbers:
    """Of the positive value; NaN where neither calls any row positive."""
    return np.asarray(_f1_by_value(table)[..., POSITIVE])


def macro_f1(table: Numbers) -> Numbers:
    """The mean of every value's F1, over the values that either of the two gives."""
    scores = _f1_by_value(table)
    return divide(np.nansum(scores, axis=-1), np.count_nonzero(~np.isnan(scores), axis=-1))


def kappa(table: Numbers) -> Numbers:
    """Cohen's κ: agreement beyond chance; NaN where both give one and the same value throughout.

    Source: Cohen 1960.
    """
    total = table.sum(axis=(-2, -1))
    by_chance = divide((table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1), total**2)
    return _beyond(accuracy(table), by_chance)


def coincidences(votes: Numbers, values: int) -> Numbers:
    """Each item's pairs of votes by value, shape (items, k, k); an item of m votes adds m in all, one of fewer than 2
    nothing.

    `votes` has an item a row and an annotator a column, NaN where one did not vote. Source: Krippendorff 2011.
    """
    counts = np.stack([(votes == value).sum(axis=1) for value in range(values)], axis=1).astype(np.float64)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(values)
    others = counts.sum(axis=1) - 1
    return np.asarray(np.where(others[:, None, None] > 0, pairs / np.maximum(others, 1)[:, None, None], 0.0))


def alpha(table: Numbers) -> Numbers:
    """Krippendorff's α for nominal values, from summed coincidences; NaN where all votes are the same value."""
    given = table.sum(axis=-1)
    total = given.sum(axis=-1)
    differing = total - _diagonal(table).sum(axis=-1)
    expected = divide(total**2 - (given**2).sum(axis=-1), np.maximum(total - 1, 0))
    return np.asarray(1 - divide(differing, np.where(expected > _ROUNDING * total, expected, 0.0)))


_ROUNDING = 1e-12
"""A difference below this share is one of rounding."""


def _beyond(observed: Numbers, by_chance: Numbers) -> Numbers:
    room = 1 - by_chance
    return divide(observed - by_chance, np.where(room > _ROUNDING, room, 0.0))


def _diagonal(table: Numbers) -> Numbers:
    return np.asarray(np.diagonal(table, axis1=-2, axis2=-1))


def _f1_by_value(table: Numbers) -> Numbers:
    return divide(2 * _diagonal(table), table.sum(axis=-1) + table.sum(axis=-2))
