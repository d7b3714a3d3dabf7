"""Retrievers by name, rank fusion and reranking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.records import Passage
from fdarx_core.retrieval import Collection, ModelDirectories, Queries, get_retriever, load_encoder, passage_search_text
from fdarx_core.retrieval.encoders import WindowVectors
from fdarx_core.retrieval.lexical import RankedList, tokenize
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.retrieval.retrievers import RETRIEVERS, RerankedRetriever, fuse, load_reranker, needs_reranker
from tests.retrieval.index_chunks import single_windows


@pytest.mark.parametrize("name", sorted(RETRIEVERS))
def test_every_retriever_has_its_name(name: str) -> None:
    assert get_retriever(name).name == name
    assert not needs_reranker(name)
    assert needs_reranker(f"{name}+rerank")


@pytest.mark.parametrize("name", ["bm26", "", "+rerank", "bm25+rerank+rerank", "bm26+rerank"])
def test_an_unknown_name_is_answered_with_the_known(name: str) -> None:
    with pytest.raises(ValueError, match=r"bm25, tfidf, cosine, recontriever, hybrid, each also as NAME\+rerank"):
        get_retriever(name)


def test_an_unknown_encoder_is_answered_with_the_known() -> None:
    with pytest.raises(ValueError, match="cosine, recontriever"):
        load_encoder("minilm", ModelDirectories())


def test_vectors_rank_by_dot_product_ties_by_position() -> None:
    passages = np.array([[1, 0], [0, 1], [1, 0], [2, 2]], np.float32)
    collection = Collection(["a", "b", "c", "d"], {"cosine": single_windows(passages)})
    found = get_retriever("cosine").rank(Queries(["x"], {"cosine": np.array([[1, -1]], np.float32)}), collection, 9)
    assert found == [[(0, 1.0), (2, 1.0), (3, 0.0), (1, -1.0)]]


def test_a_passage_scores_as_its_best_window() -> None:
    rows = np.array([[0, 1], [3, 0], [1, 0], [0, 0], [2, 5], [3, 1]], np.float32)
    collection = Collection(["a", "b", "c"], {"cosine": WindowVectors(rows, np.array([2, 1, 3]))})
    asked = Queries(["x", "y"], {"cosine": np.array([[1, 0], [0, 1]], np.float32)})
    found = get_retriever("cosine").rank(asked, collection, 9)
    assert found == [[(0, 3.0), (2, 3.0), (1, 1.0)], [(2, 5.0), (0, 1.0), (1, 0.0)]]
    allowed = np.array([False, True, True])
    assert get_retriever("cosine").rank(asked, collection, 1, allowed) == [[(2, 3.0)], [(2, 5.0)]]


@pytest.mark.parametrize("vectors", [{}, {"recontriever": single_windows(np.zeros((2, 3)))}])
def test_missing_vectors_are_named(vectors: dict[str, WindowVectors]) -> None:
    queries = Queries(["x"], {"recontriever": np.zeros((1, 3), np.float32)})
    with pytest.raises(ValueError, match=r"recontriever: 3 passages have (none|2) of its vectors"):
        get_retriever("recontriever").rank(queries, Collection(["a", "b", "c"], vectors), 5)


def test_a_missing_directory_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="give --recontriever-model DIRECTORY"):
        load_encoder("recontriever", ModelDirectories())
    with pytest.raises(ModelMissing, match="give --reranker-model DIRECTORY"):
        load_reranker(ModelDirectories())
    with pytest.raises(ModelMissing, match=f"--cosine-model: {tmp_path} is not a model directory"):
        load_encoder("cosine", ModelDirectories(cosine=str(tmp_path)))


@pytest.mark.parametrize("name", ["cosine", "recontriever"])
def test_a_missing_extra_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        ModelMissing, match=rf"encoder {name} needs sentence_transformers .*pip install 'fdarx\[models\]'"
    ):
        load_encoder(name, ModelDirectories(cosine=str(tmp_path), recontriever=str(tmp_path)))


def test_section_headings_are_searched_and_the_index_is_made_once() -> None:
    passage = Passage("set-1", 4, 0, "42229-5", "34068-7", "2.3", "Renal", "2 Dosage > 2.3 Renal", "Take 5 mg.")
    assert passage_search_text(passage) == "2 Dosage > 2.3 Renal\nTake 5 mg."
    collection = Collection([passage_search_text(passage)])
    assert collection.bm25 is collection.bm25


rankings = st.permutations(range(9)).flatmap(
    lambda order: st.integers(0, 9).map(lambda count: [(position, 0.0) for position in order[:count]])
)


WEIGHTS = (1.0, 0.5)


def exact(ranked: list[RankedList], position: int) -> Fraction:
    """The sum of weight ÷ (10 + rank), without rounding."""
    places = [([found for found, _ in one], weight) for one, weight in zip(ranked, WEIGHTS, strict=True)]
    terms = (Fraction(weight) / (11 + one.index(position)) for one, weight in places if position in one)
    return sum(terms, Fraction())


@given(st.lists(rankings, min_size=2, max_size=2))
def test_order_and_scores_follow_the_sum_of_reciprocal_ranks(ranked: list[RankedList]) -> None:
    fused = fuse(ranked, 9, WEIGHTS)
    assert {position for position, _ in fused} == {position for one in ranked for position, _ in one}
    assert all(abs(score - float(exact(ranked, position))) < 1e-12 for position, score in fused)
    keys = [(-exact(ranked, position), position) for position, _ in fused]
    assert all(one < other for one, other in pairwise(keys))


@given(st.lists(rankings, min_size=2, max_size=2), st.integers(0, 9))
def test_the_order_of_two_rankings_does_not_matter(ranked: list[RankedList], k: int) -> None:
    assert fuse(ranked, k, WEIGHTS) == fuse(ranked[::-1], k, WEIGHTS[::-1])
    assert fuse(ranked, k, WEIGHTS) == fuse(ranked, 9, WEIGHTS)[:k]


@given(rankings)
def test_a_ranking_fused_with_itself_keeps_its_order(ranked: RankedList) -> None:
    assert [position for position, _ in fuse([ranked, ranked], 9, WEIGHTS)] == [position for position, _ in ranked]


def test_hybrid_joins_words_and_vectors() -> None:
    hybrid = get_retriever("hybrid")
    assert hybrid.encoders == {"cosine"}
    vectors = single_windows(np.array([[0.6, 0.8], [1, 0], [0, 1]]))
    collection = Collection(["renal dose", "hepatic dose", "storage"], {"cosine": vectors})
    queries = Queries(["renal"], {"cosine": np.array([[1, 0]], np.float32)})
    [ranked] = hybrid.rank(queries, collection, 2)
    assert ranked == [(0, 1 / 11 + 0.7 / 12), (1, 1 / 12 + 0.7 / 11)]


WORDS = ["dose", "mg", "renal", "hepatic", "storage"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=12)
queries = st.lists(st.sampled_from(WORDS), max_size=3)


BM25 = get_retriever("bm25")


def equal_scores(pairs: Sequence[tuple[str, str]]) -> list[float]:
    return [0.5] * len(pairs)


@given(texts, queries, st.integers(0, 14), st.integers(1, 14))
def test_the_inner_best_stand_in_the_rerankers_order(texts: list[str], asked: list[str], k: int, depth: int) -> None:
    scored = 0

    def shortest_first(pairs: Sequence[tuple[str, str]]) -> list[float]:
        nonlocal scored
        scored += len(pairs)
        return [-float(len(tokenize(passage))) for _, passage in pairs]

    collection, questions = Collection(texts), Queries(asked)
    found = RerankedRetriever(BM25, shortest_first, depth).rank(questions, collection, k)
    inner = BM25.rank(questions, collection, max(k, depth))
    assert scored == sum(map(len, inner))
    for ranked, before in zip(found, inner, strict=True):
        lengths = {position: len(tokenize(texts[position])) for position, _ in before}
        assert [position for position, _ in ranked] == sorted(lengths, key=lengths.__getitem__)[:k]
        assert all(score == -lengths[position] for position, score in ranked)


@given(texts, queries)
def test_equal_scores_leave_the_inner_order(texts: list[str], asked: list[str]) -> None:
    collection, questions = Collection(texts), Queries(asked)
    found = RerankedRetriever(BM25, equal_scores).rank(questions, collection, 10)
    before = BM25.rank(questions, collection, 10)
    assert [[position for position, _ in ranked] for ranked in found] == [
        [position for position, _ in ranked] for ranked in before
    ]


def test_by_name() -> None:
    reranked = get_retriever("cosine+rerank", equal_scores)
    assert reranked.name == "cosine+rerank"
    assert reranked.encoders == {"cosine"}
    with pytest.raises(ValueError, match=r"cosine\+rerank needs a reranker; give --reranker-model"):
        get_retriever("cosine+rerank")
