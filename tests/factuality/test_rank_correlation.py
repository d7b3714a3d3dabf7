"""Rank correlations and their intervals against scipy, and what holds for any columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, spearmanr

from fdarx_core.evaluation.bootstrap import weight_blocks
from fdarx_core.factuality.correlations import spearman

NAN = float("nan")


def columns(rows: int, seed: int, ties: int = 0) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    one = dice.normal(size=rows)
    other = one + dice.normal(size=rows)
    return (np.round(one * ties), np.round(other * ties)) if ties else (one, other)


def names(rows: int, each: int = 1) -> list[str]:
    return [f"c{at // each:04d}" for at in range(rows)]


SMALL = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=30)


@given(SMALL)
def test_the_value_is_scipy_s_with_any_ties(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, dtype=np.float64).T
    (found,) = spearman([one], other, names(len(pairs)), seed=0, resamples=5)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert (found.value, found.low, found.high) == (None, None, None)
    else:
        assert found.value == pytest.approx(spearmanr(one, other).statistic)


@given(SMALL, st.integers(1, 3))
def test_every_sample_is_scipy_s(pairs: list[tuple[int, int]], each: int) -> None:
    """Rows drawn one by one, as often as their cluster is."""
    one, other = np.array(pairs, dtype=np.float64).T
    clusters = names(len(pairs), each)
    codes = np.unique(clusters, return_inverse=True)[1]
    expected = []
    for times in next(weight_blocks(len(set(clusters)), 8, 3)):
        rows = np.repeat(np.arange(len(pairs)), times[codes].astype(int))
        if len(set(one[rows])) > 1 and len(set(other[rows])) > 1:
            expected.append(spearmanr(one[rows], other[rows]).statistic)
    (found,) = spearman([one], other, clusters, seed=3, resamples=8)
    if found.low is not None:
        assert [found.low, found.high] == pytest.approx(np.quantile(expected, [0.025, 0.975]))


def test_the_interval_is_scipy_s_within_its_own_error() -> None:
    one, other = columns(120, seed=1)
    (found,) = spearman([one], other, names(120), seed=2, resamples=4000)
    theirs = bootstrap(
        (one, other), lambda a, b: spearmanr(a, b).statistic, paired=True, vectorized=False, method="percentile",
        n_resamples=4000, rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    assert [found.low, found.high] == pytest.approx([theirs.low, theirs.high], abs=0.02)


def test_missing_rows_are_left_out() -> None:
    one, other = columns(60, seed=3, ties=2)
    holes, dented = one.copy(), other.copy()
    holes[::4], dented[1::5] = NAN, NAN
    here = ~np.isnan(holes) & ~np.isnan(dented)
    found, whole = spearman([holes, one], dented, names(60, 2), seed=0, resamples=300)
    assert found.value == pytest.approx(spearmanr(holes[here], dented[here]).statistic)
    assert found.rows == here.sum() < whole.rows
    assert found.clusters == len({name for name, kept in zip(names(60, 2), here, strict=True) if kept})


def test_a_contrast_is_over_the_rows_of_both_and_draws_the_same_samples() -> None:
    one, other = columns(80, seed=4)
    holes = one.copy()
    holes[:20] = NAN
    same, less, alone = spearman([(one, one), (holes, -one), holes], other, names(80), seed=0, resamples=400)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert less.rows == 60
    assert less.value == pytest.approx(2 * spearmanr(one[20:], other[20:]).statistic)
    assert alone.low is not None and alone.high is not None
    assert [less.low, less.high] == pytest.approx([2 * alone.low, 2 * alone.high])


def test_clusters_that_move_together_are_less_evidence() -> None:
    one, other = (np.repeat(values, 5) for values in columns(30, seed=6))
    together, apart = (
        spearman([one], other, clusters, seed=0, resamples=800)[0] for clusters in (names(150, 5), names(150))
    )
    assert together.value == apart.value
    assert (together.clusters, apart.clusters) == (30, 150)
    assert together.high - together.low > 1.5 * (apart.high - apart.low)  # type: ignore[operator]


def test_one_cluster_has_no_interval_and_no_rows_have_no_value() -> None:
    one, other = columns(9, seed=0)
    (found,) = spearman([one], other, ["c"] * 9, seed=0, resamples=50)
    assert found.value is not None and (found.low, found.high) == (None, None)
    (empty,) = spearman([one[:0]], other[:0], [], seed=0, resamples=50)
    assert (empty.value, empty.rows) == (None, 0)
    (nothing,) = spearman([one * NAN], other, names(9), seed=0, resamples=50)
    assert (nothing.value, nothing.rows) == (None, 0)
    assert spearman([], other, names(9), seed=0, resamples=50) == []


@given(SMALL)
def test_between_minus_1_and_1_the_same_for_any_rising_function_and_the_opposite_for_a_falling_one(
    pairs: list[tuple[int, int]],
) -> None:
    one, other = np.array(pairs, dtype=np.float64).T
    up, steep, down = spearman([one, np.exp(one), -one], other, names(len(pairs)), seed=1, resamples=30)
    assert up == steep
    if up.value is not None and up.low is not None and up.high is not None:
        assert -1 - 1e-9 <= up.low <= up.high <= 1 + 1e-9
        assert down.value == pytest.approx(-up.value)


def test_more_cells_than_are_held_at_once_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = columns(50, seed=8, ties=3)
    whole = spearman([one], other, names(50), seed=0, resamples=300)
    for name in ("_CELLS", "_ROW_CELLS"):
        monkeypatch.setattr(f"fdarx_core.evaluation.bootstrap.{name}", 1000)
    assert spearman([one], other, names(50), seed=0, resamples=300) == whole
