"""What follows from several votes of judges on a question."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.filters.judges import majorities, majority
from fdarx_core.records import JudgeVerdict

KEPT = JudgeVerdict("q1", "set-1", "relevance", "kept", category="Pharmacokinetics", relevance="relevant")
OTHER_TOPIC = replace(KEPT, category="Contraindications")
DROPPED = replace(KEPT, outcome="dropped", reason="irrelevant", detail="It asks for a price.")
SOMEWHAT = replace(DROPPED, reason="somewhat_relevant", detail="It asks for a color.")
UNSCORED = JudgeVerdict("q1", "set-1", "relevance", "unscored", reason="invalid_json")


def cast(*votes: JudgeVerdict) -> list[JudgeVerdict]:
    """The votes as three judges in turn give them."""
    return [
        replace(vote, endpoint="abc"[place % 3], response_key=f"key-{place}", vote=place + 1)
        for place, vote in enumerate(votes)
    ]


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([KEPT, DROPPED, KEPT], ("kept", "")),
        ([KEPT, DROPPED, DROPPED], ("dropped", "irrelevant")),
        ([SOMEWHAT, DROPPED, DROPPED], ("dropped", "irrelevant")),
        ([KEPT, DROPPED, UNSCORED], ("dropped", "irrelevant")),
        ([KEPT, KEPT, UNSCORED], ("kept", "")),
        ([KEPT, UNSCORED, UNSCORED], ("unscored", "invalid_json")),
        ([KEPT, KEPT, UNSCORED, UNSCORED], ("kept", "")),
        ([KEPT, KEPT, DROPPED, UNSCORED, UNSCORED], ("kept", "")),
        ([KEPT, KEPT, UNSCORED, UNSCORED, UNSCORED], ("unscored", "invalid_json")),
        ([UNSCORED], ("unscored", "invalid_json")),
    ],
    ids=lambda value: " ".join(vote.outcome for vote in value) if isinstance(value, list) else "",
)
def test_the_majority_of_scored_votes_decides_and_a_tie_drops(
    votes: list[JudgeVerdict], expected: tuple[str, str]
) -> None:
    found = majority(cast(*votes))
    assert (found.outcome, found.reason) == expected


def test_a_single_vote_is_its_own_verdict() -> None:
    for vote in cast(KEPT, DROPPED, UNSCORED):
        assert majority([vote]) == vote


def test_the_verdict_is_that_of_the_most_frequent_vote_on_the_winning_side() -> None:
    kept = majority(cast(OTHER_TOPIC, KEPT, DROPPED, KEPT, UNSCORED))
    assert (kept.category, kept.vote, kept.response_key) == ("Pharmacokinetics", 2, "key-1")
    assert kept.endpoint == "a, b, c"
    assert majority(cast(SOMEWHAT, DROPPED, DROPPED)).detail == DROPPED.detail


def test_votes_are_told_apart_by_question_and_stage() -> None:
    votes = cast(KEPT, DROPPED, DROPPED)
    rows = [
        *votes,
        *(replace(vote, stage="support") for vote in votes[:1]),
        *(replace(vote, question_id="q2") for vote in votes),
    ]
    found = {key: verdict.outcome for key, verdict in majorities(rows).items()}
    assert found == {("q1", "relevance"): "dropped", ("q1", "support"): "kept", ("q2", "relevance"): "dropped"}
