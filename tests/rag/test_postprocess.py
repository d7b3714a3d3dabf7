"""The best of the candidates, and what becomes of those without a score."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.llm import response_to
from fdarx_core.rag.postprocess import POSTPROCESSORS, order, read_score, score_asks
from fdarx_core.rag.tasks import SCORE_CHUNK
from tests.rag.found import found

POOL = [found(name) for name in "abcd"]
REQUEST = SCORE_CHUNK.request(score_asks("q?", POOL)[0][1], endpoint="m")


def test_the_best_come_first_and_ties_keep_their_order() -> None:
    kept = order(POOL, [1, 7, 1, 9], 3)
    assert [(one.chunk.id, one.rerank) for one in kept] == [("d", 9.0), ("b", 7.0), ("a", 1.0)]


def test_what_has_no_score_comes_last() -> None:
    kept = order(POOL, [None, -50.0, math.nan, -2.0], 4)
    assert [(one.chunk.id, one.rerank) for one in kept] == [("d", -2.0), ("b", -50.0), ("a", None), ("c", None)]


def test_a_score_for_each_candidate() -> None:
    with pytest.raises(ValueError, match="zip"):
        order(POOL, [1.0], 2)


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
    asks = score_asks("q?", [found("a", text="Text a."), found("b", text="Text b.", section="S > T")])
    assert [slots for _, slots in asks] == [
        {"question": "q?", "title": "T", "section": "", "text": "Text a."},
        {"question": "q?", "title": "T", "section": "S > T", "text": "Text b."},
    ]
    assert all(task is SCORE_CHUNK for task, _ in asks)


def test_the_ways_are_named() -> None:
    assert list(POSTPROCESSORS) == ["rerank", "score", "none"]


@given(st.lists(st.none() | st.floats(allow_infinity=True), max_size=8), st.integers(0, 8))
@settings(deadline=None)
def test_the_order_is_by_score(scores: list[float | None], keep: int) -> None:
    kept = order([found(str(place)) for place in range(len(scores))], scores, keep)
    assert len(kept) == min(keep, len(scores))
    ranks = [(one.rerank is None, -(one.rerank or 0.0), int(one.chunk.id)) for one in kept]
    assert ranks == sorted(ranks)
