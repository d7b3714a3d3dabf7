from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fdarx_core.evaluation.bootstrap import contrast, estimate, percentile_interval, weight_blocks
from fdarx_core.evaluation.metrics import JUDGED, SCORE_METRICS, ScoreColumns
from tests.evaluation.coverage import coverage
from tests.evaluation.synthetic_scores import score_rows, table
from tests.evaluation.whole_tables import figures

ROWS = score_rows(10, seed=2)


def test_intervals_hold_the_truth_as_often_as_they_say_and_the_naive_ones_do_not() -> None:
    """The margins are those of 150 data sets."""
    by_label, naive = coverage(datasets=150, labels=60, resamples=200)
    assert all(0.90 <= share <= 0.99 for share in by_label), by_label
    assert all(share < 0.88 for share in naive), naive


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 60), st.integers(1, 4)),
        elements=st.one_of(st.floats(-1e3, 1e3), st.just(np.nan)),
    )
)
def test_percentiles_are_those_of_numpy_without_the_missing(samples: np.ndarray) -> None:
    low, high = percentile_interval(samples)
    for at, column in enumerate(samples.T):
        left = column[~np.isnan(column)]
        expected = np.quantile(left, [0.025, 0.975]) if len(left) else [np.nan, np.nan]
        assert [low[at], high[at]] == pytest.approx(expected, nan_ok=True)


def test_each_sample_draws_as_many_labels_as_there_are() -> None:
    weights = next(weight_blocks(7, 400, seed=1))
    assert weights.shape == (400, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.2)
    assert weights.var(axis=0) == pytest.approx(np.full(7, 6 / 7), abs=0.3)


def test_samples_are_the_same_in_blocks_that_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = next(weight_blocks(7, 400, seed=1))
    monkeypatch.setattr("fdarx_core.evaluation.bootstrap._CELLS", 100)
    blocks = list(weight_blocks(7, 400, seed=1))
    assert {block.size for block in blocks} == {98, 56}
    assert (np.concatenate(blocks) == whole).all()


def test_a_contrast_is_the_difference_of_two_slices_in_the_same_samples() -> None:
    columns = ScoreColumns(table(ROWS))
    accuracy = SCORE_METRICS["accuracy"]
    first, second = ((accuracy, columns.is_in("type", name)) for name in ("factual", "multihop"))
    (found,) = contrast(columns, [(first, second)], seed=4, resamples=200)
    one, other = estimate(columns, [first, second], seed=4, resamples=200)
    assert one.value is not None and other.value is not None
    assert found.value == pytest.approx(one.value - other.value)
    assert (found.rows, found.clusters) == (one.rows + other.rows, 10)
    assert found.value is not None and found.low is not None and found.high is not None
    assert found.low < found.value < found.high
    (nothing,) = contrast(columns, [(first, first)], seed=4, resamples=200)
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)


def test_an_interval_is_that_of_labels_drawn_one_by_one() -> None:
    columns = ScoreColumns(table(ROWS))
    accuracy = SCORE_METRICS["accuracy"]
    everywhere = np.ones(columns.rows, dtype=np.bool_)
    (found,) = estimate(columns, [(accuracy, everywhere)], seed=4, resamples=200)
    verdicts = {
        label: [
            one.grade == "correct"
            for one in ROWS
            if one.cluster == label and one.type != "refusal" and one.grade in ("correct", "incorrect", "not_attempted")
        ]
        for label in columns.clusters
    }
    values = []
    for times in next(weight_blocks(len(columns.clusters), 200, 4)):
        drawn = [
            verdict
            for label, count in zip(columns.clusters, times, strict=True)
            for verdict in verdicts[label] * int(count)
        ]
        values.append(np.mean(drawn))
    assert [found.low, found.high] == pytest.approx(np.quantile(values, [0.025, 0.975]))
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    assert found.low < found.value < found.high


def test_the_seed_decides() -> None:
    first, again, other = (figures(table(ROWS), seed=seed, resamples=100) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [one.value for one in first] == [one.value for one in other]


def test_one_label_has_no_interval() -> None:
    found = figures(table([one for one in ROWS if one.cluster == "label-001"]), seed=0, resamples=50)
    assert all(one.low is None and one.high is None for one in found)
    assert any(one.value is not None for one in found)


def test_samples_without_a_meaning_are_left_out() -> None:
    """Only 2 of 10 labels have refusal questions: a tenth of the samples draw none of them."""
    rows = [one for one in ROWS if one.type != "refusal" or one.cluster < "label-002"]
    found = {one.metric: one for one in figures(table(rows), seed=0, resamples=500) if one.keys["group_by"] == "type"}
    assert (next(weight_blocks(10, 500, 0))[:, :2].sum(axis=1) == 0).any()
    for name in ("refusal_recall", "hallucination_rate"):
        one = found[name]
        assert one.low is not None
        assert one.high is not None
        assert 0 <= one.low <= one.high <= 1


def test_labels_that_are_alike_leave_no_doubt() -> None:
    one_label = [one for one in ROWS if one.cluster == "label-001"]
    copies = [
        replace(one, cluster=f"copy-{number}", question_id=f"{one.question_id}-{number}")
        for number in range(5)
        for one in one_label
    ]
    for one in figures(table(copies), seed=0, resamples=50):
        if one.value is not None and not (one.metric in JUDGED and one.unscored):
            assert [one.low, one.high] == pytest.approx([one.value, one.value])


def test_intervals_of_accuracy_hold_whatever_the_missing_grades_would_be() -> None:
    one_label = [one for one in ROWS if one.cluster == "label-001" and one.type != "refusal"]
    copies = [
        replace(one, cluster=f"copy-{number}", question_id=f"{one.question_id}-{number}")
        for number in range(5)
        for one in one_label
    ]
    stated = [
        one
        for one in figures(table(copies), seed=0, resamples=50)
        if one.metric == "accuracy" and one.keys["group_by"] == "type" and one.unscored and one.value is not None
    ]
    assert stated
    for one in stated:
        assert one.value is not None
        asked, right = one.rows + one.unscored, one.value * one.rows
        assert [one.low, one.high] == pytest.approx([right / asked, (right + one.unscored) / asked])
