"""Coefficients of agreement as aggregates, so that they get intervals by bootstrap over labels as all metrics do.

A table has a row an item; `weight`, and a column of codes (`Scale.code`) for the judge and for each voice of people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fdarx_core.evaluation.aggregates import Aggregate, Columns, Mask, Numbers
from fdarx_core.review.agreement import coefficients
from fdarx_core.review.agreement.scales import Scale

Coefficient = Callable[[Numbers], Numbers]

JUDGE = "judge"
WEIGHT = "weight"
_OF_TWO: dict[str, Coefficient] = {
    "accuracy": coefficients.accuracy,
    "f1": coefficients.f1,
    "precision": coefficients.precision,
    "recall": coefficients.recall,
    "kappa": coefficients.kappa,
}
_OF_MANY: dict[str, Coefficient] = {
    "accuracy": coefficients.accuracy,
    "macro_f1": coefficients.macro_f1,
    "kappa": coefficients.kappa,
}


def against_judge(voice: str, scale: Scale) -> dict[str, Aggregate]:
    """The judge as predictor of what `voice` says; items that the judge did not decide are unscored."""

    def said(columns: Columns) -> Mask:
        return ~np.isnan(columns.number(voice))

    return _pair(voice, JUDGE, scale, said)


def between(first: str, second: str, scale: Scale) -> dict[str, Aggregate]:
    """Two annotators, on the items that both judged."""

    def both(columns: Columns) -> Mask:
        return ~np.isnan(columns.number(first)) & ~np.isnan(columns.number(second))

    return _pair(first, second, scale, both)


def among(voices: Sequence[str], scale: Scale) -> Aggregate:
    """Krippendorff's α of all annotators, on the items that two of them or more judged."""
    size = len(scale.values)

    def votes(columns: Columns) -> Numbers:
        return np.column_stack([columns.number(voice) for voice in voices])

    def paired(columns: Columns) -> Mask:
        return np.asarray(np.count_nonzero(~np.isnan(votes(columns)), axis=1) > 1)

    def components(columns: Columns) -> Numbers:
        found = coefficients.coincidences(votes(columns), size)
        return found.reshape(columns.rows, size * size) * columns.number(WEIGHT)[:, None]

    return Aggregate("alpha", paired, components, _of_sums(coefficients.alpha, size), ())


def _pair(first: str, second: str, scale: Scale, over: Callable[[Columns], Mask]) -> dict[str, Aggregate]:
    size = len(scale.values)

    def components(columns: Columns) -> Numbers:
        cell = columns.number(first) * size + columns.number(second)
        hits = (cell[:, None] == np.arange(size * size)) * columns.number(WEIGHT)[:, None]
        return np.where(np.isnan(cell)[:, None], np.nan, hits)

    return {
        name: Aggregate(f"{first} {second} {name}", over, components, _of_sums(one, size), ())
        for name, one in (_OF_TWO if scale.positive else _OF_MANY).items()
    }


def _of_sums(coefficient: Coefficient, size: int) -> Coefficient:
    return lambda sums: coefficient(sums.reshape(*sums.shape[:-1], size, size))
