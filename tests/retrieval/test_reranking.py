from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.retrieval import Collection, Queries, retriever
from fdarx_core.retrieval.postings import tokenize
from fdarx_core.retrieval.rerank import Reranked
from fdarx_core.retrieval.retriever import Bm25

WORDS = ["dose", "mg", "renal", "hepatic", "storage"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=12)
queries = st.lists(st.sampled_from(WORDS), max_size=3)


class Shortest:
    """Prefers short passages, and says how many pairs it was asked for."""

    asked = 0

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.asked += len(pairs)
        return [-float(len(tokenize(passage))) for _, passage in pairs]


class Indifferent:
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [0.5] * len(pairs)


@given(texts, queries, st.integers(0, 14), st.integers(1, 14))
def test_the_inner_best_stand_in_the_rerankers_order(texts: list[str], asked: list[str], k: int, depth: int) -> None:
    shortest = Shortest()
    collection, questions = Collection(texts), Queries(asked)
    found = Reranked(Bm25(), shortest, depth).rank(questions, collection, k)
    inner = Bm25().rank(questions, collection, max(k, depth))
    assert shortest.asked == sum(map(len, inner))
    for ranked, before in zip(found, inner, strict=True):
        lengths = {position: len(tokenize(texts[position])) for position, _ in before}
        assert [position for position, _ in ranked] == sorted(lengths, key=lengths.__getitem__)[:k]
        assert all(score == -lengths[position] for position, score in ranked)


@given(texts, queries)
def test_equal_scores_leave_the_inner_order(texts: list[str], asked: list[str]) -> None:
    collection, questions = Collection(texts), Queries(asked)
    found = Reranked(Bm25(), Indifferent()).rank(questions, collection, 10)
    before = Bm25().rank(questions, collection, 10)
    assert [[position for position, _ in ranked] for ranked in found] == [
        [position for position, _ in ranked] for ranked in before
    ]


def test_by_name() -> None:
    reranked = retriever("cosine+rerank", Indifferent())
    assert reranked.name == "cosine+rerank"
    assert reranked.encoders == {"cosine"}
    with pytest.raises(ValueError, match=r"cosine\+rerank needs a reranker; give --reranker-model"):
        retriever("cosine+rerank")
