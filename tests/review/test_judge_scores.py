"""Scores of stages by the marks of candidates, on outcomes that are known."""

from __future__ import annotations

import pytest

from fdarx_core.review.judged_candidates import (
    CHAIN,
    JudgedCandidate,
    StageOutcome,
    StageScore,
    chain_outcomes,
    count_lines,
    score_stages,
    score_tables,
    share,
)

CANDIDATES = [
    JudgedCandidate(f"c{number}", "s", kind, "q?", "a", [], "", not failure, failure, "", "tune")
    for number, (kind, failure) in enumerate(
        [("factual", ""), ("factual", ""), ("factual", "leaked"), ("refusal", "garbled"), ("refusal", "garbled")]
    )
]
MADE = {"rules": "kept dropped dropped kept kept", "support": "kept kept unscored dropped unscored"}
OUTCOMES = [
    StageOutcome(f"c{number}", stage, made, "" if made == "kept" else f"why_{stage}")
    for stage, listed in MADE.items()
    for number, made in enumerate(listed.split())
]


def scored() -> dict[tuple[str, str], StageScore]:
    return {(one.stage, one.group): one for one in score_stages(CANDIDATES, OUTCOMES)}


@pytest.mark.parametrize(
    ("found", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (8, 10, 0.4902, 0.9433), (1, 2, 0.0945, 0.9055)],
)
def test_intervals_are_those_of_wilson(found: int, of: int, low: float, high: float) -> None:
    one = share(found, of)
    assert (one.value, one.rows) == (found / of, of)
    assert one.low == pytest.approx(low, abs=1e-4) and one.high == pytest.approx(high, abs=1e-4)


def test_a_share_of_nothing_has_no_value() -> None:
    assert share(0, 0).value is None and share(0, 0).low is None


def test_unscored_candidates_are_neither_dropped_nor_kept() -> None:
    support = scored()["support", "all"]
    assert support.count(False, "unscored") == 2 and support.count(None, "dropped") == 1
    assert support.figure("precision").value == 1.0 and support.figure("recall").value == pytest.approx(1 / 3)
    assert (support.figure("good_kept").value, support.figure("kept_good").value) == (1.0, 1.0)
    rules = scored()["rules", "all"]
    assert rules.figure("precision").value == 0.5 and rules.figure("recall").value == pytest.approx(1 / 3)
    assert rules.figure("good_kept").value == 0.5 and rules.figure("kept_good").value == pytest.approx(1 / 3)


def test_the_chain_drops_what_one_stage_drops() -> None:
    assert [(one.outcome, one.reason) for one in chain_outcomes(OUTCOMES)] == [
        ("kept", ""),
        ("dropped", "rules: why_rules"),
        ("dropped", "rules: why_rules"),
        ("dropped", "support: why_support"),
        ("unscored", "support: why_support"),
    ]
    assert (
        scored()[CHAIN, "garbled"].figure("recall").value == 0.5
        and scored()[CHAIN, "factual"].figure("precision").value == 0.5
    )


def test_rows_hold_the_counts_and_tables_the_groups() -> None:
    scores = list(scored().values())
    assert [StageScore.from_row(one.to_row()).to_row() for one in scores] == [one.to_row() for one in scores]
    titles = [table.title for table in score_tables(scores)]
    assert titles[:3] == ["All candidates: 2 good, 3 bad", "Factual candidates: 2 good, 1 bad", titles[2]]
    assert [name for name, _ in score_tables(scores)[-1].rows] == ["garbled (2)", "leaked (1)"]
    assert count_lines(scores)[-1].split() == [CHAIN, "1", "1", "0", "0", "2", "1"]
