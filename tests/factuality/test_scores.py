"""FAS and the shares of claims against sums made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.scores import (
    ScoringMethod,
    Weights,
    completeness_of,
    fact_aligned_score,
    judged,
    score_of,
    stated_in_references_of,
    statement_pairs,
    verdict_of,
    verdicts_of,
)
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.verify import Inference

METHOD = ScoringMethod(engine="nli", least_coverage=0, least_decided=0)
LOW = replace(METHOD, threshold=0.3)
REFERENCE = "Take one tablet daily with food."


def scored(
    *verdicts: str, similarity: float | None = 0.5, weights: Weights | None = None, **answer: object
) -> FactualityScore:
    given = {"answer": "Take one tablet daily.", "references": [REFERENCE], "model": "m", **answer}
    row = CheckedAnswer("a", "q", "How is it taken?", **given)  # type: ignore[arg-type]
    claims = [Claim(f"a:{at}", "a", at, at, at + 1, "x", "x") for at in range(len(verdicts))]
    decided = [ClaimVerdict(claim.id, "a", verdict) for claim, verdict in zip(claims, verdicts, strict=True)]
    return score_of(
        row, claims, decided, [], similarity, [], METHOD if weights is None else replace(METHOD, weights=weights)
    )


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
    values = (score.similarity, score.rouge_1, score.bleu_4, score.support, score.fas, score.completeness)
    assert values == (None,) * 6
    assert "fas: failed" in score.unscored and "rouge_l: failed" in score.unscored


def test_flags_are_counted_apart() -> None:
    row = CheckedAnswer("a", "q", "?", "40 mg", "m", references=["40 mg"])
    claim, verdict = Claim("c", "a", 0, 0, 1, "4", "4"), ClaimVerdict("c", "a", "supported")
    flag = SafetyFlag("a", "dose", 0, 5, "40 mg", "", "40 mg", "")
    with_flag, without = (score_of(row, [claim], [verdict], [], 1.0, flags, METHOD) for flags in ([flag, flag], []))
    assert (with_flag.flags, without.flags) == (2, 0)
    assert with_flag.fas == without.fas == 1.0


def test_gold_is_judged_by_the_same_engine() -> None:
    row = CheckedAnswer("a", "q", "?", "40 mg", "m", must_have=["s"])
    pairs = [
        PairVerdict("a", "", "", "must_have", 0, "nli", 0.9, 0.1, 0.0),
        PairVerdict("a", "", "", "must_have", 0, "other", 0.1, 0.9, 0.0),
    ]
    assert score_of(row, [], [], pairs, None, [], METHOD).completeness == 1
    assert score_of(row, [], [], pairs, None, [], replace(METHOD, engine="other")).completeness == 0


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


ANSWER = CheckedAnswer(
    "a", "q", "What helps?", "Take one tablet. It helps.", "m", drug="Exampline",
    must_have=["One tablet is taken", " Milk is avoided. "], nice_to_have=["It helps!"],
)  # fmt: skip
GOLD_CLAIM = Claim("a:1", "a", 1, 17, 26, "It helps.", "Exampline helps.")


def statement(kind: str, entailment: float | None, contradiction: float | None = 0.0) -> PairVerdict:
    told = contradiction if entailment is not None else None
    return PairVerdict(
        "a",
        "",
        "",
        kind,
        0,
        "nli",
        entailment,
        None if told is None or entailment is None else 1 - entailment - told,
        told,
    )


def test_statements_are_held_against_the_answer_and_claims_against_the_statements() -> None:
    asked = statement_pairs(ANSWER, [GOLD_CLAIM], engine="nli")
    assert [(row.kind, row.number, row.claim_id) for row, _ in asked] == [
        ("must_have", 0, ""), ("must_have", 1, ""), ("nice_to_have", 0, ""), ("all_statements", 0, "a:1"),
    ]  # fmt: skip
    assert [(pair.premise, pair.hypothesis) for _, pair in asked] == [
        (ANSWER.answer, "One tablet is taken"),
        (ANSWER.answer, "Milk is avoided."),
        (ANSWER.answer, "It helps!"),
        ("One tablet is taken.\nMilk is avoided.\nIt helps!", "Exampline helps."),
    ]
    assert {(row.answer_id, row.engine, row.rank, pair.drug) for row, pair in asked} == {("a", "nli", 0, "Exampline")}
    assert all(row.entailment is None for row, _ in asked)


def test_nothing_is_asked_where_there_is_nothing_to_hold() -> None:
    for other in (replace(ANSWER, must_have=[]), replace(ANSWER, outcome="failed"), replace(ANSWER, answer=" ")):
        assert statement_pairs(other, [GOLD_CLAIM], engine="nli") == []


def test_completeness_by_hand() -> None:
    """Two of three must-haves are stated; one of two nice-to-haves is contradicted: 2 ÷ (3 + 1)."""
    pairs = [
        statement("must_have", 0.9), statement("must_have", 0.7), statement("must_have", 0.1, 0.8),
        statement("nice_to_have", 0.1, 0.9), statement("nice_to_have", 0.2), statement("all_statements", 0.9),
    ]  # fmt: skip
    assert completeness_of(ANSWER, pairs, METHOD) == pytest.approx(0.5)
    assert completeness_of(ANSWER, [*pairs[:5], statement("must_have", 0.2)], METHOD) == pytest.approx(2 / 5)


def test_statements_that_are_not_decided_do_not_count_as_missing() -> None:
    pairs = [statement("must_have", 0.9), statement("must_have", 0.5), statement("must_have", 0.4, 0.4)]
    assert completeness_of(ANSWER, pairs, METHOD) == 1
    assert completeness_of(ANSWER, pairs, replace(METHOD, least_decided=0.5)) == "few_decided"
    assert completeness_of(ANSWER, pairs[1:], METHOD) == "few_decided"


def test_what_was_not_judged_does_not_count() -> None:
    unjudged = [statement("must_have", None), statement("nice_to_have", None)]
    assert completeness_of(ANSWER, [statement("must_have", 0.9), *unjudged], METHOD) == 1
    assert completeness_of(ANSWER, unjudged, METHOD) is None
    assert completeness_of(replace(ANSWER, must_have=[]), [statement("nice_to_have", 0.9)], METHOD) is None
    assert completeness_of(replace(ANSWER, answer=""), [], METHOD) == 0


def test_the_share_of_claims_that_the_statements_entail() -> None:
    pairs = [statement("all_statements", 0.9), statement("all_statements", 0.1, 0.8), statement("all_statements", None)]
    assert stated_in_references_of([*pairs, statement("must_have", 0.0)], METHOD) == 0.5
    assert stated_in_references_of([statement("must_have", 0.9), pairs[2]], METHOD) is None


def of_fas(pairs: list[PairVerdict], *verdicts: str, coverage: float = 0, decided: float = 0) -> FactualityScore:
    row = CheckedAnswer("a", "q", "?", "40 mg", "m", references=["40 mg"])
    claims = [Claim(f"a:{at}", "a", at, at, at + 1, "x", "x") for at in range(len(verdicts))]
    found = [ClaimVerdict(claim.id, "a", verdict) for claim, verdict in zip(claims, verdicts, strict=True)]
    method = replace(METHOD, least_coverage=coverage, least_decided=decided)
    return score_of(row, claims, found, pairs, 1.0, [], method)


def test_shares_are_of_the_decided_claims_and_fas_needs_enough_of_them() -> None:
    said = ("supported", "undecided", "undecided", "unscored")
    score = of_fas([], *said)
    assert score.decided == pytest.approx(1 / 3)
    assert (score.support, score.undecided_claims, score.fas) == (1, 2, 1)
    few = of_fas([], *said, decided=0.5)
    assert (few.support, few.fas, few.unscored) == (1, None, ["fas: few_decided"])
    none = of_fas([], "undecided")
    assert (none.decided, none.support, "fas: none_decided" in none.unscored) == (0, None, True)


def test_fas_needs_evidence_on_the_drug_of_the_claims() -> None:
    pairs = [PairVerdict("a", "a:0", "e", "evidence", 1, "nli", on_subject=True)]
    pairs += [PairVerdict("a", "a:1", "e", "evidence", 6, "nli", on_subject=True)]
    score = of_fas(pairs, "supported", "supported", "supported", coverage=0.5)
    assert score.coverage == pytest.approx(1 / 3)
    assert (score.fas, score.unscored) == (None, ["fas: low_coverage"])
    assert of_fas(pairs, "supported", "supported", coverage=0.5).fas == 1


KINDS = st.sampled_from(["must_have", "nice_to_have", "all_statements"])
PAIRS = st.lists(st.builds(statement, KINDS, st.none() | st.floats(0, 0.5), st.floats(0, 0.5)), max_size=8)


@given(PAIRS, st.randoms())
def test_within_bounds_and_in_any_order(pairs: list[PairVerdict], dice: object) -> None:
    found = completeness_of(ANSWER, pairs, LOW), stated_in_references_of(pairs, LOW)
    assert all(value in (None, "few_decided") or 0 <= float(value or 0) <= 1 for value in found)
    dice.shuffle(pairs)  # type: ignore[attr-defined]
    assert (completeness_of(ANSWER, pairs, LOW), stated_in_references_of(pairs, LOW)) == found


@given(PAIRS)
def test_a_stated_must_have_raises_completeness_and_a_contradicted_statement_lowers_it(
    pairs: list[PairVerdict],
) -> None:
    def value(*more: PairVerdict) -> float:
        found = completeness_of(ANSWER, [*pairs, *more], LOW)
        assert isinstance(found, float)
        return found

    missing = statement("must_have", 0.0)
    assert value(missing, statement("must_have", 0.9)) > value(missing)
    assert value(missing, statement("nice_to_have", 0.0, 0.9)) <= value(missing)


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


def test_below_the_threshold_a_claim_is_unsupported_only_where_every_passage_is_neutral() -> None:
    assert of(pair(1, 0.7))[0] == "supported"
    assert of(pair(1, 0.1), pair(2, 0.3), pair(3, 0.0)) == ("unsupported", "e2", 0.7, "seen")
    assert of(pair(1, 0.0), pair(2, 0.6), pair(3, 0.69)) == ("undecided", "e3", 0.69, "seen")
    assert of(pair(1, 0.1), pair(2, 0.2, 0.4)) == ("undecided", "e2", 0.4, "seen")


def test_equal_probabilities_support_and_the_better_rank_goes_first() -> None:
    assert of(pair(1, 0.0, 0.9), pair(2, 0.9))[:2] == ("supported", "e2")
    assert of(pair(2, 0.9), pair(1, 0.9))[:2] == ("supported", "e1")


@pytest.mark.parametrize("probabilities", [(1 / 3, 1 / 3), (0.0, 0.0), (0.2, 0.2)])
def test_where_none_decides_the_nearest_of_equal_passages_has_most_words_of_the_claim(
    probabilities: tuple[float, float],
) -> None:
    """Of several sources each has a passage of rank 1, and engines that abstain give all passages the same."""
    pairs = [replace(pair(rank, *probabilities), words=0.15) for rank in (1, 2)]
    pairs.append(replace(pair(1, *probabilities), evidence_id="other", words=0.62))
    assert of(*pairs)[1] == "other" and of(*pairs, pair(3, 0.9))[1] == "e3"


def test_only_the_first_k_passages_count() -> None:
    assert of(pair(1, 0.2), pair(6, 0.99))[0] == "unsupported"
    assert of(pair(1, 0.2), pair(6, 0.99), k=6)[0] == "supported"


def test_other_kinds_are_no_evidence() -> None:
    assert of(pair(0, 0.99, kind="reference"), pair(0, 0.99, kind="all_statements")) == (
        "undecided", "", None, "no_evidence",
    )  # fmt: skip


def test_a_judge_that_fails_is_no_verdict() -> None:
    assert of(pair(1, None), pair(2, None)) == ("unscored", "", None, "timeout")
    assert of(pair(1, None), pair(2, 0.9))[:2] == ("supported", "e2")
    assert of(pair(1, 0.3), pair(2, None, reason="no_json")) == ("unscored", "", None, "no_json")
    assert of(pair(1, None, reason=""))[3] == "not_judged"


def test_verdicts_are_one_engine_s_in_the_order_of_the_claims() -> None:
    claims = [CLAIM, replace(CLAIM, id="a:1")]
    pairs = [pair(1, 0.9), pair(1, 0.0, 0.99, engine="other"), replace(pair(1, 0.1, 0.8), claim_id="a:1")]
    found = verdicts_of(reversed(claims), pairs, METHOD)
    assert [(one.claim_id, one.verdict) for one in found] == [("a:1", "contradicted"), ("a:0", "supported")]
    assert [one.reason for one in verdicts_of(claims, pairs, replace(METHOD, engine="none"))] == ["no_evidence"] * 2


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
    assert (first.verdict in ("unsupported", "undecided")) == (max(max(one) for one in found) < threshold)
    stricter = verdict_of(CLAIM, pairs, threshold + 0.1)
    assert stricter.verdict in (first.verdict, "undecided")


@pytest.mark.parametrize("k", [1, 3])
def test_fewer_passages_are_the_first_ones(k: int) -> None:
    pairs = [pair(1, 0.1), pair(2, 0.0, 0.75), pair(3, 0.8)]
    assert of(*pairs, k=k)[0] == ("unsupported" if k == 1 else "supported")
