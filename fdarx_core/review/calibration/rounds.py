"""What people saw, round by round, and the mean over all rows that follows.

Rows are a finite set, and which of them people see is all that is left to chance. Chances may differ by row (strata,
active sampling); rows weigh by their inverse (Hájek 1971), and the variance is that of samples of fixed size (Hájek
1964). Strata are used no further, so that intervals are somewhat too wide where they tell much. Each round makes an
estimate that is right on its own whatever the earlier ones led to choose: what these held is known, the round speaks of
the rest. Rounds count by what their sizes alone let expect: whatever people said must not weigh them. Source: Zrnic and
Candès 2024, "Active statistical inference", for the sequence of estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fdarx_core.evaluation.aggregates import Codes, Numbers

_ADDED = 1.0
"""Items found right, and as many found wrong, that are added for an interval: where all rows had the same chance, half
an item each at either verdict of the judge, as Jeffreys's prior would. Source: Brown and Li 2005."""


@dataclass(frozen=True, slots=True)
class Round:
    """What people saw at one time: positions among all rows, and people's verdicts on them (0 to 1).

    `chances` (above 0 to 1) are those with which each was drawn from the rows that no earlier round held, and judged.
    The round also holds the `unjudged`, which were drawn and about which nobody said anything: they were chosen by
    chance from what it holds, and no later round draws them.
    """

    rows: Codes
    people: Numbers
    chances: Numbers
    unjudged: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def held_by(rounds: Sequence[Round]) -> Codes:
    """All that was drawn, judged or not."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *(part for one in rounds for part in (one.rows, one.unjudged))])


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows that people saw, one array each; a row stands for `times` items. `unseen` is 1 less its chance among those
    that nobody had seen.

    Then by round: its `labels`, the `rest` that nobody had seen before, and the sums of people's and the judge's
    verdicts on what had been. `total` is the sum of the judge's verdicts on all rows.
    """

    round: Codes
    judge: Numbers
    people: Numbers
    weights: Numbers
    unseen: Numbers
    times: Numbers
    labels: Codes
    rest: Numbers
    people_before: Numbers
    judge_before: Numbers
    total: float

    @classmethod
    def of(cls, judge: Numbers, rounds: Sequence[Round]) -> Seen:
        """`judge` are its verdicts on all rows; at least one round has labels.

        Raises ValueError for a row in two rounds and a chance out of range.
        """
        passed_by = _before(np.array([len(one.unjudged) for one in rounds]))
        passed_by = passed_by[[bool(len(one.rows)) for one in rounds]]
        rounds = [one for one in rounds if len(one.rows)]
        rows = np.concatenate([one.rows for one in rounds])
        people = np.concatenate([one.people for one in rounds])
        chances = np.concatenate([one.chances for one in rounds])
        _check(rows, chances)
        labels = np.array([len(one.rows) for one in rounds])
        before = _before(labels)
        rest = len(judge) - before.astype(np.float64)
        return cls(
            round=np.repeat(np.arange(len(rounds)), labels),
            judge=judge[rows],
            people=people,
            weights=1 / chances,
            unseen=1 - chances * np.repeat(1 - passed_by / rest, labels),
            times=np.ones(len(rows)),
            labels=labels,
            rest=rest,
            people_before=np.concatenate([[0.0], np.cumsum(people)])[before],
            judge_before=np.concatenate([[0.0], np.cumsum(judge[rows])])[before],
            total=float(judge.sum()),
        )

    def with_added(self) -> Seen:
        """With the items that only an interval counts, spread evenly over each round and each of the judge's verdicts.

        They give it a width where people agreed with the judge on all that they saw.
        """
        verdicts, verdict_of = np.unique(self.judge, return_inverse=True)
        groups, group_of = np.unique(self.round * len(verdicts) + verdict_of, return_inverse=True)
        sizes = np.bincount(group_of)
        weights, unseen = (np.bincount(group_of, values) / sizes for values in (self.weights, self.unseen))
        return replace(
            self,
            round=np.concatenate([self.round, np.tile(groups // len(verdicts), 2)]),
            judge=np.concatenate([self.judge, np.tile(verdicts[groups % len(verdicts)], 2)]),
            people=np.concatenate([self.people, np.ones(len(groups)), np.zeros(len(groups))]),
            weights=np.concatenate([self.weights, np.tile(weights, 2)]),
            unseen=np.concatenate([self.unseen, np.tile(unseen, 2)]),
            times=np.concatenate([self.times, np.full(2 * len(groups), _ADDED / len(groups))]),
        )

    def judge_differs(self) -> bool:
        """Whether the judge says different things of rows of one round."""
        highest, lowest = (np.full(len(self.labels), bound) for bound in (-np.inf, np.inf))
        np.maximum.at(highest, self.round, self.judge)
        np.minimum.at(lowest, self.round, self.judge)
        return bool((highest > lowest).any())

    def tuning(self) -> float:
        """How much the judge must count for the estimate to vary least; 0 where it does not differ."""
        judge, scale = self._centred(self.judge), self._scale()
        varied = float((scale * judge**2).sum())
        if not varied or not self.judge_differs():
            return 0.0
        return float((scale * judge * self._centred(self.people)).sum()) / varied

    def estimate(self, tuning: float) -> tuple[float, float]:
        """The mean of people's verdicts over all rows, and its standard error."""
        off = self.people - tuning * self.judge
        sums = self.people_before + tuning * (self.total - self.judge_before) + self.rest * self._mean(off)
        variance = float((self._scale() * self._centred(off) ** 2).sum())
        return float(self._shares() @ sums / self.rest[0]), variance**0.5

    def _scale(self) -> Numbers:
        """What the square of a row's distance from its round's mean adds to the variance of the estimate."""
        shares = self._shares() * self.rest / self.rest[0] / self._sum(self.times * self.weights)
        items = self._sum(self.times)
        free = np.divide(items, items - 1, out=np.ones(len(items)), where=items > 1)
        return np.asarray(self.times * self.unseen * (shares[self.round] * self.weights) ** 2 * free[self.round])

    def _shares(self) -> Numbers:
        """What each round counts: the inverse of the variance of a sample by chance, all for one that saw all the rest.

        Of that sample's variance, what differs by round is (rest / rows)² · (1 - labels / rest) / labels.
        """
        unseen = self.rest - self.labels
        if not unseen.all():
            return np.asarray(unseen == 0, dtype=np.float64)
        counts = self.labels / (self.rest * unseen)
        return np.asarray(counts / counts.sum())

    def _centred(self, values: Numbers) -> Numbers:
        return np.asarray(values - self._mean(values)[self.round])

    def _mean(self, values: Numbers) -> Numbers:
        weights = self.times * self.weights
        return np.asarray(self._sum(weights * values) / self._sum(weights))

    def _sum(self, values: Numbers) -> Numbers:
        return np.bincount(self.round, values, minlength=len(self.labels)).astype(np.float64)


def _before(counts: Codes) -> Codes:
    """The sum of all earlier ones."""
    return np.asarray(np.cumsum(counts) - counts)


def _check(rows: Codes, chances: Numbers) -> None:
    if len(np.unique(rows)) < len(rows):
        raise ValueError("a row is labelled twice; give people's one verdict on it, in the round that drew it")
    if chances.min() <= 0 or chances.max() > 1:
        raise ValueError(f"chances go from {chances.min()} to {chances.max()}; they must be above 0 and at most 1")
