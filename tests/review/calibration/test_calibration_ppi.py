"""The calibrated share against the published formula, survey sampling's textbook one, and what must always hold."""

from __future__ import annotations

import math
from statistics import fmean, pvariance, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.aggregates import Numbers
from fdarx_core.review.calibration.ppi import BOTH, FEWEST, PEOPLE, TOO_FEW, calibrated, people_alone
from fdarx_core.review.calibration.rounds import Round, Seen

BITS = st.integers(0, 2**32 - 1)


def world(
    seed: int, rows: int, labels: int, *, right: float = 0.7, errs: float = 0.2
) -> tuple[Numbers, Numbers, Round]:
    """The judge's and people's verdicts on all rows, and a sample by chance."""
    dice = np.random.default_rng(seed)
    people = (dice.random(rows) < right).astype(np.float64)
    judge = np.where(dice.random(rows) < errs, 1 - people, people)
    seen = dice.choice(rows, labels, replace=False)
    return judge, people, Round(seen, people[seen], np.full(labels, labels / rows))


def published(judge: Numbers, one: Round) -> tuple[float, float]:
    """Estimate and tuning of PPI++ as its authors write it: the judge's mean is that of the rows that nobody saw."""
    unseen = [value for row, value in enumerate(judge.tolist()) if row not in set(one.rows.tolist())]
    seen, people = judge[one.rows].tolist(), one.people.tolist()
    together = sum((f - fmean(seen)) * (y - fmean(people)) for f, y in zip(seen, people, strict=True)) / len(seen)
    tuning = together / ((1 + len(seen) / len(unseen)) * pvariance(seen))
    corrected = fmean(y - tuning * f for f, y in zip(seen, people, strict=True))
    return tuning * fmean(unseen) + corrected, tuning


@pytest.mark.parametrize("seed", range(5))
def test_the_published_estimator_gives_the_same(seed: int) -> None:
    judge, _, one = world(seed, rows=900, labels=60)
    found = calibrated(judge, [one])
    value, tuning = published(judge, one)
    assert found.value == pytest.approx(value)
    assert found.tuning == pytest.approx(tuning * (1 + 60 / 840))
    assert found.by == BOTH
    assert (found.labels, found.rows) == (60, 900)


def test_the_standard_error_of_people_alone_is_the_textbook_one() -> None:
    _, _, one = world(3, rows=400, labels=80)
    value, error = Seen.of(np.zeros(400), [one]).estimate(0.0)
    assert value == pytest.approx(fmean(one.people.tolist()))
    assert error == pytest.approx(math.sqrt((1 - 80 / 400) * variance(one.people.tolist()) / 80))


def test_weights_undo_unequal_chances() -> None:
    """50 of 100 seen of one kind, all right; 50 of 900 of the other, all wrong: a tenth is right, not a half."""
    one = Round(
        np.array([*range(50), *range(100, 150)]), np.repeat([1.0, 0.0], 50), np.repeat([50 / 100, 50 / 900], 50)
    )
    assert people_alone(1000, [one]).value == pytest.approx(0.1)


def test_a_later_round_speaks_of_the_rest_alone() -> None:
    """By hand: 20 of 100 seen, 10 right, makes 1/2; of the 80 left 20 seen, 15 right, makes (10 + 80 · 3/4) / 100.

    By chance their variances are as 0.8 to 0.64 · 0.75, so that the first counts 0.48 / 1.28.
    """
    first = Round(np.arange(20), np.tile([1.0, 0.0], 10), np.full(20, 0.2))
    second = Round(np.arange(20, 40), np.tile([1.0, 1.0, 1.0, 0.0], 5), np.full(20, 0.25))
    assert people_alone(100, [first, second]).value == pytest.approx(0.375 * 0.5 + 0.625 * 0.7)


def test_a_round_that_saw_all_the_rest_leaves_no_doubt() -> None:
    judge, people, one = world(2, rows=60, labels=20)
    rest = np.setdiff1d(np.arange(60), one.rows)
    found = calibrated(judge, [one, Round(rest, people[rest], np.ones(40))])
    assert found.value == pytest.approx(people.mean())
    assert found.width == 0


@given(seed=BITS, labels=st.integers(FEWEST, 60), right=st.floats(0, 1), errs=st.floats(0, 1))
def test_bounds_lie_around_the_value_and_within_0_and_1(seed: int, labels: int, right: float, errs: float) -> None:
    judge, _, one = world(seed, rows=80, labels=labels, right=right, errs=errs)
    found = calibrated(judge, [one])
    assert found.value is not None and found.low is not None and found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.width > 0


@given(seed=BITS, labels=st.integers(FEWEST, 60), right=st.floats(0.05, 0.95))
def test_a_judge_that_is_always_right_is_believed(seed: int, labels: int, right: float) -> None:
    judge, people, one = world(seed, rows=80, labels=labels, right=right, errs=0)
    found = calibrated(judge, [one])
    if found.by == BOTH:
        assert found.value == pytest.approx(people.mean())
        assert found.low is not None and found.high is not None
        assert found.low < found.high, "60 labels without an error don't prove that there is none"


@given(seed=BITS, labels=st.integers(FEWEST, 60), said=st.floats(0, 1))
def test_a_judge_that_says_the_same_of_all_counts_for_nothing(seed: int, labels: int, said: float) -> None:
    _, _, one = world(seed, rows=80, labels=labels)
    found = calibrated(np.full(80, said), [one])
    assert found.by == PEOPLE
    assert found.tuning == 0
    assert found.value == pytest.approx(one.people.mean())
    alone = people_alone(80, [one])
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


@given(seed=BITS)
def test_a_judge_that_is_always_wrong_is_as_good_as_one_that_is_right(seed: int) -> None:
    judge, _, one = world(seed, rows=80, labels=40)
    found, turned = calibrated(judge, [one]), calibrated(1 - judge, [one])
    assert turned.value == pytest.approx(found.value)
    assert turned.width == pytest.approx(found.width)
    assert turned.tuning == pytest.approx(-found.tuning)


@given(seed=BITS)
def test_nothing_is_left_to_chance_where_people_saw_all(seed: int) -> None:
    judge, people, one = world(seed, rows=30, labels=30)
    found = calibrated(judge, [one])
    assert found.value == pytest.approx(people.mean())
    assert found.width == 0


def test_too_few_labels_make_no_figure() -> None:
    judge, _, one = world(1, rows=80, labels=FEWEST - 1)
    found = calibrated(judge, [one])
    assert (found.value, found.low, found.high, found.by, found.labels) == (None, None, None, TOO_FEW, FEWEST - 1)
    assert calibrated(judge, []).by == TOO_FEW


def test_rounds_without_labels_change_nothing() -> None:
    judge, _, one = world(1, rows=80, labels=40)
    empty = Round(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    assert calibrated(judge, [empty, one, empty]) == calibrated(judge, [one])


def test_a_wider_level_makes_a_wider_interval() -> None:
    judge, _, one = world(1, rows=800, labels=40)
    assert calibrated(judge, [one], level=0.8).width < calibrated(judge, [one]).width


def test_a_row_in_two_rounds_is_refused() -> None:
    judge, _, one = world(1, rows=80, labels=40)
    with pytest.raises(ValueError, match="labelled twice"):
        calibrated(judge, [one, one])


@pytest.mark.parametrize("chance", [0.0, -0.1, 1.1])
def test_a_chance_out_of_range_is_refused(chance: float) -> None:
    judge, _, one = world(1, rows=80, labels=40)
    chances = np.array([chance, *one.chances[1:]])
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        calibrated(judge, [Round(one.rows, one.people, chances)])
