"""A review's items as a round: what people said of those that somebody judged, and how these stand for all drawn.

People seldom judge all that was drawn. The order of the items says nothing of what they are, so those judged are a
sample by chance of those drawn; but some may skip what is hard, which is of a kind more often than not. So an item's
chance to be drawn is taken times the share that was judged of those like it: of its stratum; where that is too small to
tell, of all such items with the same verdict of the judge; else of all. Source: weighting classes, Oh and Scheuren
1983; Little and Rubin 2019, §3.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fdarx_core.evaluation.aggregates import Codes, Numbers
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.agreement import Voted, consensus
from fdarx_core.review.calibration.rounds import Round
from fdarx_core.review.tasks import EVALUATION_TASKS, REVIEW_TASKS

(GRADE,) = EVALUATION_TASKS
RIGHT = REVIEW_TASKS[GRADE].positive
_TELLING = 5
"""Items to be expected among those judged for a class to have a share of its own. It is what the size of the class lets
expect that decides, not how many were judged: else the lucky classes alone would speak for themselves."""

_ALIKE: tuple[Callable[[ReviewItem], str], ...] = (lambda item: item.stratum, lambda item: item.decision)


def round_of(drawn: Iterable[Voted], row: Mapping[str, int]) -> Round:
    """What people said of the drawn answers that have a `row` among all, by prediction id; their consensus counts.

    Where no value has more votes than any other, it is the share of people who found the answer correct.
    """
    held = [one for one in drawn if one.item.subject in row]
    shares = _judged_shares(held)
    judged = [one for one in held if one.values]
    return Round(
        rows=_rows(judged, row),
        people=_floats(map(_right, judged)),
        chances=_floats(one.item.fraction * shares[one.item.id] for one in judged),
        unjudged=_rows([one for one in held if not one.values], row),
    )


def _judged_shares(held: Sequence[Voted]) -> dict[str, float]:
    """By item id."""
    whole = _share(held)
    shares = dict.fromkeys((one.item.id for one in held), whole)
    left = list(held)
    for key in _ALIKE:
        groups: dict[str, list[Voted]] = defaultdict(list)
        for one in left:
            groups[key(one.item)].append(one)
        left = []
        for group in groups.values():
            if len(group) * whole >= _TELLING and _share(group):
                shares |= dict.fromkeys((one.item.id for one in group), _share(group))
            else:
                left += group
    return shares


def _share(items: Sequence[Voted]) -> float:
    return sum(bool(one.values) for one in items) / max(len(items), 1)


def _right(one: Voted) -> float:
    said = consensus(one.values)
    return float(said == RIGHT) if said else one.values.count(RIGHT) / len(one.values)


def _rows(items: Iterable[Voted], row: Mapping[str, int]) -> Codes:
    return np.array([row[one.item.subject] for one in items], dtype=np.int64)


def _floats(values: Iterable[float]) -> Numbers:
    return np.array(list(values), dtype=np.float64)
