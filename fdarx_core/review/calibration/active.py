"""What people should look at next: answers of which the judge's verdict tells least, drawn with chances that are known.

An answer's chance is in proportion to how unsure it is what people will say of it, going by what they said of answers
like it; cells (model, setting, retriever) get as many labels in all as their answers are unsure on average, so that the
sum of the variances of their accuracies falls most (Neyman 1934). A part of the chances is spread evenly, so that none
is 0 and no weight very large. Source: Zrnic and Candès 2024, "Active statistical inference".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fdarx_core.evaluation.aggregates import Codes, Mask, Numbers
from fdarx_core.review.calibration.rounds import Round, held_by

_EVEN = 0.2
"""The part of the chances that is spread evenly."""
_PRIOR = 4.0
"""Labels for which counts, in a group, what is known of the wider one."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Answers that may be drawn, as numbers from 0: the `cell` that each is of, and what it is `like`.

    `verdict` is the judge's: the wider group, over all cells, that those alike belong to.
    """

    cell: Codes
    like: Codes
    verdict: Codes


def chances(pool: Pool, rounds: Sequence[Round], n: int) -> Numbers:
    """The chance of each answer to be among the next `n`, 0 for those that the rounds hold.

    They sum to `n`, or to the number of answers left where these are fewer.
    """
    seen = np.concatenate([np.zeros(0, dtype=np.int64), *(one.rows for one in rounds)])
    people = np.concatenate([np.zeros(0), *(one.people for one in rounds)])
    left = np.ones(len(pool.cell), dtype=np.bool_)
    left[held_by(rounds)] = False
    if not left.any():
        return np.zeros(len(left))
    wanted, even = _wanted(pool, _unsure(pool, seen, people), seen, left, n), left / left.sum()
    mixed = _EVEN * even + (1 - _EVEN) * wanted / wanted.sum() if wanted.any() else even
    return _capped(mixed, n)


def drawn(chance: Numbers, dice: Numbers, n: int) -> Codes:
    """The positions of `n` rows, each drawn with its chance (these sum to `n`); `dice` are uniform, one a row.

    The rows whose odds of dice are least beside the odds of their chance. Source: Rosén 1997, Pareto sampling.
    """
    rows = np.flatnonzero(chance)
    dice, chance = dice[rows], chance[rows]
    odds = dice / (1 - dice) * (1 - chance) / chance
    return np.sort(rows[np.argsort(odds, kind="stable")[:n]])


def _unsure(pool: Pool, seen: Codes, people: Numbers) -> Numbers:
    """The standard deviation of people's verdict on each answer."""
    half = np.full(len(pool.cell), 0.5)
    share = _shares(pool.like, _shares(pool.verdict, half, seen, people), seen, people)
    return np.asarray(np.sqrt(share * (1 - share)))


def _shares(group: Codes, wider: Numbers, seen: Codes, people: Numbers) -> Numbers:
    """For each answer, how often people found those of its group right; where few were seen, more by the wider one."""
    size = int(group.max(initial=0)) + 1
    labels = np.bincount(group[seen], minlength=size)[group]
    right = np.bincount(group[seen], people, minlength=size)[group]
    return np.asarray((right + _PRIOR * wider) / (labels + _PRIOR))


def _wanted(pool: Pool, unsure: Numbers, seen: Codes, left: Mask, n: int) -> Numbers:
    """What each answer should get of the next `n` labels, in any unit."""
    size = int(pool.cell.max(initial=0)) + 1
    sizes = np.bincount(pool.cell, minlength=size)
    labels = np.bincount(pool.cell[seen], minlength=size)
    average = np.bincount(pool.cell, unsure, minlength=size) / np.maximum(sizes, 1)
    due = np.maximum(average / average.sum() * (len(seen) + n) - labels, 0)
    among = np.bincount(pool.cell, unsure * left, minlength=size)
    return np.asarray(left * unsure * np.divide(due, among, out=np.zeros(size), where=among > 0)[pool.cell])


def _capped(wanted: Numbers, n: int) -> Numbers:
    """In proportion to `wanted`, none above 1, `n` in all."""
    if n >= np.count_nonzero(wanted):
        return (wanted > 0).astype(np.float64)
    chance = wanted * 0.0
    free = wanted > 0
    for _ in range(len(wanted)):
        chance[free] = wanted[free] * (n - np.count_nonzero(chance >= 1)) / max(wanted[free].sum(), 1e-300)
        over = free & (chance >= 1)
        if not over.any():
            break
        chance[over], free = 1.0, free & ~over
    return chance
