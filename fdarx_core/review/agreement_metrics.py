"""Votes of annotators, coefficients of agreement, and these coefficients as metrics with bootstrap intervals.

A confusion table has shape (…, k, k): the reference's values down, the other's across, counts or sums of weights in its
cells. Coefficients have shape (…), NaN where they are undefined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fdarx_core.evaluation.metrics import Mask, Metric, Numbers, ScoreColumns, divide
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.tasks import UNSURE, Scale

POSITIVE = 0
"""The index of the positive value in a table of two values."""
JUDGE = "judge"
WEIGHT = "weight"
_ROUNDING = 1e-12
"""Smaller shares are rounding errors."""


@dataclass(frozen=True, slots=True)
class AnnotatedItem:
    """An item with its annotations, one an annotator, ordered by their names.

    `annotations` are the votes, `unsure` the marks that are no vote; `adjudications` were given in view of both.
    """

    item: ReviewItem
    annotations: list[Annotation] = field(default_factory=list)
    unsure: list[Annotation] = field(default_factory=list)
    adjudications: list[Annotation] = field(default_factory=list)

    @property
    def votes(self) -> list[str]:
        """The values of the annotators."""
        return [annotation.value for annotation in self.annotations]

    @property
    def values(self) -> list[str]:
        """The values that count as people's: the adjudicated ones where there are any, else the votes."""
        return [annotation.value for annotation in self.adjudications] or self.votes

    @property
    def differs(self) -> bool:
        """Whether the marks, unsure included, are not one and the same verdict."""
        return bool(self.unsure) or len(set(self.votes)) > 1


def collect_votes(
    items: Iterable[ReviewItem], annotations: Iterable[Annotation], *, blind: bool = False
) -> list[AnnotatedItem]:
    """Return each item with its votes, in the order of the items.

    `annotations` have one mark for each annotator and item, at most (see `merge_annotations`). `blind` leaves out marks
    that were given with the judge's decision in view. Raises ValueError for a mark on an unknown item, and for a value
    that is no choice.
    """
    annotated = {item.id: AnnotatedItem(item) for item in items}
    for vote in sorted(annotations, key=lambda vote: (vote.annotator, vote.item_id)):
        on, which = annotated.get(vote.item_id), f"the vote of {vote.annotator} on item {vote.item_id}"
        if on is None:
            raise ValueError(f"{which} is on no item of this review; was it given in another?")
        if vote.value not in on.item.choices:
            raise ValueError(f"{which} is {vote.value!r}; it may be {', '.join(on.item.choices)}")
        if not (blind and vote.saw_decision):
            marks = on.unsure if vote.value == UNSURE else on.adjudications if vote.adjudicated else on.annotations
            marks.append(vote)
    return list(annotated.values())


def consensus(values: Sequence[str]) -> str:
    """Return the value with more votes than any other, "" for a tie or no votes. Source: FDARxBench Table 4."""
    first = Counter(values).most_common(2)
    tie = len(first) == 2 and first[0][1] == first[1][1]
    return "" if tie or not first else first[0][0]


def unanimous(values: Sequence[str]) -> str:
    """Return the value of at least two votes that are all equal, else "". Source: FDARxBench Table 4."""
    return values[0] if len(values) > 1 and len(set(values)) == 1 else ""


def accuracy(table: Numbers) -> Numbers:
    """Return the share of rows with equal values."""
    return divide(_diagonal(table).sum(axis=-1), table.sum(axis=(-2, -1)))


def precision(table: Numbers) -> Numbers:
    """Return the share of rows that the reference calls positive, of those that the other does."""
    return divide(table[..., POSITIVE, POSITIVE], table.sum(axis=-2)[..., POSITIVE])


def recall(table: Numbers) -> Numbers:
    """Return the share of rows that the other calls positive, of those that the reference does."""
    return divide(table[..., POSITIVE, POSITIVE], table.sum(axis=-1)[..., POSITIVE])


def f1(table: Numbers) -> Numbers:
    """Return the F1 of the positive value; NaN where neither calls any row positive."""
    return np.asarray(_f1_by_value(table)[..., POSITIVE])


def macro_f1(table: Numbers) -> Numbers:
    """Return the mean F1 over the values that occur."""
    scores = _f1_by_value(table)
    return divide(np.nansum(scores, axis=-1), np.count_nonzero(~np.isnan(scores), axis=-1))


def kappa(table: Numbers) -> Numbers:
    """Return Cohen's κ; NaN where both give one and the same value throughout. Source: Cohen 1960."""
    total = table.sum(axis=(-2, -1))
    by_chance = divide((table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1), total**2)
    room = 1 - by_chance
    return divide(accuracy(table) - by_chance, np.where(room > _ROUNDING, room, 0.0))


def coincidences(votes: Numbers, values: int) -> Numbers:
    """Return each item's coincidence matrix, shape (items, k, k). Source: Krippendorff 2011.

    `votes` has shape (items, annotators), NaN for a missing vote. The matrix of an item with m votes sums to m, to 0
    where m is below 2.
    """
    counts = np.stack([(votes == value).sum(axis=1) for value in range(values)], axis=1).astype(np.float64)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(values)
    others = counts.sum(axis=1) - 1
    return np.asarray(np.where(others[:, None, None] > 0, pairs / np.maximum(others, 1)[:, None, None], 0.0))


def alpha(table: Numbers) -> Numbers:
    """Return Krippendorff's α for nominal values from summed coincidences; NaN where all votes are equal."""
    counts = table.sum(axis=-1)
    total = counts.sum(axis=-1)
    differing = total - _diagonal(table).sum(axis=-1)
    expected = divide(total**2 - (counts**2).sum(axis=-1), np.maximum(total - 1, 0))
    return np.asarray(1 - divide(differing, np.where(expected > _ROUNDING * total, expected, 0.0)))


def _diagonal(table: Numbers) -> Numbers:
    return np.asarray(np.diagonal(table, axis1=-2, axis2=-1))


def _f1_by_value(table: Numbers) -> Numbers:
    return divide(2 * _diagonal(table), table.sum(axis=-1) + table.sum(axis=-2))


Coefficient = Callable[[Numbers], Numbers]
_BINARY: tuple[Coefficient, ...] = (accuracy, f1, precision, recall, kappa)
_NOMINAL: tuple[Coefficient, ...] = (accuracy, macro_f1, kappa)


def table_metrics(reference: str, other: str, scale: Scale) -> dict[str, Metric]:
    """Return the metrics of one column of codes (`Scale.code`) against a reference, with the column `WEIGHT`.

    Items on which the judge has no decision are unscored; items that an annotator did not judge are left out.
    """
    size = len(scale.values)

    def over(columns: ScoreColumns) -> Mask:
        judged = ~np.isnan(columns.number(reference))
        return judged if other == JUDGE else judged & ~np.isnan(columns.number(other))

    def components(columns: ScoreColumns) -> Numbers:
        cell = columns.number(reference) * size + columns.number(other)
        hits = (cell[:, None] == np.arange(size * size)) * columns.number(WEIGHT)[:, None]
        return np.where(np.isnan(cell)[:, None], np.nan, hits)

    return {
        coefficient.__name__: Metric(
            f"{reference} {other} {coefficient.__name__}", over, components, _from_sums(coefficient, size), ()
        )
        for coefficient in (_BINARY if scale.positive else _NOMINAL)
    }


def alpha_metric(annotators: Sequence[str], scale: Scale) -> Metric:
    """Return Krippendorff's α of all annotators, on the items that at least two of them judged."""
    size = len(scale.values)

    def votes(columns: ScoreColumns) -> Numbers:
        return np.column_stack([columns.number(name) for name in annotators])

    def paired(columns: ScoreColumns) -> Mask:
        return np.asarray(np.count_nonzero(~np.isnan(votes(columns)), axis=1) > 1)

    def components(columns: ScoreColumns) -> Numbers:
        matrices = coincidences(votes(columns), size)
        return matrices.reshape(columns.rows, size * size) * columns.number(WEIGHT)[:, None]

    return Metric("alpha", paired, components, _from_sums(alpha, size), ())


def _from_sums(coefficient: Coefficient, size: int) -> Coefficient:
    return lambda sums: coefficient(sums.reshape(*sums.shape[:-1], size, size))
