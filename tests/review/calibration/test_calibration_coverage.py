"""How often calibrated intervals hold the truth, in a few repeats of `benchmarks.calibration`."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import pytest

from benchmarks.calibration import main
from fdarx_core.review.calibration.active import Pool, chances, drawn
from fdarx_core.review.calibration.ppi import calibrated, people_alone
from fdarx_core.review.calibration.rounds import Round


def test_raw_intervals_miss_and_corrected_ones_hold() -> None:
    told = io.StringIO()
    with redirect_stdout(told):
        main(["--repeats", "20"])
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
        assert main(["--repeats", "3", "--answers", "300", "--labels", "12"]) == 1


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_mean_over_many_draws_is_the_truth_whatever_was_drawn_first(share: float) -> None:
    """Later draws are chosen in the light of what people said; that must not pull the estimate to one side."""
    dice, rows, off = np.random.default_rng(11), 400, np.zeros((200, 2))
    people = (np.arange(rows) % 10 < 8).astype(np.float64)
    judge = np.where(np.arange(rows) % 7 == 0, 1 - people, people)
    verdict = judge.astype(np.int64)
    pool = Pool(np.zeros_like(verdict), verdict, verdict)
    for at in range(200):
        first = dice.choice(rows, 20, replace=False)
        rounds = [Round(first, people[first], np.full(20, 20 / rows))]
        chance = chances(pool, rounds, int(40 * share))
        more = drawn(chance, dice.random(rows), int(40 * share))
        rounds.append(Round(more, people[more], chance[more]))
        off[at] = calibrated(judge, rounds).value, people_alone(rows, rounds).value
    error = off.std(axis=0) / len(off) ** 0.5
    assert (abs(off.mean(axis=0) - people.mean()) < 4 * error).all()
