"""TF-IDF against scikit-learn's vectorizer, over the same words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from fdarx_core.retrieval.postings import Postings, tokenize
from fdarx_core.retrieval.tfidf import TfidfIndex

WORDS = st.lists(st.sampled_from(["renal", "dose", "mg", "5", "take", "food", "with", "a", "tablet"]), max_size=12).map(
    " ".join
)


def by_scikit(texts: list[str], queries: list[str]) -> np.ndarray:
    vectorizer = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False, sublinear_tf=True)
    passages = vectorizer.fit_transform(texts)
    cosines: np.ndarray = (vectorizer.transform(queries) @ passages.T).toarray()
    return cosines


@given(st.lists(WORDS, min_size=1, max_size=8).filter(lambda texts: any(texts)), st.lists(WORDS, max_size=5))
def test_scores_are_those_of_scikit_learn(texts: list[str], queries: list[str]) -> None:
    found = TfidfIndex(Postings(texts)).scores(queries)
    if queries:
        np.testing.assert_allclose(found, by_scikit(texts, queries), atol=1e-12)


@given(st.lists(WORDS, min_size=1, max_size=8), WORDS)
def test_a_passage_is_most_like_itself(texts: list[str], query: str) -> None:
    [scores] = TfidfIndex(Postings([query, *texts])).scores([query])
    assert scores[0] == pytest.approx(1.0 if query else 0.0)
    assert all(0 <= score <= 1 + 1e-9 for score in scores)


def test_nothing_to_search() -> None:
    assert TfidfIndex(Postings([])).top(["dose"], 3) == [[]]
    assert TfidfIndex(Postings(["", "dose"])).top(["dose"], 3) == [[(1, pytest.approx(1.0)), (0, 0.0)]]
