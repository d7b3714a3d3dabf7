"""Prediction-powered estimates of a share: a judge's verdicts on all rows, corrected by people's verdicts on some.

The estimate is the judge's mean over all rows, plus the mean difference between people and judge on the labeled rows.
The weight of the judge (`tuning`) minimizes the variance: a judge that tells nothing has weight 0, and the estimate is
the mean of people's verdicts. Sources: Angelopoulos et al. 2023, "Prediction-powered inference", Science 382;
Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered inference". (Their judge's mean is over the
unlabeled rows, ours over all rows, so our tuning is theirs times 1 + labeled/unlabeled, and the estimate is the same.)

Rows are a finite population, and which of them people label is the only source of chance: the interval is for what
people would say of all these rows, not of others like them. Chances may differ by row (strata, active sampling); rows
weigh by their inverse (Hájek 1971), with the variance of samples of fixed size (Hájek 1964). Strata are not used
further, so intervals are somewhat too wide where strata tell much. Each round of labels gives an estimate that is
unbiased whatever earlier rounds led to choose: their rows are known, and the round estimates the rest. Rounds are
weighted by their sizes alone, never by their results. Source: Zrnic and Candès 2024, "Active statistical inference".

The package ppi-python (0.2.3, December 2024) does not fit: it has neither finite populations nor rounds, its interval
has no width where people agreed with the judge on all labels, and it installs a top-level package named `tests`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from fdarx_core.evaluation.metrics import Codes, Numbers

LEVEL = 0.95
MIN_LABELS = 10
"""With fewer labels there is no estimate."""
JUDGE_AND_PEOPLE = "judge and people"
PEOPLE_ALONE = "people alone"
TOO_FEW = "too few labels"
_PSEUDO_LABELS = 1.0
"""Rows found correct, and as many found wrong, that are added for the interval. With equal chances this is half a row
for each verdict of the judge, as in Jeffreys's prior. Source: Brown and Li 2005."""


@dataclass(frozen=True, slots=True)
class LabelingRound:
    """The labels of one round: row numbers, and people's verdicts on these rows (0 to 1).

    `chances` (above 0, at most 1) are the probabilities with which each row was drawn, from the rows of no earlier
    round, and labeled. `unjudged` rows were drawn but not labeled; no later round draws them.
    """

    rows: Codes
    people: Numbers
    chances: Numbers
    unjudged: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class CalibratedEstimate:
    """A share with its interval, over `rows` rows of which people labeled `labels`.

    `by` is "judge and people", "people alone" where the judge said the same of all labeled rows, or "too few labels"
    below `MIN_LABELS`, with None for the figures. `tuning` is the weight of the judge.
    """

    value: float | None
    low: float | None
    high: float | None
    by: str
    labels: int
    rows: int
    tuning: float = 0.0

    @property
    def width(self) -> float:
        """The width of the interval, 1 where there is none."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low


def drawn_rows(rounds: Sequence[LabelingRound]) -> Codes:
    """Return the numbers of all rows that the rounds drew, labeled or not."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *(part for one in rounds for part in (one.rows, one.unjudged))])


def calibrated_share(judge: Numbers, rounds: Sequence[LabelingRound], *, level: float = LEVEL) -> CalibratedEstimate:
    """Estimate the mean of people's verdicts over all rows.

    The interval assumes normal errors. It counts `_PSEUDO_LABELS` in addition, so it has a width where people agreed
    with the judge on all labels.

    Args:
        judge: the judge's verdicts on all rows, 0 to 1.
        rounds: the labels, in the order in which the rounds were drawn.
        level: the coverage of the interval.

    Raises:
        ValueError: for a row in two rounds, or a chance out of range.
    """
    labels = sum(len(one.rows) for one in rounds)
    if labels < MIN_LABELS:
        return CalibratedEstimate(None, None, None, TOO_FEW, labels, len(judge))
    sample = LabeledSample.of(judge, rounds)
    tuning = sample.tuning()
    value = float(np.clip(sample.estimate(tuning)[0], 0, 1))
    low, high = _interval(sample.with_pseudo_labels(), value, level)
    by = JUDGE_AND_PEOPLE if sample.judge_differs() else PEOPLE_ALONE
    return CalibratedEstimate(value, low, high, by, labels, len(judge), tuning)


def people_share(rows: int, rounds: Sequence[LabelingRound], *, level: float = LEVEL) -> CalibratedEstimate:
    """Estimate the same from people's verdicts alone, as if there were no judge of the `rows` rows."""
    return calibrated_share(np.zeros(rows), rounds, level=level)


def _interval(sample: LabeledSample, value: float, level: float) -> tuple[float, float]:
    """Return bounds within 0 to 1 that include the value; both equal it where all rows are labeled."""
    centre, error = sample.estimate(sample.tuning())
    if not error:
        return value, value
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    return max(0.0, min(centre - reach, value)), min(1.0, max(centre + reach, value))


@dataclass(frozen=True, slots=True)
class LabeledSample:
    """The labeled rows of all rounds.

    One value a labeled row: its `round`, the verdicts of `judge` and `people`, its weight (1 / chance), `unseen` (1
    minus its chance among the rows that nobody had labeled), and the number of items that it stands for (`times`). One
    value a round: its `labels`, the `rest` of rows that no earlier round labeled, and the sums of people's and the
    judge's verdicts on rows of earlier rounds. `total` is the sum of the judge's verdicts on all rows.
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
    def of(cls, judge: Numbers, rounds: Sequence[LabelingRound]) -> LabeledSample:
        """Collect the labels; at least one round has some. Raises ValueError as `calibrated_share` does."""
        passed_by = _sums_before(np.array([len(one.unjudged) for one in rounds]))
        passed_by = passed_by[[bool(len(one.rows)) for one in rounds]]
        rounds = [one for one in rounds if len(one.rows)]
        rows = np.concatenate([one.rows for one in rounds])
        people = np.concatenate([one.people for one in rounds])
        chances = np.concatenate([one.chances for one in rounds])
        if len(np.unique(rows)) < len(rows):
            raise ValueError("a row is labeled twice; give people's one verdict on it, in the round that drew it")
        if chances.min() <= 0 or chances.max() > 1:
            raise ValueError(f"chances go from {chances.min()} to {chances.max()}; they must be above 0 and at most 1")
        labels = np.array([len(one.rows) for one in rounds])
        before = _sums_before(labels)
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

    def with_pseudo_labels(self) -> LabeledSample:
        """Return the sample with `_PSEUDO_LABELS`, spread evenly over each round and each verdict of the judge."""
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
            times=np.concatenate([self.times, np.full(2 * len(groups), _PSEUDO_LABELS / len(groups))]),
        )

    def judge_differs(self) -> bool:
        """Return whether the judge gave different verdicts on the labeled rows of a round."""
        highest, lowest = (np.full(len(self.labels), bound) for bound in (-np.inf, np.inf))
        np.maximum.at(highest, self.round, self.judge)
        np.minimum.at(lowest, self.round, self.judge)
        return bool((highest > lowest).any())

    def tuning(self) -> float:
        """Return the weight of the judge that minimizes the variance; 0 where its verdicts do not differ."""
        judge, scale = self._centred(self.judge), self._scale()
        varied = float((scale * judge**2).sum())
        if not varied or not self.judge_differs():
            return 0.0
        return float((scale * judge * self._centred(self.people)).sum()) / varied

    def estimate(self, tuning: float) -> tuple[float, float]:
        """Return the mean of people's verdicts over all rows, and its standard error."""
        off = self.people - tuning * self.judge
        sums = self.people_before + tuning * (self.total - self.judge_before) + self.rest * self._mean(off)
        variance = float((self._scale() * self._centred(off) ** 2).sum())
        return float(self._shares() @ sums / self.rest[0]), variance**0.5

    def _scale(self) -> Numbers:
        """Return, for each row, the factor from its squared distance to the round's mean to the estimate's variance."""
        shares = self._shares() * self.rest / self.rest[0] / self._sum(self.times * self.weights)
        items = self._sum(self.times)
        free = np.divide(items, items - 1, out=np.ones(len(items)), where=items > 1)
        return np.asarray(self.times * self.unseen * (shares[self.round] * self.weights) ** 2 * free[self.round])

    def _shares(self) -> Numbers:
        """Return the weights of the rounds: the inverse variance of a random sample, all to one that labeled the rest.

        Of that variance, the part that differs by round is (rest / rows)² · (1 - labels / rest) / labels.
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


def _sums_before(counts: Codes) -> Codes:
    """Return for each round the sum over all earlier ones."""
    return np.asarray(np.cumsum(counts) - counts)
