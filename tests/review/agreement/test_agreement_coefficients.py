"""Coefficients of agreement against scikit-learn's and krippendorff's, on whatever raters may say."""

from __future__ import annotations

import math
import warnings
from random import Random

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, precision_recall_fscore_support

from fdarx_core.review.agreement import coefficients

Ratings = list[tuple[int, int, float]]


def ratings(values: int) -> st.SearchStrategy[Ratings]:
    """Two raters' codes and a weight, an item each."""
    code = st.integers(0, values - 1)
    return st.lists(st.tuples(code, code, st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=40)


def table(rows: Ratings, values: int) -> NDArray[np.float64]:
    found = np.zeros((values, values))
    for first, second, weight in rows:
        found[first, second] += weight
    return found


def same(mine: object, theirs: float) -> bool:
    value = float(mine)  # type: ignore[arg-type]
    return (math.isnan(value) and math.isnan(theirs)) or value == pytest.approx(theirs, abs=1e-9)


@given(ratings(2))
def test_two_values_as_in_scikit_learn(rows: Ratings) -> None:
    truth, said, weights = (np.array(column) for column in zip(*rows, strict=True))
    found = table(rows, 2)
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, said, pos_label=0, average="binary", sample_weight=weights, zero_division=np.nan
    )
    assert same(coefficients.accuracy(found), accuracy_score(truth, said, sample_weight=weights))
    assert same(coefficients.precision(found), precision)
    assert same(coefficients.recall(found), recall)
    assert same(coefficients.f1(found), f1)


@given(st.integers(2, 5).flatmap(lambda values: st.tuples(st.just(values), ratings(values))))
def test_many_values_as_in_scikit_learn(drawn: tuple[int, Ratings]) -> None:
    values, rows = drawn
    truth, said, weights = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kappa = cohen_kappa_score(truth, said, labels=list(range(values)), sample_weight=weights)
    found = table(rows, values)
    assert same(coefficients.macro_f1(found), f1_score(truth, said, average="macro", sample_weight=weights))
    assert same(coefficients.kappa(found), kappa)


@st.composite
def panels(draw: st.DrawFn) -> tuple[int, NDArray[np.float64]]:
    """Votes (items, annotators) with gaps."""
    values, people = draw(st.integers(2, 4)), draw(st.integers(2, 5))
    vote = st.one_of(st.none(), st.integers(0, values - 1))
    rows = draw(st.lists(st.lists(vote, min_size=people, max_size=people), min_size=1, max_size=25))
    return values, np.array(rows, dtype=np.float64)


@given(panels())
def test_alpha_as_in_krippendorff(drawn: tuple[int, NDArray[np.float64]]) -> None:
    values, votes = drawn
    mine = float(coefficients.alpha(coefficients.coincidences(votes, values).sum(axis=0)))
    paired = votes[np.count_nonzero(~np.isnan(votes), axis=1) > 1]
    if len(np.unique(paired[~np.isnan(paired)])) < 2:
        assert math.isnan(mine)
        return
    theirs = krippendorff.alpha(votes.T, value_domain=np.arange(values), level_of_measurement="nominal")
    assert mine == pytest.approx(theirs, abs=1e-9)


@given(panels(), st.randoms())
def test_alpha_does_not_know_annotators_or_values_by_name(drawn: tuple[int, NDArray[np.float64]], dice: Random) -> None:
    values, votes = drawn
    before = float(coefficients.alpha(coefficients.coincidences(votes, values).sum(axis=0)))
    assume(not math.isnan(before))
    order = list(range(votes.shape[1]))
    dice.shuffle(order)
    turned = (values - 1) - votes[:, order]
    assert float(coefficients.alpha(coefficients.coincidences(turned, values).sum(axis=0))) == pytest.approx(before)


def test_many_tables_at_once() -> None:
    tables = np.array([[[3.0, 1.0], [1.0, 3.0]], [[2.0, 0.0], [0.0, 0.0]]])
    assert coefficients.kappa(tables)[0] == pytest.approx(0.5)
    assert math.isnan(coefficients.kappa(tables)[1])
    assert coefficients.f1(tables).tolist() == [0.75, 1.0]
