"""The rules that write texts to search with, and score chunks, without a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.answering import key_words
from fdarx_core.llm import Baseline
from fdarx_core.rag.tasks import (
    HYDE_PASSAGE,
    HYPOTHETICAL_ANSWER,
    MORE_QUESTIONS,
    RAG_RULES_VERSION,
    RAG_TASKS,
    SCORE_CHUNK,
)

BASELINE = Baseline(RAG_TASKS, RAG_RULES_VERSION)


def by_baseline(task: Any, **slots: Any) -> Any:
    [response] = BASELINE.answer([task.request(slots, endpoint="baseline", sampling=BASELINE.sampling)])
    return task.parse(response)


def test_key_words_are_the_questions_own() -> None:
    assert key_words("What does FDA recommend for ophthalmic reserve samples?") == [
        "FDA",
        "ophthalmic",
        "reserve",
        "samples",
    ]
    assert key_words("What is it?") == ["What", "is", "it"]


@pytest.mark.parametrize("question", ["Which lots of ophthalmic drops are exempt?", "", "why", "{topic} {"])
def test_texts_to_search_with_hold_the_key_words(question: str) -> None:
    made_up = [by_baseline(task, question=question) for task in (HYPOTHETICAL_ANSWER, HYDE_PASSAGE)]
    more = by_baseline(MORE_QUESTIONS, question=question).questions
    assert len(set(more)) == 3
    for text in (*made_up, *more):
        assert all(word in text.lower() for word in " ".join(key_words(question)).lower().split())


def test_scores_follow_the_words() -> None:
    question = "Are reserve samples of each lot retained?"
    scores = [
        by_baseline(SCORE_CHUNK, question=question, title="", section="", text=text).score
        for text in (
            "Reserve samples of each lot are retained for one year.",
            "Reserve is due. Samples vary.",
            "Dogs bark.",
        )
    ]
    assert scores == sorted(scores, reverse=True)
    assert (scores[0], scores[-1]) == (10, 1)
    assert 1 < scores[1] < 10


@given(st.text(max_size=80), st.text(max_size=200))
def test_any_chunk_gets_a_score(question: str, text: str) -> None:
    assert 1 <= by_baseline(SCORE_CHUNK, question=question, title="T", section="", text=text).score <= 10
