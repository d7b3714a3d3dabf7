"""The calibrated share against the published formula, survey sampling's textbook one, and what must always hold."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from statistics import fmean, pvariance, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calibration import main
from fdarx_core.evaluation.metrics import Numbers
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.active_sampling import inclusion_probabilities, pareto_sample
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.calibration import labeling_round
from fdarx_core.review.prediction_powered import (
    JUDGE_AND_PEOPLE,
    MIN_LABELS,
    PEOPLE_ALONE,
    TOO_FEW,
    LabeledSample,
    LabelingRound,
    calibrated_share,
    drawn_rows,
    people_share,
)
from fdarx_core.review.sampling import SampleUnit, draw_stratified
from tests.review.synthetic_reviews import item, unit

BITS = st.integers(0, 2**32 - 1)


def simulate(
    seed: int, rows: int, labels: int, *, right: float = 0.7, errs: float = 0.2
) -> tuple[Numbers, Numbers, LabelingRound]:
    """Draw the verdicts of the judge and of people on all rows, and a random sample."""
    dice = np.random.default_rng(seed)
    people = (dice.random(rows) < right).astype(np.float64)
    judge = np.where(dice.random(rows) < errs, 1 - people, people)
    seen = dice.choice(rows, labels, replace=False)
    return judge, people, LabelingRound(seen, people[seen], np.full(labels, labels / rows))


def published(judge: Numbers, one: LabelingRound) -> tuple[float, float]:
    """Estimate and tuning of PPI++ as its authors write it: the judge's mean is that of the rows that nobody saw."""
    unseen = [value for row, value in enumerate(judge.tolist()) if row not in set(one.rows.tolist())]
    seen, people = judge[one.rows].tolist(), one.people.tolist()
    together = sum((f - fmean(seen)) * (y - fmean(people)) for f, y in zip(seen, people, strict=True)) / len(seen)
    tuning = together / ((1 + len(seen) / len(unseen)) * pvariance(seen))
    corrected = fmean(y - tuning * f for f, y in zip(seen, people, strict=True))
    return tuning * fmean(unseen) + corrected, tuning


@pytest.mark.parametrize("seed", range(5))
def test_the_published_estimator_gives_the_same(seed: int) -> None:
    judge, _, one = simulate(seed, rows=900, labels=60)
    found = calibrated_share(judge, [one])
    value, tuning = published(judge, one)
    assert found.value == pytest.approx(value)
    assert found.tuning == pytest.approx(tuning * (1 + 60 / 840))
    assert found.by == JUDGE_AND_PEOPLE
    assert (found.labels, found.rows) == (60, 900)


def test_the_standard_error_of_people_alone_is_the_textbook_one() -> None:
    _, _, one = simulate(3, rows=400, labels=80)
    value, error = LabeledSample.of(np.zeros(400), [one]).estimate(0.0)
    assert value == pytest.approx(fmean(one.people.tolist()))
    assert error == pytest.approx(math.sqrt((1 - 80 / 400) * variance(one.people.tolist()) / 80))


def test_weights_undo_unequal_chances() -> None:
    """50 of 100 seen of one kind, all right; 50 of 900 of the other, all wrong: a tenth is right, not a half."""
    one = LabelingRound(
        np.array([*range(50), *range(100, 150)]), np.repeat([1.0, 0.0], 50), np.repeat([50 / 100, 50 / 900], 50)
    )
    assert people_share(1000, [one]).value == pytest.approx(0.1)


def test_a_later_round_speaks_of_the_rest_alone() -> None:
    """By hand: 20 of 100 seen, 10 right, makes 1/2; of the 80 left 20 seen, 15 right, makes (10 + 80 · 3/4) / 100.

    By chance their variances are as 0.8 to 0.64 · 0.75, so that the first counts 0.48 / 1.28.
    """
    first = LabelingRound(np.arange(20), np.tile([1.0, 0.0], 10), np.full(20, 0.2))
    second = LabelingRound(np.arange(20, 40), np.tile([1.0, 1.0, 1.0, 0.0], 5), np.full(20, 0.25))
    assert people_share(100, [first, second]).value == pytest.approx(0.375 * 0.5 + 0.625 * 0.7)


def test_a_round_that_saw_all_the_rest_leaves_no_doubt() -> None:
    judge, people, one = simulate(2, rows=60, labels=20)
    rest = np.setdiff1d(np.arange(60), one.rows)
    found = calibrated_share(judge, [one, LabelingRound(rest, people[rest], np.ones(40))])
    assert found.value == pytest.approx(people.mean())
    assert found.width == 0


@given(seed=BITS, labels=st.integers(MIN_LABELS, 60), right=st.floats(0, 1), errs=st.floats(0, 1))
def test_bounds_lie_around_the_value_and_within_0_and_1(seed: int, labels: int, right: float, errs: float) -> None:
    judge, _, one = simulate(seed, rows=80, labels=labels, right=right, errs=errs)
    found = calibrated_share(judge, [one])
    assert found.value is not None and found.low is not None and found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.width > 0


@given(seed=BITS, labels=st.integers(MIN_LABELS, 60), right=st.floats(0.05, 0.95))
def test_a_judge_that_is_always_right_is_believed(seed: int, labels: int, right: float) -> None:
    judge, people, one = simulate(seed, rows=80, labels=labels, right=right, errs=0)
    found = calibrated_share(judge, [one])
    if found.by == JUDGE_AND_PEOPLE:
        assert found.value == pytest.approx(people.mean())
        assert found.low is not None and found.high is not None
        assert found.low < found.high, "60 labels without an error don't prove that there is none"


@given(seed=BITS, labels=st.integers(MIN_LABELS, 60), said=st.floats(0, 1))
def test_a_judge_that_says_the_same_of_all_counts_for_nothing(seed: int, labels: int, said: float) -> None:
    _, _, one = simulate(seed, rows=80, labels=labels)
    found = calibrated_share(np.full(80, said), [one])
    assert found.by == PEOPLE_ALONE
    assert found.tuning == 0
    assert found.value == pytest.approx(one.people.mean())
    alone = people_share(80, [one])
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


@given(seed=BITS)
def test_a_judge_that_is_always_wrong_is_as_good_as_one_that_is_right(seed: int) -> None:
    judge, _, one = simulate(seed, rows=80, labels=40)
    found, turned = calibrated_share(judge, [one]), calibrated_share(1 - judge, [one])
    assert turned.value == pytest.approx(found.value)
    assert turned.width == pytest.approx(found.width)
    assert turned.tuning == pytest.approx(-found.tuning)


@given(seed=BITS)
def test_nothing_is_left_to_chance_where_people_saw_all(seed: int) -> None:
    judge, people, one = simulate(seed, rows=30, labels=30)
    found = calibrated_share(judge, [one])
    assert found.value == pytest.approx(people.mean())
    assert found.width == 0


def test_too_few_labels_make_no_figure() -> None:
    judge, _, one = simulate(1, rows=80, labels=MIN_LABELS - 1)
    found = calibrated_share(judge, [one])
    assert (found.value, found.low, found.high, found.by, found.labels) == (None, None, None, TOO_FEW, MIN_LABELS - 1)
    assert calibrated_share(judge, []).by == TOO_FEW


def test_rounds_without_labels_change_nothing() -> None:
    judge, _, one = simulate(1, rows=80, labels=40)
    empty = LabelingRound(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    assert calibrated_share(judge, [empty, one, empty]) == calibrated_share(judge, [one])


def test_a_wider_level_makes_a_wider_interval() -> None:
    judge, _, one = simulate(1, rows=800, labels=40)
    assert calibrated_share(judge, [one], level=0.8).width < calibrated_share(judge, [one]).width


def test_a_row_in_two_rounds_is_refused() -> None:
    judge, _, one = simulate(1, rows=80, labels=40)
    with pytest.raises(ValueError, match=r"labell?ed twice"):
        calibrated_share(judge, [one, one])


@pytest.mark.parametrize("chance", [0.0, -0.1, 1.1])
def test_a_chance_out_of_range_is_refused(chance: float) -> None:
    judge, _, one = simulate(1, rows=80, labels=40)
    chances = np.array([chance, *one.chances[1:]])
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        calibrated_share(judge, [LabelingRound(one.rows, one.people, chances)])


REPEATS = 200
Stops = Callable[[np.random.Generator, Sequence[ReviewItem]], list[bool]]
"""Which of the items, in the order of asking, somebody judges."""


@dataclass(frozen=True, slots=True)
class SimulatedStudy:
    """Answers of many topics, a few of which hold most; the judge errs more on those of the small ones."""

    rows: list[SampleUnit]
    judge: Numbers
    people: Numbers

    @property
    def truth(self) -> float:
        return float(self.people.mean())

    @classmethod
    def of(cls, dice: np.random.Generator, answers: int, topics: int = 20) -> SimulatedStudy:
        topic = dice.choice(topics, answers, p=dice.dirichlet(np.full(topics, 0.4)))
        small = np.bincount(topic, minlength=topics)[topic] < answers / topics
        people = dice.random(answers) < 0.6
        judge = people ^ (dice.random(answers) < np.where(small, 0.4, 0.1))
        rows = [
            unit(f"{at}", (str(said), f"topic {of}")) for at, (said, of) in enumerate(zip(judge, topic, strict=True))
        ]
        return cls(rows, judge.astype(np.float64), people.astype(np.float64))

    def voted(self, items: Sequence[ReviewItem], judged: Sequence[bool]) -> LabelingRound:
        said = ["incorrect", "correct"]
        votes = [[Annotation(one.id, "anna", "grade", said[int(self.people[int(one.subject)])])] for one in items]
        given = [AnnotatedItem(one, vote if on else []) for one, vote, on in zip(items, votes, judged, strict=True)]
        return labeling_round(given, {one.id: int(one.id) for one in self.rows})


def sampled(study: SimulatedStudy, labels: int, seed: int) -> list[ReviewItem]:
    """The items in the order of asking, as `fdarx review sample` draws them."""
    return [graded(row, one.name, one.fraction) for row, one in draw_stratified(study.rows, labels, seed)[0]]


def graded(row: SampleUnit, stratum: str, fraction: float) -> ReviewItem:
    return item(row.id, "grade", row.keys[0], subject=row.id, stratum=stratum, fraction=fraction)


def first(share: float) -> Stops:
    return lambda dice, items: [at < share * len(items) for at in range(len(items))]


def skipping(dice: np.random.Generator, items: Sequence[ReviewItem]) -> list[bool]:
    """Somebody who leaves out most of what the judge found right."""
    return [dice.random() < (0.4 if one.decision == "True" else 0.9) for one in items]


def held_truth(answers: int, labels: int, stops: Stops) -> float:
    """How often the interval does, over many studies and draws."""
    dice, held = np.random.default_rng(9), 0
    for seed in range(REPEATS):
        study = SimulatedStudy.of(dice, answers)
        items = sampled(study, labels, seed)
        found = calibrated_share(study.judge, [study.voted(items, stops(dice, items))])
        assert found.low is not None and found.high is not None
        held += found.low <= study.truth <= found.high
    return held / REPEATS


@pytest.mark.parametrize(
    ("answers", "labels", "stops"),
    [(200, 150, first(0.6)), (1000, 150, first(0.6)), (200, 150, skipping)],
    ids=["most drawn, the first 60 % judged", "few drawn, the first 60 % judged", "most drawn, of a kind skipped"],
)
def test_intervals_hold_where_a_part_is_judged(answers: int, labels: int, stops: Stops) -> None:
    assert 0.91 <= held_truth(answers, labels, stops) <= 0.985


def further(dice: np.random.Generator, study: SimulatedStudy, before: LabelingRound, labels: int) -> list[ReviewItem]:
    """More of them, as `fdarx review sample --after` draws them, in any order."""
    verdict = study.judge.astype(np.int64)
    chance = inclusion_probabilities((np.zeros_like(verdict), verdict, verdict), [before], labels)
    rows = pareto_sample(chance, dice.random(len(chance)), round(float(chance.sum())))
    return [graded(study.rows[row], study.rows[row].keys[0], float(chance[row])) for row in dice.permutation(rows)]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_intervals_hold_where_a_later_round_passes_by_what_an_earlier_one_left(share: float) -> None:
    """All that was left is drawn then, but 40 of the first 100 stay unjudged, and nobody knows about them."""
    dice, held = np.random.default_rng(9), 0
    for seed in range(REPEATS):
        study = SimulatedStudy.of(dice, 300)
        items = sampled(study, 100, seed)
        one = study.voted(items, first(0.6)(dice, items))
        more = further(dice, study, one, 200)
        found = calibrated_share(study.judge, [one, study.voted(more, first(share)(dice, more))])
        assert found.low is not None and found.high is not None
        held += found.low <= study.truth <= found.high
    assert 0.91 <= held / REPEATS <= 0.985


def test_a_round_that_nobody_judged_is_passed_by_too() -> None:
    study = SimulatedStudy.of(np.random.default_rng(1), 100)
    first_held = LabelingRound(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.arange(50))
    rest = LabelingRound(np.arange(50, 100), study.people[50:], np.ones(50))
    assert calibrated_share(study.judge, [first_held, rest]).width > 0
    assert sorted(drawn_rows([first_held, rest])) == list(range(100))


@given(seed=st.integers(0, 2**32 - 1), labels=st.integers(1, 80))
def test_where_all_is_judged_each_has_the_chance_it_was_drawn_with(seed: int, labels: int) -> None:
    study = SimulatedStudy.of(np.random.default_rng(seed), 80)
    items = sampled(study, labels, seed)
    found = study.voted(items, [True] * len(items))
    assert found.chances.tolist() == [one.fraction for one in items]
    assert not len(found.unjudged)


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.1, 0.9))
def test_those_judged_stand_for_all_answers(seed: int, share: float) -> None:
    """Every stratum is large here: those judged of it stand for its size exactly."""
    dice = np.random.default_rng(seed)
    rows = [unit(f"{at}", (str(at % 2),)) for at in range(200)]
    study = SimulatedStudy(rows, np.tile([0.0, 1.0], 100), np.zeros(200))
    items = sampled(study, 120, seed)
    judged = [bool(dice.random() < share) or at < 20 for at in range(120)]
    found = study.voted(items, judged)
    for verdict in (0, 1):
        assert sum(1 / found.chances[found.rows % 2 == verdict]) == pytest.approx(100)
    assert len(drawn_rows([found])) == 120


def test_strata_too_small_to_tell_share_what_their_verdict_was_judged() -> None:
    """Ten strata of two items each, of which the first was judged in half of them: none stands for five others."""
    items = [graded(unit(f"{at}", ("correct",)), f"topic {at // 2}", 0.5) for at in range(20)]
    study = SimulatedStudy([unit(f"{at}", ()) for at in range(40)], np.ones(40), np.ones(40))
    judged = [at % 4 == 0 for at in range(20)]
    assert study.voted(items, judged).chances == pytest.approx(0.5 * 5 / 20)


def test_raw_intervals_miss_and_corrected_ones_hold() -> None:
    told = io.StringIO()
    with redirect_stdout(told):
        main(repeats=20)
    rows = [line.split() for line in told.getvalue().splitlines() if line.startswith("    0.")]
    found = np.array([[float(value) for value in row[-6:]] for row in rows])
    assert len(found) == 14
    assert (found[:12, 0] < 0.5).all(), "the judge's own interval"
    assert (found[:, 4] > 0.8).all()
    assert 0.92 < found[:, 4].mean() < 0.98
    assert (found[:, 5] < found[:, 3]).all(), "narrower than people alone"


def test_exit_code_says_that_the_table_falls_short() -> None:
    """With 12 labels a judge and people together are seldom narrower, and the interval too careful."""
    with redirect_stdout(io.StringIO()):
        assert main(repeats=3, answers=300, labels=12) == 1


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_mean_over_many_draws_is_the_truth_whatever_was_drawn_first(share: float) -> None:
    """Later draws are chosen in the light of what people said; that must not pull the estimate to one side."""
    dice, rows, off = np.random.default_rng(11), 400, np.zeros((200, 2))
    people = (np.arange(rows) % 10 < 8).astype(np.float64)
    judge = np.where(np.arange(rows) % 7 == 0, 1 - people, people)
    verdict = judge.astype(np.int64)
    pool = (np.zeros_like(verdict), verdict, verdict)
    for at in range(200):
        first = dice.choice(rows, 20, replace=False)
        rounds = [LabelingRound(first, people[first], np.full(20, 20 / rows))]
        chance = inclusion_probabilities(pool, rounds, int(40 * share))
        more = pareto_sample(chance, dice.random(rows), int(40 * share))
        rounds.append(LabelingRound(more, people[more], chance[more]))
        off[at] = calibrated_share(judge, rounds).value, people_share(rows, rounds).value
    error = off.std(axis=0) / len(off) ** 0.5
    assert (abs(off.mean(axis=0) - people.mean()) < 4 * error).all()
