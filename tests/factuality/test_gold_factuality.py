"""Gold factuality from must-have and nice-to-have statements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.gold import gold_claims_of, gold_of, gold_pairs
from fdarx_core.records import CheckedAnswer, Claim, PairVerdict

ANSWER = CheckedAnswer(
    "a", "q", "What helps?", "Take one tablet. It helps.", "m", drug="Exampline",
    must_have=["One tablet is taken", " Milk is avoided. "], nice_to_have=["It helps!"],
)  # fmt: skip
CLAIM = Claim("a:1", "a", 1, 17, 26, "It helps.", "Exampline helps.")


def pair(kind: str, entailment: float | None, contradiction: float | None = 0.0) -> PairVerdict:
    told = contradiction if entailment is not None else None
    return PairVerdict("a", "", "", kind, 0, "nli", entailment, None, told)


def test_statements_are_held_against_the_answer_and_claims_against_the_statements() -> None:
    asked = gold_pairs(ANSWER, [CLAIM], engine="nli")
    assert [(one.verdict.kind, one.verdict.number, one.verdict.claim_id) for one in asked] == [
        ("must_have", 0, ""), ("must_have", 1, ""), ("nice_to_have", 0, ""), ("claim_in_gold", 0, "a:1"),
    ]  # fmt: skip
    assert [(one.pair.premise, one.pair.hypothesis) for one in asked] == [
        (ANSWER.answer, "One tablet is taken"),
        (ANSWER.answer, "Milk is avoided."),
        (ANSWER.answer, "It helps!"),
        ("One tablet is taken.\nMilk is avoided.\nIt helps!", "Exampline helps."),
    ]
    assert {(one.verdict.answer_id, one.verdict.engine, one.verdict.rank, one.pair.drug) for one in asked} == {
        ("a", "nli", 0, "Exampline")
    }
    assert all(one.verdict.entailment is None for one in asked)


def test_nothing_is_asked_where_there_is_nothing_to_hold() -> None:
    for other in (replace(ANSWER, must_have=[]), replace(ANSWER, outcome="failed"), replace(ANSWER, answer=" ")):
        assert gold_pairs(other, [CLAIM], engine="nli") == []


def test_by_hand() -> None:
    """Two of three must-haves are stated; one of two nice-to-haves is contradicted: 2 ÷ (3 + 1)."""
    pairs = [
        pair("must_have", 0.9), pair("must_have", 0.7), pair("must_have", 0.1, 0.8),
        pair("nice_to_have", 0.1, 0.9), pair("nice_to_have", 0.2), pair("claim_in_gold", 0.9),
    ]  # fmt: skip
    assert gold_of(ANSWER, pairs) == pytest.approx(0.5)
    assert gold_of(ANSWER, pairs, threshold=0.85) == pytest.approx(0.25)
    assert gold_of(ANSWER, [*pairs[:5], pair("must_have", 0.69)]) == pytest.approx(2 / 5)


def test_what_was_not_judged_does_not_count() -> None:
    assert gold_of(ANSWER, [pair("must_have", 0.9), pair("must_have", None), pair("nice_to_have", None)]) == 1
    assert gold_of(ANSWER, [pair("must_have", None)]) is None
    assert gold_of(replace(ANSWER, must_have=[]), [pair("nice_to_have", 0.9)]) is None
    assert gold_of(replace(ANSWER, answer=""), []) == 0


def test_the_share_of_claims_that_the_statements_entail() -> None:
    pairs = [pair("claim_in_gold", 0.9), pair("claim_in_gold", 0.2, 0.8), pair("claim_in_gold", None)]
    assert gold_claims_of([*pairs, pair("must_have", 0.0)]) == 0.5
    assert gold_claims_of([pair("must_have", 0.9), pair("claim_in_gold", None)]) is None


KINDS = st.sampled_from(["must_have", "nice_to_have", "claim_in_gold"])
PAIRS = st.lists(st.builds(pair, KINDS, st.none() | st.floats(0, 0.5), st.floats(0, 0.5)), max_size=8)


@given(PAIRS, st.randoms())
def test_within_bounds_and_in_any_order(pairs: list[PairVerdict], dice: object) -> None:
    found = gold_of(ANSWER, pairs, 0.3), gold_claims_of(pairs, 0.3)
    assert all(value is None or 0 <= value <= 1 for value in found)
    dice.shuffle(pairs)  # type: ignore[attr-defined]
    assert (gold_of(ANSWER, pairs, 0.3), gold_claims_of(pairs, 0.3)) == found


@given(PAIRS)
def test_a_stated_must_have_raises_gold_and_a_contradicted_statement_lowers_it(pairs: list[PairVerdict]) -> None:
    before = gold_of(ANSWER, [*pairs, pair("must_have", 0.0)], 0.3) or 0.0
    assert (gold_of(ANSWER, [*pairs, pair("must_have", 0.9)], 0.3) or 0.0) > before
    worse = gold_of(ANSWER, [*pairs, pair("must_have", 0.0), pair("nice_to_have", 0.0, 0.9)], 0.3)
    assert worse is not None and worse <= before
