"""Rankings against scikit-learn and scipy, against tables made by hand, and what holds for any ranking."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score, precision_recall_fscore_support

from fdarx_core.evaluation.gold import STRICT, eq_hits, eq_right, f1, f1_at, ndcg_at, recall_at, reciprocal_rank, share
from tests.evaluation.metric_rows import MetricRow

PASSAGES = st.integers(0, 9)
RANKED = st.lists(PASSAGES, max_size=10, unique=True)
GOLD = st.lists(PASSAGES, min_size=1, max_size=4, unique=True)
STAND_INS = st.dictionaries(PASSAGES, st.sets(PASSAGES, max_size=4), max_size=5)
CUTS = st.integers(1, 12)
Equivalents = dict[int, set[int]]


def precision(cited: Iterable[int], gold: Iterable[int]) -> float:
    return share(eq_right(cited, gold, STRICT), len(set(cited)))


def recall(cited: Iterable[int], gold: Iterable[int]) -> float:
    return share(eq_hits(cited, gold, STRICT), len(set(gold)))


def all_four(k: int, ranked: list[int], gold: list[int], equivalents: Equivalents | None = None) -> list[float]:
    standing = STRICT if equivalents is None else equivalents
    cut = [metric(k, ranked, gold, standing) for metric in (recall_at, f1_at, ndcg_at)]
    return [*cut, reciprocal_rank(ranked, gold, standing)]


@pytest.mark.parametrize(
    ("k", "ranked", "gold", "recall", "f1", "ndcg", "mrr"),
    [
        (1, [4, 1, 2], [4], 1, 1, 1, 1),
        (1, [1, 4, 2], [4], 0, 0, 0, 1 / 2),
        (3, [1, 4, 2], [4], 1, 1 / 2, 1 / log2(3), 1 / 2),
        (3, [1, 4, 7], [4, 7], 1, 4 / 5, (1 / log2(3) + 1 / 2) / (1 + 1 / log2(3)), 1 / 2),
        (1, [7, 4, 1], [4, 7], 1 / 2, 2 / 3, 1, 1),
        (2, [7, 1, 4], [4, 7], 1 / 2, 1 / 2, 1 / (1 + 1 / log2(3)), 1),
        (5, [1, 4], [4], 1, 2 / 3, 1 / log2(3), 1 / 2),
        (5, [1, 2], [4], 0, 0, 0, 0),
        (5, [], [4], 0, 0, 0, 0),
        (5, [1, 2], [], 0, 0, 0, 0),
    ],
)
def test_by_hand(k: int, ranked: list[int], gold: list[int], recall: float, f1: float, ndcg: float, mrr: float) -> None:
    assert all_four(k, ranked, gold) == pytest.approx([recall, f1, ndcg, mrr], abs=1e-12)


@pytest.mark.parametrize("k", [1, 5, 10, None])
def test_equal_to_scikit_learn(rows: list[MetricRow], k: int | None) -> None:
    for row in rows:
        ranked, gold = row.ranking.ranked, row.question.gold_passages
        cut = k or len(gold)
        assert all_four(cut, ranked, gold) == pytest.approx(by_scikit_learn(cut, row), abs=1e-9)


def by_scikit_learn(k: int, row: MetricRow) -> list[float]:
    ranked, gold = row.ranking.ranked, row.question.gold_passages
    passages = [*row.passages, -1, -2]
    truth = [index in gold for index in passages]
    shown = [index in ranked[:k] for index in passages]
    nearness = [-ranked.index(index) if index in ranked else -1000 for index in passages]
    _, recall, f1, _ = precision_recall_fscore_support(truth, shown, average="binary", zero_division=0)
    alone = [[[index == one for index in passages]] for one in gold if one in ranked]
    mrr = max((label_ranking_average_precision_score(one, [nearness]) for one in alone), default=0)
    return [recall, f1, ndcg_score([truth], [nearness], k=k), mrr]


def test_stand_ins_by_hand() -> None:
    assert all_four(1, [5, 4], [4], {4: {5}}) == [1, 1, 1, 1]
    assert recall_at(1, [5], [4, 7], {4: {5}, 7: {5}}) == 1
    assert recall_at(2, [5, 6], [4, 7], {4: {5, 6}}) == 1 / 2
    assert reciprocal_rank([1, 5, 4], [4], {4: {5}}) == 1 / 2


def test_a_gold_passage_gains_once_under_equivalence() -> None:
    first, second, third = 1, 1 / log2(3), 1 / 2
    assert ndcg_at(10, [5, 4, 6], [4], {4: {5, 6}}) == 1
    assert ndcg_at(10, [5, 4, 7], [4, 7], {4: {5}}) == pytest.approx((first + third) / (first + second))
    assert ndcg_at(10, [5, 1, 2], [4, 7], {4: {5}, 7: {5}}) == pytest.approx(first / (first + second))
    assert ndcg_at(10, [4, 7], [4, 7], {4: {7}, 7: {4}}) == 1
    assert ndcg_at(10, [5, 6], [4, 7], {4: {5, 6}, 7: {5}}) == ndcg_at(10, [5, 6], [7, 4], {4: {5, 6}, 7: {5}}) == 1


def by_assignment(k: int, ranked: list[int], gold: list[int], equivalents: Equivalents) -> float:
    """The best assignment of ranks to gold passages that they may find."""
    gains = np.array(
        [
            [(found == one or found in equivalents.get(one, ())) / log2(rank + 2) for one in gold]
            for rank, found in enumerate(ranked[:k])
        ]
    ).reshape(-1, len(gold))
    best = gains[linear_sum_assignment(gains, maximize=True)].sum()
    return float(best / sum(1 / log2(rank + 2) for rank in range(min(k, len(gold)))))


def test_stand_ins_on_rows_equal_other_computations(rows: list[MetricRow]) -> None:
    differs = 0
    for row in rows:
        ranked, gold = row.ranking.ranked, row.question.gold_passages
        pairs = set(zip(row.equivalence.gold, row.equivalence.members, strict=True)) | {(one, one) for one in gold}
        equivalents = {one: {member for other, member in pairs if other == one} for one in gold}
        found = [sum(any((one, index) in pairs for index in ranked[:k]) for one in gold) for k in (1, 5, 10)]
        assert [recall_at(k, ranked, gold, equivalents) * len(gold) for k in (1, 5, 10)] == pytest.approx(found)
        right = sum(any((one, index) in pairs for one in gold) for index in ranked[:5]) / len(ranked[:5])
        complete = found[1] / len(gold)
        f1 = 2 * right * complete / (right + complete) if right else 0
        assert f1_at(5, ranked, gold, equivalents) == pytest.approx(f1, abs=1e-9)
        ranks = [rank for rank, index in enumerate(ranked, 1) if any((one, index) in pairs for one in gold)]
        assert reciprocal_rank(ranked, gold, equivalents) == pytest.approx(1 / ranks[0] if ranks else 0, abs=1e-9)
        best = by_assignment(10, ranked, gold, equivalents)
        assert ndcg_at(10, ranked, gold, equivalents) == pytest.approx(best, abs=1e-9)
        differs += abs(best - ndcg_at(10, ranked, gold)) > 1e-9
    assert differs > 20


@given(CUTS, RANKED, GOLD, STAND_INS)
def test_bounds_and_equivalence_never_lowers(
    k: int, ranked: list[int], gold: list[int], equivalents: Equivalents
) -> None:
    strict, lenient = all_four(k, ranked, gold), all_four(k, ranked, gold, equivalents)
    for low, high in zip(strict, lenient, strict=True):
        assert 0 <= low <= high + 1e-12 <= 1 + 2e-12
    assert lenient[2] == pytest.approx(by_assignment(k, ranked, gold, equivalents), abs=1e-9)
    assert all_four(k, ranked, gold, {}) == strict


@given(st.data(), CUTS, RANKED, GOLD, STAND_INS)
def test_order_of_gold_names_and_repetition_change_nothing(
    data: st.DataObject, k: int, ranked: list[int], gold: list[int], equivalents: Equivalents
) -> None:
    value = all_four(k, ranked, gold, equivalents)
    assert all_four(k, ranked, data.draw(st.permutations(gold)), equivalents) == pytest.approx(value)
    assert all_four(k, ranked + ranked[::-1], gold + gold, equivalents) == pytest.approx(value)
    renamed = {("label", one): {("label", other) for other in others} for one, others in equivalents.items()}
    pairs = [("label", one) for one in ranked], [("label", one) for one in gold]
    assert recall_at(k, *pairs, renamed) == value[0]
    assert ndcg_at(k, *pairs, renamed) == pytest.approx(value[2])
    assert reciprocal_rank(*pairs, renamed) == value[3]


@given(RANKED, GOLD)
def test_gold_first_is_perfect(ranked: list[int], gold: list[int]) -> None:
    others = [one for one in ranked if one not in gold]
    assert reciprocal_rank([gold[0], *others], gold) == 1
    assert all_four(len(gold), gold + others, gold) == pytest.approx([1, 1, 1, 1])
    assert all_four(10, others, gold) == [0, 0, 0, 0]


@given(CUTS, RANKED, GOLD, STAND_INS)
def test_more_passages_never_lower_recall(k: int, ranked: list[int], gold: list[int], equivalents: Equivalents) -> None:
    assert recall_at(k, ranked, gold, equivalents) <= recall_at(k + 1, ranked, gold, equivalents)
    assert reciprocal_rank(ranked[:-1], gold, equivalents) <= reciprocal_rank(ranked, gold, equivalents)


CITED = st.lists(PASSAGES, max_size=8)


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


def test_equal_to_scikit_learn_citation_metrics(rows: list[MetricRow]) -> None:
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
