"""Which answers people are asked about next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.aggregates import Codes
from fdarx_core.review.calibration.active import Pool, chances, drawn
from fdarx_core.review.calibration.rounds import Round

GROUPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=60)


def pool_of(rows: list[tuple[int, int, int]]) -> Pool:
    return Pool(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def seen(rows: Codes, people: list[float]) -> Round:
    return Round(rows, np.array(people), np.full(len(rows), 0.5))


@given(rows=GROUPS, n=st.integers(1, 80), taken=st.integers(0, 40), seed=st.integers(0, 99))
def test_chances_are_of_what_nobody_saw_and_sum_to_n(
    rows: list[tuple[int, int, int]], n: int, taken: int, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    before = dice.permutation(len(rows))[: min(taken, len(rows))]
    found = chances(pool_of(rows), [seen(before, dice.integers(0, 2, len(before)).tolist())], n)
    left = np.setdiff1d(np.arange(len(rows)), before)
    assert (found[before] == 0).all()
    assert (found[left] > 0).all(), "none is out of reach"
    assert found.max() <= 1
    assert found.sum() == pytest.approx(min(n, len(left)))
    picked = drawn(found, dice.random(len(rows)), round(found.sum()))
    assert len(picked) == len(set(picked.tolist())) == min(n, len(left))
    assert set(picked.tolist()) <= set(left.tolist())


def test_rows_are_drawn_as_often_as_their_chances_say() -> None:
    dice = np.random.default_rng(5)
    chance = np.array([1.0, 0.9, 0.7, 0.5, 0.4, 0.3, 0.1, 0.1, 0.0])
    times = np.zeros(len(chance))
    for _ in range(4000):
        times[drawn(chance, dice.random(len(chance)), 4)] += 1
    assert times / 4000 == pytest.approx(chance, abs=0.04)
    assert times[0] == 4000 and times[-1] == 0


def test_what_people_disagree_on_with_the_judge_is_asked_more() -> None:
    """Of two kinds that the judge found right, people found one always so and the other half of the time."""
    pool = pool_of([(0, at % 2, 1) for at in range(400)])
    found = chances(pool, [seen(np.arange(40), [1.0 if at % 2 == 0 else float(at % 4 == 1) for at in range(40)])], 50)
    assert found[41] > 1.5 * found[40] > 0


def test_a_cell_with_labels_enough_gets_few_more() -> None:
    pool = pool_of([(at % 2, 0, 0) for at in range(400)])
    found = chances(pool, [seen(np.arange(0, 80, 2), [float(at % 2) for at in range(40)])], 40)
    assert found[1::2].sum() > 4 * found[0::2].sum() > 0


def test_small_cells_get_as_many_as_large_ones() -> None:
    """Accuracies are of cells: answers of a small one tell more each."""
    pool = pool_of([(int(at >= 300), int(at >= 300), 0) for at in range(400)])
    before = np.array([*range(10), *range(300, 310)])
    found = chances(pool, [seen(before, [float(at % 2) for at in range(20)])], 40)
    assert found[:300].sum() == pytest.approx(found[300:].sum(), rel=0.35)
