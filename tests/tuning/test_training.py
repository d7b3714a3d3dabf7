"""Packing, the steps that a recipe takes, the curve, and the figures of the test part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.tuning.evaluation import BASE, TUNED, TunedAnswer, tuning_figures
from fdarx_core.tuning.training import (
    IGNORE_INDEX,
    EncodedPair,
    LossPoint,
    TrainingSchedule,
    TuningSpec,
    best_point,
    bin_pack,
    check_finite,
    concatenate_pairs,
    pack_pairs,
    should_stop,
)

ROOM = 40
LENGTHS = st.lists(st.integers(1, ROOM), max_size=60)


@given(LENGTHS)
def test_packing_keeps_every_row_once_within_the_room(lengths: list[int]) -> None:
    bins = bin_pack(lengths, ROOM)
    assert sorted(at for members in bins for at in members) == list(range(len(lengths)))
    sums = [sum(lengths[at] for at in members) for members in bins]
    assert all(0 < one <= ROOM for one in sums)
    if len(sums) > 1:  # no two bins would fit into one
        assert sum(sorted(sums)[:2]) > ROOM


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8))
def test_answers_alone_are_counted(parts: list[tuple[int, int]]) -> None:
    rows = [EncodedPair(str(at), list(range(ask + told)), ask) for at, (ask, told) in enumerate(parts)]
    laid = concatenate_pairs(rows)
    assert laid.answer_tokens == sum(told for _, told in parts)
    starts = [at for at, position in enumerate(laid.positions) if position == 0]
    assert len(starts) == len(rows)
    assert all(laid.labels[at] == IGNORE_INDEX for at in starts)  # nothing is told from the pair before
    counted = [(token, label) for token, label in zip(laid.tokens, laid.labels, strict=True) if label != IGNORE_INDEX]
    assert all(token == label for token, label in counted)


def test_packed_loses_no_token() -> None:
    rows = [EncodedPair(str(at), [at] * at, 1) for at in range(2, 30)]
    found = [token for one in pack_pairs(rows, 50) for token in one.tokens]
    assert sorted(found) == sorted(token for row in rows for token in row.tokens)


@given(st.integers(1, 50), st.integers(1, 9), st.integers(1, 4), st.integers(0, 3))
def test_each_epoch_takes_every_sequence_once(sequences: int, batch: int, epochs: int, seed: int) -> None:
    schedule = TrainingSchedule(TuningSpec("m", batch=batch, epochs=epochs, seed=seed), sequences)
    members = [schedule.members(step) for step in range(1, schedule.steps + 1)]
    a_time = schedule.steps_an_epoch
    for epoch in range(epochs):
        taken = [one for step in members[epoch * a_time : (epoch + 1) * a_time] for one in step]
        assert sorted(taken) == list(range(sequences))
    assert all(len(one) <= batch for one in members)
    assert schedule.evaluates_after(schedule.steps)


def test_the_rate_rises_and_falls_to_nearly_nothing() -> None:
    schedule = TrainingSchedule(TuningSpec("m", batch=1, epochs=2, rate=1.0), 100)
    rates = [schedule.rate(step) for step in range(1, 201)]
    assert rates[5] == max(rates) == 1.0
    assert np.all(np.diff(rates[:6]) > 0)
    assert np.all(np.diff(rates[5:]) < 0)
    assert 0 < rates[-1] < 0.01


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_training_that_diverged_is_told_to_go_slower(loss: float) -> None:
    assert check_finite(7, 1.5) == 1.5
    with pytest.raises(ValueError, match=r"step 7 .*--rate"):
        check_finite(7, loss)


def curve(*losses: float | None) -> list[LossPoint]:
    return [LossPoint(step, 0.0, 1.0, 0.0, 1, loss) for step, loss in enumerate(losses, 1)]


def test_training_settles_after_looks_that_were_no_better() -> None:
    points = curve(3.0, None, 2.0, None, 2.1, 2.0)
    assert best_point(points) is points[2]
    assert should_stop(points, 2)
    assert not should_stop(points, 3)
    assert not should_stop(curve(3.0, None, 2.0, None, 2.1, 2.0, 1.9), 1)
    assert best_point(curve(None)) is None
    assert not should_stop(curve(None), 1)


def answer(name: str, group: str, model: str, loss: float) -> TunedAnswer:
    return TunedAnswer(name, group, model, "Q", "R", "A", loss, 0.5)


def test_figures_by_hand() -> None:
    """Differences −1, −1 in one group and −3 in the other: resampled groups give −1, −3, or both together, −5/3."""
    rows = [answer(name, group, BASE, 4.0) for name, group in (("a", "x"), ("b", "x"), ("c", "y"))]
    rows += [replace(row, model=TUNED, loss=3.0 if row.group == "x" else 1.0) for row in rows]
    (measure, base, _, loss), (other, *_, rouge) = tuning_figures(rows, seed=0, resamples=2000)
    assert (measure, base.value, base.rows, base.clusters) == ("loss", 4.0, 3, 2)
    assert loss.value == pytest.approx(-5 / 3)
    assert [loss.low, loss.high] == pytest.approx([-3.0, -1.0])
    assert (other, rouge.value, rouge.low, rouge.high) == ("rouge_l", 0.0, 0.0, 0.0)


def test_figures_need_both_models_on_each_question() -> None:
    with pytest.raises(ValueError, match="not to the same questions"):
        tuning_figures([answer("a", "x", BASE, 1.0), answer("b", "x", TUNED, 1.0)], seed=0, resamples=100)
