"""Citations against scikit-learn, against a table made by hand, and what holds for any citations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from fdarx_core.evaluation.metrics.citations import STRICT, eq_hits, eq_right, f1, precision, recall, share
from tests.evaluation.metric_rows import MetricRow

PASSAGES = st.integers(0, 9)
CITED = st.lists(PASSAGES, max_size=8)
GOLD = st.lists(PASSAGES, min_size=1, max_size=4, unique=True)
STAND_INS = st.dictionaries(PASSAGES, st.sets(PASSAGES, max_size=4), max_size=5)


def all_three(cited: list[int], gold: list[int]) -> tuple[float, float, float]:
    found, complete = precision(cited, gold), recall(cited, gold)
    return found, complete, f1(found, complete)


@pytest.mark.parametrize(
    ("cited", "gold", "expected"),
    [
        ([4], [4], (1, 1, 1)),
        ([4, 9], [4], (1 / 2, 1, 2 / 3)),
        ([4], [4, 7], (1, 1 / 2, 2 / 3)),
        ([7, 1, 2], [4, 7], (1 / 3, 1 / 2, 2 / 5)),
        ([7, 4, 1, 2], [4, 7], (1 / 2, 1, 2 / 3)),
        ([1, 2], [4, 7], (0, 0, 0)),
        ([], [4, 7], (0, 0, 0)),
        ([4], [], (0, 0, 0)),
        ([], [], (0, 0, 0)),
    ],
)
def test_the_papers_definitions(cited: list[int], gold: list[int], expected: tuple[float, float, float]) -> None:
    assert all_three(cited, gold) == pytest.approx(expected, abs=1e-12)


def test_equal_to_scikit_learn(rows: list[MetricRow]) -> None:
    for row in rows:
        gold = row.question.gold_passages
        truth = [index in gold for index in row.passages]
        named = [index in row.cited for index in row.passages]
        theirs = precision_recall_fscore_support(truth, named, average="binary", zero_division=0)[:3]
        assert all_three(row.cited, gold) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(
    ("cited", "gold", "equivalents", "hits", "right"),
    [
        ([5], [4], {4: {5}}, 1, 1),
        ([4, 5], [4], {4: {5}}, 1, 2),
        ([5, 6], [4], {4: {5}}, 1, 1),
        ([5], [4, 7], {4: {5}}, 1, 1),
        ([5], [4, 7], {4: {5}, 7: {5}}, 2, 1),
        ([4], [4, 7], {7: {4}}, 2, 1),
        ([5], [4], {9: {5}}, 0, 0),
        ([], [4], {4: {5}}, 0, 0),
    ],
)
def test_stand_ins(cited: list[int], gold: list[int], equivalents: dict[int, set[int]], hits: int, right: int) -> None:
    assert (eq_hits(cited, gold, equivalents), eq_right(cited, gold, equivalents)) == (hits, right)


def test_stand_ins_on_rows_equal_counting_by_hand(rows: list[MetricRow]) -> None:
    differs = 0
    for row in rows:
        gold, pairs = row.question.gold_passages, set(zip(row.equivalence.gold, row.equivalence.members, strict=True))
        equivalents = {passage: {member for one, member in pairs if one == passage} for passage in gold}
        hits = [passage for passage in gold if any(one == passage or (passage, one) in pairs for one in row.cited)]
        right = {one for one in row.cited if any(one == passage or (passage, one) in pairs for passage in gold)}
        assert eq_hits(row.cited, gold, equivalents) == len(hits)
        assert eq_right(row.cited, gold, equivalents) == len(right)
        differs += len(right) != len(set(row.cited) & set(gold))
    assert differs > 10


@given(CITED, GOLD)
def test_bounds(cited: list[int], gold: list[int]) -> None:
    found, complete, both = all_three(cited, gold)
    assert all(0 <= value <= 1 for value in (found, complete, both))
    assert min(found, complete) - 1e-12 <= both <= max(found, complete) + 1e-12
    assert all_three(gold, gold) == (1, 1, 1)
    assert all_three(gold, cited)[:2] == (complete, found) if cited else True


@given(st.data(), CITED, GOLD, STAND_INS)
def test_order_and_repetition_change_nothing(
    data: st.DataObject, cited: list[int], gold: list[int], equivalents: dict[int, set[int]]
) -> None:
    again = data.draw(st.lists(st.sampled_from(cited))) if cited else []
    other = data.draw(st.permutations(cited + again))
    assert all_three(other, gold) == all_three(cited, gold)
    assert eq_hits(other, gold, equivalents) == eq_hits(cited, gold, equivalents)
    assert eq_right(other, gold, equivalents) == eq_right(cited, gold, equivalents)


@given(CITED, GOLD, STAND_INS)
def test_equivalence_never_lowers(cited: list[int], gold: list[int], equivalents: dict[int, set[int]]) -> None:
    strict = len(set(cited) & set(gold))
    hits, right = eq_hits(cited, gold, equivalents), eq_right(cited, gold, equivalents)
    assert strict <= hits <= len(gold)
    assert strict <= right <= len(set(cited))
    assert (hits == 0) == (right == 0)
    assert eq_hits(cited, gold, STRICT) == eq_right(cited, gold, STRICT) == strict
    lenient = f1(share(right, len(set(cited))), share(hits, len(gold)))
    assert lenient >= all_three(cited, gold)[2] - 1e-12
