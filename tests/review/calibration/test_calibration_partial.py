"""Calibrated intervals where people have judged a part of what was drawn for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.aggregates import Numbers
from fdarx_core.records.review import Annotation, ReviewItem
from fdarx_core.review.agreement import Voted
from fdarx_core.review.calibration.active import Pool, chances, drawn
from fdarx_core.review.calibration.answered import round_of
from fdarx_core.review.calibration.ppi import calibrated
from fdarx_core.review.calibration.rounds import Round, held_by
from fdarx_core.review.strata import draw
from tests.review.agreement.voting import item

REPEATS = 200
Stops = Callable[[np.random.Generator, Sequence[ReviewItem]], list[bool]]
"""Which of the items, in the order of asking, somebody judges."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class World:
    """Answers of many topics, a few of which hold most; the judge errs more on those of the small ones."""

    rows: list[Row]
    judge: Numbers
    people: Numbers

    @property
    def truth(self) -> float:
        return float(self.people.mean())

    @classmethod
    def of(cls, dice: np.random.Generator, answers: int, topics: int = 20) -> World:
        topic = dice.choice(topics, answers, p=dice.dirichlet(np.full(topics, 0.4)))
        small = np.bincount(topic, minlength=topics)[topic] < answers / topics
        people = dice.random(answers) < 0.6
        judge = people ^ (dice.random(answers) < np.where(small, 0.4, 0.1))
        rows = [
            Row(f"{at}", (str(said), f"topic {of}")) for at, (said, of) in enumerate(zip(judge, topic, strict=True))
        ]
        return cls(rows, judge.astype(np.float64), people.astype(np.float64))

    def voted(self, items: Sequence[ReviewItem], judged: Sequence[bool]) -> Round:
        said = ["incorrect", "correct"]
        votes = [[Annotation(one.id, "anna", "grade", said[int(self.people[int(one.subject)])])] for one in items]
        given = [Voted(one, vote if on else []) for one, vote, on in zip(items, votes, judged, strict=True)]
        return round_of(given, {one.id: int(one.id) for one in self.rows})


def sampled(world: World, labels: int, seed: int) -> list[ReviewItem]:
    """The items in the order of asking, as `fdarx review sample` draws them."""
    return [graded(row, one.name, one.fraction) for row, one in draw(world.rows, labels, seed).rows]


def graded(row: Row, stratum: str, fraction: float) -> ReviewItem:
    return item(row.id, "grade", row.keys[0], subject=row.id, stratum=stratum, fraction=fraction)


def first(share: float) -> Stops:
    return lambda dice, items: [at < share * len(items) for at in range(len(items))]


def skipping(dice: np.random.Generator, items: Sequence[ReviewItem]) -> list[bool]:
    """Somebody who leaves out most of what the judge found right."""
    return [dice.random() < (0.4 if one.decision == "True" else 0.9) for one in items]


def held_truth(answers: int, labels: int, stops: Stops) -> float:
    """How often the interval does, over many worlds and draws."""
    dice, held = np.random.default_rng(9), 0
    for seed in range(REPEATS):
        world = World.of(dice, answers)
        items = sampled(world, labels, seed)
        found = calibrated(world.judge, [world.voted(items, stops(dice, items))])
        assert found.low is not None and found.high is not None
        held += found.low <= world.truth <= found.high
    return held / REPEATS


@pytest.mark.parametrize(
    ("answers", "labels", "stops"),
    [(200, 150, first(0.6)), (1000, 150, first(0.6)), (200, 150, skipping)],
    ids=["most drawn, the first 60 % judged", "few drawn, the first 60 % judged", "most drawn, of a kind skipped"],
)
def test_intervals_hold_where_a_part_is_judged(answers: int, labels: int, stops: Stops) -> None:
    assert 0.91 <= held_truth(answers, labels, stops) <= 0.985


def further(dice: np.random.Generator, world: World, before: Round, labels: int) -> list[ReviewItem]:
    """More of them, as `fdarx review sample --after` draws them, in any order."""
    verdict = world.judge.astype(np.int64)
    chance = chances(Pool(np.zeros_like(verdict), verdict, verdict), [before], labels)
    rows = drawn(chance, dice.random(len(chance)), round(float(chance.sum())))
    return [graded(world.rows[row], world.rows[row].keys[0], float(chance[row])) for row in dice.permutation(rows)]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_intervals_hold_where_a_later_round_passes_by_what_an_earlier_one_left(share: float) -> None:
    """All that was left is drawn then, but 40 of the first 100 stay unjudged, and nobody knows about them."""
    dice, held = np.random.default_rng(9), 0
    for seed in range(REPEATS):
        world = World.of(dice, 300)
        items = sampled(world, 100, seed)
        one = world.voted(items, first(0.6)(dice, items))
        more = further(dice, world, one, 200)
        found = calibrated(world.judge, [one, world.voted(more, first(share)(dice, more))])
        assert found.low is not None and found.high is not None
        held += found.low <= world.truth <= found.high
    assert 0.91 <= held / REPEATS <= 0.985


def test_a_round_that_nobody_judged_is_passed_by_too() -> None:
    world = World.of(np.random.default_rng(1), 100)
    first_held = Round(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.arange(50))
    rest = Round(np.arange(50, 100), world.people[50:], np.ones(50))
    assert calibrated(world.judge, [first_held, rest]).width > 0
    assert sorted(held_by([first_held, rest])) == list(range(100))


@given(seed=st.integers(0, 2**32 - 1), labels=st.integers(1, 80))
def test_where_all_is_judged_each_has_the_chance_it_was_drawn_with(seed: int, labels: int) -> None:
    world = World.of(np.random.default_rng(seed), 80)
    items = sampled(world, labels, seed)
    found = world.voted(items, [True] * len(items))
    assert found.chances.tolist() == [one.fraction for one in items]
    assert not len(found.unjudged)


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.1, 0.9))
def test_those_judged_stand_for_all_answers(seed: int, share: float) -> None:
    """Every stratum is large here: those judged of it stand for its size exactly."""
    dice = np.random.default_rng(seed)
    rows = [Row(f"{at}", (str(at % 2),)) for at in range(200)]
    world = World(rows, np.tile([0.0, 1.0], 100), np.zeros(200))
    items = sampled(world, 120, seed)
    judged = [bool(dice.random() < share) or at < 20 for at in range(120)]
    found = world.voted(items, judged)
    for verdict in (0, 1):
        assert sum(1 / found.chances[found.rows % 2 == verdict]) == pytest.approx(100)
    assert len(held_by([found])) == 120


def test_strata_too_small_to_tell_share_what_their_verdict_was_judged() -> None:
    """Ten strata of two items each, of which the first was judged in half of them: none stands for five others."""
    items = [graded(Row(f"{at}", ("correct",)), f"topic {at // 2}", 0.5) for at in range(20)]
    world = World([Row(f"{at}", ()) for at in range(40)], np.ones(40), np.ones(40))
    judged = [at % 4 == 0 for at in range(20)]
    assert world.voted(items, judged).chances == pytest.approx(0.5 * 5 / 20)
