"""Post-processing of candidates and fitting contexts into a budget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import response_to
from fdarx_core.rag.flow import fit_contexts, number_contexts, order_by_score, read_score, score_calls
from fdarx_core.rag.query import POSTPROCESSORS
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS, SCORE_CHUNK
from fdarx_core.records import LabelVersion
from tests.rag.found import found


def context(number: int, text: str) -> dict[str, Any]:
    return {"n": number, "title": "Title", "section": "", "text": text}


def test_contexts_are_numbered_from_one() -> None:
    assert number_contexts([found("a", text="Text a."), found("b", text="Text b.", section="S")]) == [
        {"n": 1, "title": "T", "section": "", "text": "Text a."},
        {"n": 2, "title": "T", "section": "S", "text": "Text b."},
    ]


def test_a_labels_context_has_the_version_of_the_label() -> None:
    hit = found("a", text="Text a.", section="S")
    hit.chunk.label = LabelVersion(3, "2024-05-01", labeler="Acme", moieties=["zalvostat"])
    [context] = number_contexts([hit])
    assert context == {
        "n": 1,
        "title": "T",
        "section": "S",
        "text": "Text a.",
        "section_code": "",
        "moieties": ["zalvostat"],
        "labeler": "Acme",
        "effective_date": "2024-05-01",
        "version": 3,
    }
    request = ANSWER_WITH_CITATIONS.request(
        {"question": "Why?", "contexts": [context], "drug": "", "others": []}, endpoint="m"
    )
    tag = 'number="1" title="T" active="zalvostat" labeler="Acme" effective="2024-05-01" version="3" section="S"'
    assert f"<context {tag}>\n" in request.messages[-1]["content"]


def test_whole_contexts_go_from_the_end() -> None:
    given_contexts = [context(1, "a" * 45), context(2, "b" * 45), context(3, "c")]
    assert [one["n"] for one in fit_contexts(given_contexts, 149)] == [1, 2, 3]
    assert [one["n"] for one in fit_contexts(given_contexts, 100)] == [1, 2]
    assert [one["n"] for one in fit_contexts(given_contexts, 99)] == [1]


def test_the_first_stays_and_is_cut_between_words() -> None:
    whole = context(1, "Keep the records for one year.")
    assert fit_contexts([whole, context(2, "x")], 20) == [context(1, "Keep the")]
    assert whole["text"].endswith("year.")
    assert fit_contexts([context(1, "unbroken" * 9)], 13) == [context(1, "unbroken")]


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5), st.integers(-5, 300))
def test_what_is_kept_fits(texts: list[str], budget: int) -> None:
    contexts = [context(number, text) for number, text in enumerate(texts, 1)]
    kept = fit_contexts(contexts, budget)
    assert [one["n"] for one in kept] == list(range(1, len(kept) + 1))
    assert kept[1:] == contexts[1 : len(kept)]
    assert contexts[0]["text"].startswith(kept[0]["text"])
    assert sum(5 + len(one["text"]) for one in kept) <= max(budget, 5)


def test_no_contexts_are_none() -> None:
    assert fit_contexts([], 100) == []


POOL = [found(name) for name in "abcd"]
REQUEST = SCORE_CHUNK.request(score_calls("q?", POOL)[0][1], endpoint="m")


def test_the_best_come_first_and_ties_keep_their_order() -> None:
    kept = order_by_score(POOL, [1, 7, 1, 9])
    assert [(one.chunk.id, one.rerank) for one in kept] == [("d", 9.0), ("b", 7.0), ("a", 1.0), ("c", 1.0)]


def test_what_has_no_score_comes_last() -> None:
    kept = order_by_score(POOL, [None, -50.0, math.nan, -2.0])
    assert [(one.chunk.id, one.rerank) for one in kept] == [("d", -2.0), ("b", -50.0), ("a", None), ("c", None)]


def test_a_score_for_each_candidate() -> None:
    with pytest.raises(ValueError, match="zip"):
        order_by_score(POOL, [1.0])


def test_scores_are_read_and_lost_ones_are_told() -> None:
    missing: list[str] = []
    good = response_to(REQUEST, '{"reason": "It states the rule.", "score": 8}')
    assert read_score(good, missing) == 8.0
    assert missing == []
    assert read_score(replace(good, text='{"reason": "Great!", "score": 11}'), missing) is None
    assert read_score(response_to(REQUEST, "no reply", reason="transient_timeout"), missing) is None
    assert [line.split(":")[:2] for line in missing] == [
        ["score_chunk", " wrong_shape"],
        ["score_chunk", " failed_request"],
    ]


def test_each_candidate_is_shown_with_where_it_stands() -> None:
    asks = score_calls("q?", [found("a", text="Text a."), found("b", text="Text b.", section="S > T")])
    assert [slots for _, slots in asks] == [
        {"question": "q?", "title": "T", "section": "", "text": "Text a."},
        {"question": "q?", "title": "T", "section": "S > T", "text": "Text b."},
    ]
    assert all(task is SCORE_CHUNK for task, _ in asks)


def test_the_ways_are_named() -> None:
    assert list(POSTPROCESSORS) == ["rerank", "score", "none"]


@given(st.lists(st.none() | st.floats(allow_infinity=True), max_size=8))
def test_the_order_is_by_score(scores: list[float | None]) -> None:
    kept = order_by_score([found(str(place)) for place in range(len(scores))], scores)
    assert len(kept) == len(scores)
    ranks = [(one.rerank is None, -(one.rerank or 0.0), int(one.chunk.id)) for one in kept]
    assert ranks == sorted(ranks)
