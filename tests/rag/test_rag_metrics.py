"""Context precision and recall against hand tables, an oracle and the paper's own values; answers and documents."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from fdarx_core.evaluation.similarity import token_f1
from fdarx_core.rag.metrics import (
    context_precision,
    context_recall,
    document_recall,
    reciprocal_rank,
    same_title,
    title_rank,
)
from fdarx_core.records import RagScore

VERDICTS = st.lists(st.booleans(), max_size=24)
WORDS = st.lists(st.sampled_from(["storage", "batches", "25", "degrees", "5", "months"]), min_size=1).map(" ".join)


@pytest.mark.parametrize(
    ("useful", "expected"),
    [
        ("", 0), ("0", 0), ("000000", 0), ("1", 1), ("111", 1), ("01", 1 / 2), ("001", 1 / 3), ("000001", 1 / 6),
        ("101", (1 + 2 / 3) / 2), ("0101", (1 / 2 + 2 / 4) / 2), ("110011", (1 + 1 + 3 / 5 + 4 / 6) / 4),
    ],
)  # fmt: skip
def test_context_precision_by_hand(useful: str, expected: float) -> None:
    assert context_precision([one == "1" for one in useful]) == pytest.approx(expected, abs=1e-9)


def test_context_precision_is_average_precision() -> None:
    """Scikit-learn's, where it has a value: on every verdict on up to six contexts with a useful one."""
    for size in range(1, 7):
        for useful in filter(any, product((False, True), repeat=size)):
            expected = average_precision_score(useful, -np.arange(size))
            assert context_precision(useful) == pytest.approx(expected, abs=1e-9)


@given(VERDICTS)
def test_context_precision_rewards_useful_contexts_that_stand_first(useful: list[bool]) -> None:
    best, worst = sorted(useful, reverse=True), sorted(useful)
    assert 0 <= context_precision(worst) <= context_precision(useful) <= context_precision(best) <= 1
    assert context_precision([*useful, False]) == context_precision(useful)
    assert context_precision([False, *useful]) <= context_precision(useful)


def test_every_published_precision_follows_from_verdicts_on_six_contexts(guidelines: Path) -> None:
    possible = np.array([context_precision(verdicts) for verdicts in product((False, True), repeat=6)])
    rows = [json.loads(line) for line in (guidelines / "questions.jsonl").read_text("utf-8").splitlines()]
    values = [one["context_precision"] for row in rows for one in row["published"].values()]
    assert len(values) == 123
    assert [value for value in values if np.abs(possible - value).min() > 1e-11] == []


def test_context_recall_by_hand() -> None:
    assert context_recall([True, False, False, True]) == 0.5
    assert context_recall([False]) == 0
    assert context_recall([]) is None


@pytest.mark.parametrize(
    ("answer", "references", "expected"),
    [
        ("Three batches.", ["three batches"], 1),
        ("Batches", ["three batch"], 0),
        ("three lots, three sites", ["three lots"], 2 * (2 / 4) * 1 / (2 / 4 + 1)),
        ("2.5 mg", ["25 mg"], 1 / 2),
        ("", ["three"], 0),
        ("three", ["nothing alike", "Three!"], 1),
    ],
)
def test_token_f1_by_hand(answer: str, references: list[str], expected: float) -> None:
    assert token_f1(answer, references) == pytest.approx(expected)


@given(WORDS, WORDS)
def test_token_f1_is_symmetric_and_blind_to_order(one: str, other: str) -> None:
    value = token_f1(one, [other])
    assert value is not None and 0 <= value <= 1
    assert value == pytest.approx(token_f1(other, [one]))
    assert value == pytest.approx(token_f1(" ".join(reversed(one.split())), [other]))
    assert token_f1(one, [one]) == 1


def test_token_f1_without_a_reference_is_none() -> None:
    assert token_f1("three", []) is None


def test_ranks_become_recall_and_reciprocal_rank() -> None:
    scores = {rank: RagScore("q", "c", "question", "none", "m", title_rank=rank) for rank in (None, 0, 1, 4, 6, 7)}
    assert [document_recall(6, scores[rank]) for rank in (None, 0, 1, 6, 7)] == [None, 0, 1, 1, 0]
    assert [reciprocal_rank(scores[rank]) for rank in (None, 0, 1, 4)] == [None, 0, 1, 0.25]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Q9_Risk_Management__Questions_and_Answers_MARCH_2013.mmd", "Q9 Risk Management- Questions and Answers"),
        ("Cleaning_of_QT_QTc_Lines.PDF", "cleaning of QT:QTc lines"),
        ("The__ettled_Provision_of_the_Act", "The “Settled” Provision of the Act"),
        ("Guide (Edition 5)", "Guide, edition 5"),
    ],
)
def test_one_title_written_two_ways(one: str, other: str) -> None:
    assert same_title(one, other) and same_title(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("E7 Geriatrics", "E7 Geriatrics- Questions and Answers"),
        ("E7 Geriatrics", "E8 Geriatrics"),
        ("E2B(R2) Reports", "E2B(R3) Reports"),
        ("E2B(R) Reports", "E2B(R3) Reports"),
        ("Policy of 2009", "Policy of 2019"),
        ("M4 The CTD -- Safety", "M4 The CTD -- Efficacy"),
        ("Drug Labels", "Drug Label for the Act"),
        ("Use in men", "Use in me"),
        ("Ettled Provison", "Settled Provision"),
        ("", ""),
        ("--", "..."),
    ],
)
def test_two_documents_are_not_taken_for_one(one: str, other: str) -> None:
    assert not same_title(one, other) and not same_title(other, one)


def test_title_rank_is_the_first_of_the_right_document() -> None:
    titles = ["Another guide", "Q9 Risk Management", "Q9_Risk_Management.mmd"]
    assert title_rank(titles, "Q9_Risk_Management_MAY_2011.mmd") == 2
    assert title_rank(titles, "Q10") == 0
    assert title_rank([], "Q10") == 0
    assert title_rank(titles, "") is None


def test_real_titles_find_their_document_and_no_other(guidelines: Path) -> None:
    chunks = [json.loads(line)["title"] for line in (guidelines / "chunks.jsonl").read_text("utf-8").splitlines()]
    asked = [json.loads(line)["title"] for line in (guidelines / "faq.jsonl").read_text("utf-8").splitlines()]
    documents = list(dict.fromkeys(chunks))
    found = {title: [one for one in documents if same_title(one, title)] for title in dict.fromkeys(asked)}
    assert (len(documents), len(found), len(asked)) == (447, 47, 928)
    assert max(map(len, found.values())) == 1
    assert sum(map(bool, found.values())) == 32
    assert sum(bool(found[title]) for title in asked) == 572
