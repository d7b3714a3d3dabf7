from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.retrieval import Collection, Queries, retriever
from fdarx_core.retrieval.fusion import fuse
from fdarx_core.retrieval.ranking import Ranked

rankings = st.permutations(range(9)).flatmap(
    lambda order: st.integers(0, 9).map(lambda count: [(position, 0.0) for position in order[:count]])
)


def exact(ranked: list[Ranked], position: int) -> Fraction:
    """The sum of 1 ÷ (60 + rank), without rounding."""
    places = [[found for found, _ in one] for one in ranked]
    return sum((Fraction(1, 61 + one.index(position)) for one in places if position in one), Fraction())


@given(st.lists(rankings, min_size=2, max_size=2))
def test_order_and_scores_follow_the_sum_of_reciprocal_ranks(ranked: list[Ranked]) -> None:
    fused = fuse(ranked, 9)
    assert {position for position, _ in fused} == {position for one in ranked for position, _ in one}
    assert all(abs(score - float(exact(ranked, position))) < 1e-12 for position, score in fused)
    keys = [(-exact(ranked, position), position) for position, _ in fused]
    assert all(one < other for one, other in pairwise(keys))


@given(st.lists(rankings, min_size=2, max_size=2), st.integers(0, 9))
def test_the_order_of_two_rankings_does_not_matter(ranked: list[Ranked], k: int) -> None:
    assert fuse(ranked, k) == fuse(ranked[::-1], k)
    assert fuse(ranked, k) == fuse(ranked, 9)[:k]


@given(rankings)
def test_a_ranking_fused_with_itself_keeps_its_order(ranked: Ranked) -> None:
    assert [position for position, _ in fuse([ranked, ranked], 9)] == [position for position, _ in ranked]


def test_hybrid_joins_words_and_vectors() -> None:
    hybrid = retriever("hybrid")
    assert hybrid.encoders == {"cosine"}
    collection = Collection(
        ["renal dose", "hepatic dose", "storage"], {"cosine": np.array([[0.6, 0.8], [1, 0], [0, 1]], np.float32)}
    )
    queries = Queries(["renal"], {"cosine": np.array([[1, 0]], np.float32)})
    [ranked] = hybrid.rank(queries, collection, 2)
    assert ranked == [(0, 1 / 61 + 1 / 62), (1, 1 / 62 + 1 / 61)]
