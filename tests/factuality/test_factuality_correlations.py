"""Metrics against gold, ablations and thresholds, from stored pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from fdarx_core.factuality.correlations import FULL, NO_RETRIEVAL, SINGLE, AblationScores, configurations, correlations
from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.scores import score_of, verdicts_of
from fdarx_core.records import Difference, FactualityScore, Figure, PairVerdict, to_table
from tests.factuality.made_rows import ENGINE, METHOD, OTHER, MadeRows

Found = tuple[list[Figure], list[Difference]]


@pytest.fixture(scope="module")
def made() -> MadeRows:
    return MadeRows(questions=40)


@pytest.fixture(scope="module")
def found(made: MadeRows) -> Found:
    return correlations(made.rows, seed=1, resamples=300)


def only(found: Sequence[Figure], **wanted: object) -> Figure:
    defaults = {"metric": METHOD.fas, "against": "completeness", "configuration": FULL, "threshold": "0.7"}
    defaults |= dict.fromkeys(("dataset", "type", "model"), "all")
    (one,) = [each for each in found if {**each.keys, "metric": each.metric} == defaults | wanted]
    return one


def scored_again(
    made: MadeRows, *, engine: str = ENGINE, kind: str = "evidence", threshold: float = 0.7, k: int = 5
) -> list[FactualityScore]:
    """Answer by answer, through the functions that a run scores them with."""
    pairs = [replace(one, kind="evidence", rank=max(1, one.rank)) for one in made.pairs if one.kind == kind]
    found = []
    method = replace(METHOD, engine=engine, threshold=threshold, k=k)
    for answer, old in zip(made.answers, made.scores, strict=True):
        claims = [one for one in made.claims if one.answer_id == answer.id]
        mine = [one for one in pairs if one.answer_id == answer.id]
        verdicts = verdicts_of(claims, pairs, method)
        found.append(score_of(answer, claims, verdicts, mine, old.similarity, [], method))
    return found


VARIANTS = {FULL: {}, SINGLE: {"k": 1}, NO_RETRIEVAL: {"kind": "reference"}, OTHER: {"engine": OTHER}}


@pytest.mark.parametrize("name", VARIANTS)
def test_pairs_read_again_give_what_scoring_again_gives(made: MadeRows, name: str) -> None:
    wanted = configurations(made.rows)
    assert list(wanted) == [FULL, NO_RETRIEVAL, OTHER, SINGLE]
    reading = AblationScores(made.rows, wanted[name])
    for threshold in (0.5, 0.7, 0.9):
        expected = scored_again(made, threshold=threshold, **VARIANTS[name])  # type: ignore[arg-type]
        values = [np.nan if one.fas is None else one.fas for one in expected]
        assert reading.fas(threshold) == pytest.approx(values, nan_ok=True)
        shares = [[np.nan if v is None else v for v in (one.support, one.contra, one.decided)] for one in expected]
        assert np.column_stack(reading.shares(threshold)) == pytest.approx(np.array(shares), nan_ok=True)


def test_the_whole_is_what_the_scores_say(made: MadeRows) -> None:
    whole = configurations(made.rows)[FULL]
    values = [np.nan if one.fas is None else one.fas for one in made.scores]
    assert AblationScores(made.rows, whole).fas(0.7) == pytest.approx(values, nan_ok=True)


def test_pairs_may_lie_in_many_pieces(made: MadeRows) -> None:
    whole = made.rows.pairs
    pieces = pa.concat_tables([whole.slice(start, 37) for start in range(0, len(whole), 37)])
    assert pieces["claim_id"].num_chunks > 5
    for one in configurations(made.rows).values():
        again = AblationScores(replace(made.rows, pairs=pieces), one).fas(0.7)
        assert np.array_equal(again, AblationScores(made.rows, one).fas(0.7), equal_nan=True)


def test_configurations_that_nobody_judged_are_left_out(made: MadeRows) -> None:
    kept = [one for one in made.pairs if one.kind != "reference" and one.engine == ENGINE]
    found = configurations(replace(made.rows, pairs=to_table(kept, PairVerdict)))
    assert list(found) == [FULL, SINGLE]
    bare = FactualityRows(made.scores)
    assert list(configurations(bare)) == [FULL]


@pytest.mark.parametrize(
    ("field", "metric"), [("fas", METHOD.fas), ("support", "support@5"), ("rouge_l", "rouge_l"), ("bleu_4", "bleu_4")]
)
@pytest.mark.parametrize("group", [{}, {"dataset": "alpha"}, {"type": "summary"}, {"model": "poor"}])
@pytest.mark.parametrize("gold", ["completeness", "stated_in_references"])
def test_a_correlation_is_scipy_s(
    made: MadeRows, found: Found, field: str, metric: str, group: dict[str, str], gold: str
) -> None:
    rows = [
        (getattr(one, field), getattr(one, gold))
        for one in made.scores
        if all(getattr(one, name) == value for name, value in group.items())
    ]
    told = np.array([row for row in rows if None not in row], dtype=np.float64)
    one = only(found[0], metric=metric, against=gold, **group)
    assert one.value == pytest.approx(spearmanr(*told.T).statistic)
    assert one.rows == len(told)
    assert one.low is not None and one.high is not None and one.value is not None and one.low <= one.value <= one.high


def test_an_ablation_is_compared_on_the_answers_of_both(made: MadeRows, found: Found) -> None:
    gold = np.array([np.nan if one.completeness is None else one.completeness for one in made.scores])
    readings = {name: AblationScores(made.rows, one).fas(0.7) for name, one in configurations(made.rows).items()}
    for name in (SINGLE, NO_RETRIEVAL, OTHER):
        both = ~np.isnan(gold) & ~np.isnan(readings[name]) & ~np.isnan(readings[FULL])
        delta = np.subtract(*(spearmanr(readings[one][both], gold[both]).statistic for one in (name, FULL)))
        (change,) = [
            each
            for each in found[1]
            if (each.first.get("configuration"), each.keys["against"], each.keys["dataset"])
            == (name, "completeness", "all")
        ]
        assert change.value == pytest.approx(delta)
        assert (change.rows, change.second["configuration"], change.metric) == (both.sum(), FULL, "spearman")
        assert change.low is not None and change.value is not None and change.high is not None
        assert change.low <= change.value <= change.high


def test_fas_is_compared_with_other_metrics_on_the_answers_of_both(made: MadeRows, found: Found) -> None:
    fas, overlap, gold = (
        np.array([np.nan if getattr(one, name) is None else getattr(one, name) for one in made.scores])
        for name in ("fas", "rouge_l", "completeness")
    )
    both = ~np.isnan(fas) & ~np.isnan(gold)
    assert 0 < both.sum() < len(both)
    delta = np.subtract(*(spearmanr(values[both], gold[both]).statistic for values in (fas, overlap)))
    compared = [
        one
        for one in found[1]
        if "metric" in one.first and (one.keys["against"], one.keys["dataset"]) == ("completeness", "all")
    ]
    (change,) = [one for one in compared if one.second["metric"] == "rouge_l"]
    assert (change.first["metric"], change.rows) == (METHOD.fas, both.sum())
    assert change.value == pytest.approx(delta)
    assert {one.second["metric"] for one in compared} == {
        "support@5", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4",
    }  # fmt: skip


def test_every_threshold_of_the_paper_is_there(made: MadeRows, found: Found) -> None:
    kept = [
        one
        for one in found[0]
        if (one.metric, one.keys["configuration"], one.keys["against"]) == (METHOD.fas, FULL, "completeness")
    ]
    assert {float(one.keys["threshold"]) for one in kept if one.keys["dataset"] == "alpha"} == {
        0.5, 0.6, 0.7, 0.8, 0.9,
    }  # fmt: skip
    gold = np.array([np.nan if one.completeness is None else one.completeness for one in made.scores])
    fas = AblationScores(made.rows, configurations(made.rows)[FULL]).fas(0.5)
    both = ~np.isnan(gold) & ~np.isnan(fas)
    assert only(found[0], threshold="0.5").value == pytest.approx(spearmanr(fas[both], gold[both]).statistic)
    assert {one.first["threshold"] for one in found[1] if "threshold" in one.first} == {"0.5", "0.6", "0.8", "0.9"}


def test_configurations_are_for_all_answers_and_by_dataset(found: Found) -> None:
    kept = {
        tuple(one.keys[name] for name in ("dataset", "type", "model"))
        for one in found[0]
        if one.keys["configuration"] == SINGLE
    }
    assert kept == {("all", "all", "all"), ("alpha", "all", "all"), ("beta", "all", "all")}


def test_without_gold_there_are_no_correlations(made: MadeRows) -> None:
    scores = [replace(one, completeness=None, stated_in_references=None) for one in made.scores]
    assert correlations(replace(made.rows, scores=scores), seed=0, resamples=20) == ([], [])
    assert correlations(FactualityRows([]), seed=0, resamples=20) == ([], [])


@settings(max_examples=5)
@given(st.integers(0, 10_000))
def test_any_answers_have_bounded_correlations(seed: int) -> None:
    made = MadeRows(questions=5, seed=seed)
    for one in correlations(made.rows, seed=seed, resamples=10)[0]:
        assert all(value is None or -1 - 1e-9 <= value <= 1 + 1e-9 for value in (one.value, one.low, one.high))
