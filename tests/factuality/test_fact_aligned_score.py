"""FAS and the shares of claims against sums made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.scores import Weights, fact_aligned_score, score_of
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, FactualityScore, PairVerdict, SafetyFlag

REFERENCE = "Take one tablet daily with food."


def scored(
    *verdicts: str, similarity: float | None = 0.5, weights: Weights | None = None, **answer: object
) -> FactualityScore:
    given = {"answer": "Take one tablet daily.", "references": [REFERENCE], "model": "m", **answer}
    row = CheckedAnswer("a", "q", "How is it taken?", **given)  # type: ignore[arg-type]
    claims = [Claim(f"a:{at}", "a", at, at, at + 1, "x", "x") for at in range(len(verdicts))]
    decided = [ClaimVerdict(claim.id, "a", verdict) for claim, verdict in zip(claims, verdicts, strict=True)]
    return score_of(row, claims, decided, [], similarity, [], weights or Weights(), engine="nli")


def test_by_hand() -> None:
    """Of five claims with a verdict three are supported and one is contradicted; the sixth could not be judged."""
    score = scored("supported", "supported", "supported", "contradicted", "unsupported", "unscored")
    assert (score.claims, score.supported, score.contradicted, score.unsupported_claims, score.unscored_claims) == (
        6, 3, 1, 1, 1,
    )  # fmt: skip
    assert (score.support, score.contra, score.unsupported) == pytest.approx((0.6, 0.2, 0.2))
    assert score.fas == pytest.approx(0.3 * 0.5 + 0.4 * 0.6 + 0.3 * (1 - 0.2))
    assert score.fas == pytest.approx(0.63)
    assert score.unscored == []


def test_other_weights() -> None:
    score = scored("supported", "contradicted", weights=Weights(0.5, 0.25, 0.25))
    assert score.fas == pytest.approx(0.5 * 0.5 + 0.25 * 0.5 + 0.25 * 0.5)


def test_a_term_without_weight_may_be_missing() -> None:
    score = scored("supported", similarity=None, weights=Weights(0, 0.5, 0.5))
    assert (score.fas, score.similarity, score.unscored) == (1.0, None, ["similarity: not_measured"])
    assert scored(weights=Weights(1, 0, 0)).fas == 0.5


@pytest.mark.parametrize("terms", [(0.3, 0.4, 0.4), (-0.1, 0.6, 0.5), (math.nan, 0.5, 0.5), (0, 0, 0)])
def test_weights_that_mean_nothing_are_refused(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must be 0 or more and add up to 1"):
        Weights(*terms)


def test_weights_as_they_are_written() -> None:
    assert Weights.read("0.2, 0.5,0.3") == Weights(0.2, 0.5, 0.3)
    for text in ("", "0.5,0.5", "a,b,c", "0.3;0.4;0.3"):
        with pytest.raises(ValueError, match="three numbers"):
            Weights.read(text)


def test_without_claims_there_is_no_score() -> None:
    for outcome in ("answered", "refused"):
        score = scored(outcome=outcome)
        assert (score.fas, score.support, score.contra, score.unsupported) == (None,) * 4
        assert score.unscored == [
            "support: no_claims", "contra: no_claims", "unsupported: no_claims", "fas: no_claims",
        ]  # fmt: skip
        assert score.rouge_l is not None and score.similarity == 0.5


def test_without_a_verdict_there_is_no_score() -> None:
    score = scored("unscored", "unscored")
    assert (score.fas, score.support, score.unscored_claims) == (None, None, 2)
    assert "fas: no_verdict" in score.unscored


def test_without_a_reference_there_is_no_overlap_and_no_score() -> None:
    score = scored("supported", similarity=None, references=[])
    assert (score.support, score.rouge_l, score.bleu_4, score.fas) == (1, None, None, None)
    assert score.unscored == [
        "rouge_1: no_reference", "rouge_2: no_reference", "rouge_l: no_reference", "bleu_4: no_reference",
        "similarity: no_reference", "fas: no_reference",
    ]  # fmt: skip


def test_a_failed_answer_has_no_values() -> None:
    score = scored(outcome="failed", answer="", must_have=["x"])
    values = (score.similarity, score.rouge_1, score.bleu_4, score.support, score.fas, score.gold)
    assert values == (None,) * 6
    assert "fas: failed" in score.unscored and "rouge_l: failed" in score.unscored


def test_flags_are_counted_apart() -> None:
    row = CheckedAnswer("a", "q", "?", "40 mg", "m", references=["40 mg"])
    claim, verdict = Claim("c", "a", 0, 0, 1, "4", "4"), ClaimVerdict("c", "a", "supported")
    flag = SafetyFlag("a", "dose_unsupported", 0, 5, "40 mg", "", "40 mg", "")
    with_flag, without = (
        score_of(row, [claim], [verdict], [], 1.0, flags, engine="nli") for flags in ([flag, flag], [])
    )
    assert (with_flag.flags, without.flags) == (2, 0)
    assert with_flag.fas == without.fas == 1.0


def test_gold_is_judged_by_the_same_engine() -> None:
    row = CheckedAnswer("a", "q", "?", "40 mg", "m", must_have=["s"])
    pairs = [
        PairVerdict("a", "", "", "must_have", 0, "nli", 0.9, 0.1, 0.0),
        PairVerdict("a", "", "", "must_have", 0, "other", 0.1, 0.9, 0.0),
    ]
    assert score_of(row, [], [], pairs, None, [], engine="nli").gold == 1
    assert score_of(row, [], [], pairs, None, [], engine="other").gold == 0


SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES, st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)))
def test_within_bounds_and_in_the_right_direction(
    similarity: float, support: float, contra: float, parts: tuple[int, int, int]
) -> None:
    weights = Weights(*(part / sum(parts) for part in parts))

    def fas(*terms: float) -> float:
        return float(fact_aligned_score(weights, *(np.asarray(term) for term in terms)))

    value = fas(similarity, support, contra)
    assert -1e-9 <= value <= 1 + 1e-9
    assert fas(1, support, contra) >= value - 1e-12
    assert fas(similarity, 1, contra) >= value - 1e-12
    assert fas(similarity, support, 0) >= value - 1e-12
    assert fas(1, 1, 0) == pytest.approx(1) and fas(0, 0, 1) == pytest.approx(0)
