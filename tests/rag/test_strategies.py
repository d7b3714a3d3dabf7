"""What each strategy asks, and searches with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fdarx_core.rag.search import SearchQuery
from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES, Strategy
from fdarx_core.rag.tasks import MORE_QUESTIONS, MoreQuestionsReply

ALL = STRATEGIES | ABLATIONS
QUESTION = "How long are batch records kept?"
MORE = MoreQuestionsReply(questions=["a?", "b?", "c?"])


def replies_to(strategy: Strategy) -> list[Any]:
    return [MORE if task is MORE_QUESTIONS else "They are kept a year." for task, _ in strategy.calls(QUESTION)]


def test_the_titles_are_the_papers() -> None:
    assert {name: strategy.title(24) for name, strategy in ALL.items()} == {
        "question": "Only question(24)",
        "hypothetical_answer": "Only hypothetical answer(24)",
        "qa_rag": "Question(12) + Hypothetical answer(12)",
        "hyde": "HyDE(24)",
        "multiquery": "Multiquery questions(24)",
        "question_half": "Only question(12)",
        "hypothetical_answer_half": "Only hypothetical answer(12)",
    }


def test_each_searches_with_its_texts() -> None:
    made_up = SearchQuery("They are kept a year.", 24, is_question=False, question=QUESTION)
    expected = {
        "question": [SearchQuery(QUESTION, 24, is_question=True)],
        "hypothetical_answer": [made_up],
        "qa_rag": [SearchQuery(QUESTION, 12, is_question=True), replace(made_up, share=12)],
        "hyde": [made_up],
        "multiquery": [
            SearchQuery(QUESTION, 6, is_question=True),
            *(SearchQuery(text, 6, is_question=True, question=QUESTION) for text in ("a?", "b?", "c?")),
        ],
        "question_half": [SearchQuery(QUESTION, 12, is_question=True)],
        "hypothetical_answer_half": [replace(made_up, share=12)],
    }
    assert {name: one.searches(QUESTION, replies_to(one), 24) for name, one in ALL.items()} == expected


@pytest.mark.parametrize("name", ALL)
def test_without_a_reply_the_question_draws_its_share(name: str) -> None:
    strategy = ALL[name]
    whole = 12 if name in ABLATIONS else 24
    lost = [None for _ in strategy.calls(QUESTION)]
    assert strategy.searches(QUESTION, lost, 24) == [SearchQuery(QUESTION, whole, is_question=True)]


@pytest.mark.parametrize("candidates", [1, 2, 3, 7, 24, 1000])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_shares_add_up(name: str, candidates: int) -> None:
    searches = STRATEGIES[name].searches(QUESTION, replies_to(STRATEGIES[name]), candidates)
    shares = [search.share for search in searches]
    assert sum(shares) == candidates
    assert min(shares) >= 1
    assert max(shares) - min(shares) <= 1


def test_who_is_asked() -> None:
    assert {name: strategy.role for name, strategy in ALL.items() if strategy.calls(QUESTION)} == {
        "hypothetical_answer": "hypothesis",
        "qa_rag": "hypothesis",
        "hypothetical_answer_half": "hypothesis",
        "hyde": "rewriter",
        "multiquery": "rewriter",
    }


@pytest.mark.parametrize("name", ALL)
def test_what_is_asked_can_be_rendered(name: str) -> None:
    for task, slots in ALL[name].calls("{{ question }} <b>"):
        assert "{{ question }} <b>" in task.request(slots, endpoint="m").messages[-1]["content"]
