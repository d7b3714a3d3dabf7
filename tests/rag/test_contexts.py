"""Contexts are numbered, and made to fit."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.rag.contexts import fitting, numbered
from tests.rag.found import found


def context(number: int, text: str) -> dict[str, Any]:
    return {"n": number, "title": "Title", "section": "", "text": text}


def test_contexts_are_numbered_from_one() -> None:
    assert numbered([found("a", text="Text a."), found("b", text="Text b.", section="S")]) == [
        {"n": 1, "title": "T", "section": "", "text": "Text a."},
        {"n": 2, "title": "T", "section": "S", "text": "Text b."},
    ]


def test_whole_contexts_go_from_the_end() -> None:
    given_contexts = [context(1, "a" * 45), context(2, "b" * 45), context(3, "c")]
    assert [one["n"] for one in fitting(given_contexts, 149)] == [1, 2, 3]
    assert [one["n"] for one in fitting(given_contexts, 100)] == [1, 2]
    assert [one["n"] for one in fitting(given_contexts, 99)] == [1]


def test_the_first_stays_and_is_cut_between_words() -> None:
    whole = context(1, "Keep the records for one year.")
    assert fitting([whole, context(2, "x")], 20) == [context(1, "Keep the")]
    assert whole["text"].endswith("year.")
    assert fitting([context(1, "unbroken" * 9)], 13) == [context(1, "unbroken")]


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5), st.integers(-5, 300))
@settings(deadline=None)
def test_what_is_kept_fits(texts: list[str], budget: int) -> None:
    contexts = [context(number, text) for number, text in enumerate(texts, 1)]
    kept = fitting(contexts, budget)
    assert [one["n"] for one in kept] == list(range(1, len(kept) + 1))
    assert kept[1:] == contexts[1 : len(kept)]
    assert contexts[0]["text"].startswith(kept[0]["text"])
    assert sum(5 + len(one["text"]) for one in kept) <= max(budget, 5)


def test_no_contexts_are_none() -> None:
    assert fitting([], 100) == []
