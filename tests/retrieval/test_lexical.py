"""BM25 and TF-IDF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi
from sklearn.feature_extraction.text import TfidfVectorizer

from fdarx_core.labels import find_sources, parse_document, read_source
from fdarx_core.records import Reject
from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.lexical import InvertedIndex, RankedList, TfidfIndex, bm25_index, tokenize

WORDS = ["dose", "mg", "renal", "the", "of", "5"]
texts_of_few_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=12)
queries_of_few_words = st.lists(
    st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=8).map(" ".join), min_size=1, max_size=4
)


def rank_bm25(texts: Sequence[str], queries: Sequence[str], k: int) -> list[RankedList]:
    return get_retriever("bm25").rank(Queries(queries), Collection(texts), k)


def reference(texts: Sequence[str], queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
    """rank-bm25's scores, sorted by score and then index."""
    index = BM25Okapi([tokenize(text) for text in texts])
    scores = [index.get_scores(tokenize(query)).tolist() for query in queries]
    return [sorted(enumerate(row), key=lambda item: (-item[1], item[0]))[:k] for row in scores]


@given(texts_of_few_words.filter(any), queries_of_few_words, st.integers(0, 14))
def test_rankings_and_scores_are_those_of_rank_bm25(texts: list[str], queries: list[str], k: int) -> None:
    assert rank_bm25(texts, queries, k) == reference(texts, queries, k)


@given(st.lists(st.text(alphabet=st.sampled_from("ab µβ½-.\n")), min_size=1, max_size=9), st.text())
def test_on_any_characters_too(texts: list[str], query: str) -> None:
    if any(tokenize(text) for text in texts):
        assert rank_bm25(texts, [query], 5) == reference(texts, [query], 5)


@given(st.text())
def test_words_are_runs_of_ascii_letters_and_digits(text: str) -> None:
    assert tokenize(text) == [word.lower() for word in re.findall("[A-Za-z0-9]+", text)]


def test_ties_go_to_the_lowest_index_and_passages_without_the_words_count() -> None:
    texts = ["liver", "renal dose", "heart", "renal dose", "liver"]
    [ranked] = rank_bm25(texts, ["renal"], 5)
    assert [position for position, _ in ranked] == [1, 3, 0, 2, 4]
    assert [score for _, score in ranked][2:] == [0.0, 0.0, 0.0]


def test_a_word_of_every_passage_counts_against_a_lone_passage() -> None:
    """rank-bm25's weights are all negative there; the score shows it, and the passage is still found."""
    [[(position, score)]] = rank_bm25(["take with food"], ["food"], 10)
    assert position == 0
    assert score < 0
    assert [[(position, score)]] == reference(["take with food"], ["food"], 10)


def test_a_repeated_word_counts_as_often_as_it_is_asked() -> None:
    texts = ["renal dose", "liver dose mg", "heart"]
    once, twice = bm25_index(InvertedIndex(texts)).scores(["renal", "renal renal"])
    assert np.array_equal(twice, once + once)


@pytest.mark.parametrize(("texts", "expected"), [([], [[], []]), (["", "—"], [[(0, 0.0), (1, 0.0)]] * 2)])
def test_where_rank_bm25_divides_by_zero(texts: list[str], expected: list[list[tuple[int, float]]]) -> None:
    with pytest.raises(ZeroDivisionError):
        BM25Okapi([tokenize(text) for text in texts])
    assert rank_bm25(texts, ["dose", ""], 10) == expected


def test_no_questions_have_no_rankings() -> None:
    assert rank_bm25(["dose"], [], 10) == []


def test_a_large_collection_with_many_ties() -> None:
    random = Random(3)
    texts = [" ".join(random.choices(WORDS, k=random.randrange(1, 6))) for _ in range(3000)]
    queries = [" ".join(random.choices(WORDS, k=3)) for _ in range(90)]
    assert rank_bm25(texts, queries, 10) == reference(texts, queries, 10)


def test_real_labels(real_labels: Path) -> None:
    """Each passage's own first words are asked of its label."""
    documents = [one for source in find_sources([str(real_labels)]).sources for one in read_source(source)]
    read = [parse_document(one[1])[1] for one in documents[::40] if not isinstance(one, Reject)]
    for passages in read:
        texts = [passage_search_text(passage) for passage in passages]
        queries = [" ".join(passage.text.split()[:12]) for passage in passages]
        assert rank_bm25(texts, queries, 10) == reference(texts, queries, 10)


TFIDF_WORDS = st.lists(
    st.sampled_from(["renal", "dose", "mg", "5", "take", "food", "with", "a", "tablet"]), max_size=12
).map(" ".join)


def by_scikit(texts: list[str], queries: list[str]) -> np.ndarray:
    vectorizer = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False, sublinear_tf=True)
    passages = vectorizer.fit_transform(texts)
    cosines: np.ndarray = (vectorizer.transform(queries) @ passages.T).toarray()
    return cosines


@given(
    st.lists(TFIDF_WORDS, min_size=1, max_size=8).filter(lambda texts: any(texts)), st.lists(TFIDF_WORDS, max_size=5)
)
def test_scores_are_those_of_scikit_learn(texts: list[str], queries: list[str]) -> None:
    found = TfidfIndex(InvertedIndex(texts)).scores(queries)
    if queries:
        np.testing.assert_allclose(found, by_scikit(texts, queries), atol=1e-12)


@given(st.lists(TFIDF_WORDS, min_size=1, max_size=8), TFIDF_WORDS)
def test_a_passage_is_most_like_itself(texts: list[str], query: str) -> None:
    [scores] = TfidfIndex(InvertedIndex([query, *texts])).scores([query])
    assert scores[0] == pytest.approx(1.0 if query else 0.0)
    assert all(0 <= score <= 1 + 1e-9 for score in scores)


def test_punctuation_changes_no_cosine() -> None:
    tfidf = TfidfIndex(InvertedIndex(["renal dose.", "liver.", "the dose is 5 mg."]))
    assert np.array_equal(tfidf.scores(["renal dose"]), tfidf.scores(["(Renal) dose?"]))


def test_nothing_to_search() -> None:
    tfidf, dose = get_retriever("tfidf"), Queries(["dose"])
    assert tfidf.rank(dose, Collection([]), 3) == [[]]
    assert tfidf.rank(dose, Collection(["", "dose"]), 3) == [[(1, pytest.approx(1.0)), (0, 0.0)]]
