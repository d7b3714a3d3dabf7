"""What a claim's passages say of it together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.entailment.inference import Inference
from fdarx_core.factuality.verdicts import judged, verdict_of, verdicts_of
from fdarx_core.records import Claim, PairVerdict

CLAIM = Claim("a:0", "a", 0, 0, 4, "text", "text")


def pair(rank: int, entailment: float | None, contradiction: float = 0.0, **other: str) -> PairVerdict:
    row = PairVerdict("a", "a:0", f"e{rank}", other.get("kind", "evidence"), rank, other.get("engine", "nli"))
    if entailment is None:
        return replace(row, reason=other.get("reason", "timeout"))
    return replace(
        row, entailment=entailment, neutral=1 - entailment - contradiction, contradiction=contradiction, reason="seen"
    )


def of(*pairs: PairVerdict, threshold: float = 0.7, k: int = 5) -> tuple[str, str, float | None, str]:
    found = verdict_of(CLAIM, pairs, threshold, k)
    assert (found.claim_id, found.answer_id) == ("a:0", "a")
    return found.verdict, found.evidence_id, found.score, found.reason


def test_the_surest_passage_decides() -> None:
    assert of(pair(1, 0.75), pair(2, 0.05, 0.9), pair(3, 0.8)) == ("contradicted", "e2", 0.9, "seen")
    assert of(pair(1, 0.75), pair(2, 0.05, 0.74)) == ("supported", "e1", 0.75, "seen")


def test_the_threshold_itself_is_enough_and_below_it_nothing_is_decided() -> None:
    assert of(pair(1, 0.7))[0] == "supported"
    assert of(pair(1, 0.1, 0.7))[0] == "contradicted"
    assert of(pair(1, 0.2, 0.69), pair(2, 0.6)) == ("unsupported", "e2", 0.6, "seen")
    assert of(pair(1, 0.6), threshold=0.6)[0] == "supported"


def test_equal_probabilities_support_and_the_better_rank_goes_first() -> None:
    assert of(pair(1, 0.0, 0.9), pair(2, 0.9))[:2] == ("supported", "e2")
    assert of(pair(2, 0.9), pair(1, 0.9))[:2] == ("supported", "e1")


def test_only_the_first_k_passages_count() -> None:
    assert of(pair(1, 0.2), pair(6, 0.99))[0] == "unsupported"
    assert of(pair(1, 0.2), pair(6, 0.99), k=6)[0] == "supported"


def test_other_kinds_are_no_evidence() -> None:
    assert of(pair(0, 0.99, kind="reference"), pair(0, 0.99, kind="claim_in_gold")) == (
        "unsupported", "", None, "no_evidence",
    )  # fmt: skip


def test_a_judge_that_fails_is_no_verdict() -> None:
    assert of(pair(1, None), pair(2, None)) == ("unscored", "", None, "timeout")
    assert of(pair(1, None), pair(2, 0.9))[:2] == ("supported", "e2")
    assert of(pair(1, 0.3), pair(2, None, reason="no_json")) == ("unscored", "", None, "no_json")
    assert of(pair(1, None, reason=""))[3] == "not_judged"


def test_verdicts_are_one_engine_s_in_the_order_of_the_claims() -> None:
    claims = [CLAIM, replace(CLAIM, id="a:1")]
    pairs = [pair(1, 0.9), pair(1, 0.0, 0.99, engine="other"), replace(pair(1, 0.1, 0.8), claim_id="a:1")]
    found = verdicts_of(reversed(claims), pairs, engine="nli")
    assert [(one.claim_id, one.verdict) for one in found] == [("a:1", "contradicted"), ("a:0", "supported")]
    assert [one.reason for one in verdicts_of(claims, pairs, engine="none")] == ["no_evidence"] * 2


def test_an_inference_fills_its_row() -> None:
    row = judged(PairVerdict("a", "c", "e", "evidence", 1, "nli"), Inference(0.2, 0.3, 0.5, 4, 9, "units differ"))
    assert (row.entailment, row.neutral, row.contradiction, row.start, row.end, row.reason) == (
        0.2, 0.3, 0.5, 4, 9, "units differ",
    )  # fmt: skip
    assert (row.answer_id, row.claim_id, row.evidence_id, row.kind, row.rank, row.engine) == (
        "a", "c", "e", "evidence", 1, "nli",
    )  # fmt: skip


PROBABILITIES = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda two: (two[0] * (1 - two[1]), two[1]))


@given(st.lists(PROBABILITIES, min_size=1, max_size=5, unique=True), st.floats(0.5, 0.9), st.randoms())
def test_the_order_of_the_rows_changes_nothing_and_higher_thresholds_decide_less(
    found: list[tuple[float, float]], threshold: float, dice: object
) -> None:
    pairs = [pair(rank, *one) for rank, one in enumerate(found, 1)]
    first = verdict_of(CLAIM, pairs, threshold)
    dice.shuffle(pairs)  # type: ignore[attr-defined]
    assert verdict_of(CLAIM, pairs, threshold) == first
    assert (first.verdict == "unsupported") == (max(max(one) for one in found) < threshold)
    stricter = verdict_of(CLAIM, pairs, threshold + 0.1)
    assert stricter.verdict in (first.verdict, "unsupported")


@pytest.mark.parametrize("k", [1, 3])
def test_fewer_passages_are_the_first_ones(k: int) -> None:
    pairs = [pair(1, 0.1), pair(2, 0.0, 0.75), pair(3, 0.8)]
    assert of(*pairs, k=k)[0] == ("unsupported" if k == 1 else "supported")
