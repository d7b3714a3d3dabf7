"""Means, intervals and paired differences of a run's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import bootstrap

from fdarx_core.factuality.figures import FactualityRows, differences, figures, overall, too_low
from fdarx_core.records import Difference, FactualityScore, Figure
from tests.factuality.made_rows import METHOD, MadeRows


@pytest.fixture(scope="module")
def made() -> MadeRows:
    return MadeRows()


@pytest.fixture(scope="module")
def found(made: MadeRows) -> list[Figure]:
    return figures(made.rows, seed=3, resamples=500)


def only(found: Sequence[Figure], metric: str, model: str = "good", dataset: str = "all", type: str = "all") -> Figure:
    (one,) = [
        each
        for each in found
        if (each.metric, each.keys["model"], each.keys["dataset"], each.keys["type"]) == (metric, model, dataset, type)
    ]
    return one


def alone(values: Sequence[float | None], model: str = "m", **fields: str) -> list[FactualityScore]:
    """A score each, with a question and a cluster of its own."""
    return [
        FactualityScore(
            f"{model}{at}", f"q{at}", model, fields.get("dataset", ""), fields.get("type", ""), "", f"c{at:04d}",
            "answered", fas=value, unscored=[] if value is not None else ["fas: no_claims"],
        )
        for at, value in enumerate(values)
    ]  # fmt: skip


def test_a_figure_is_the_mean_of_its_group(made: MadeRows, found: list[Figure]) -> None:
    for field, metric in (
        ("support", "support@5"),
        ("contra", "contra@5"),
        ("fas", METHOD.fas),
        ("rouge_l", "rouge_l"),
    ):
        for dataset, kind in (("all", "all"), ("alpha", "all"), ("alpha", "factoid"), ("beta", "all")):
            values = [
                getattr(one, field)
                for one in made.scores
                if one.model == "poor" and dataset in ("all", one.dataset) and kind in ("all", one.type)
            ]
            kept = [value for value in values if value is not None]
            one = only(found, metric, "poor", dataset, kind)
            assert one.value == pytest.approx(np.mean(kept))
            assert (one.rows, one.unscored) == (len(kept), len(values) - len(kept))
            assert one.low is not None and one.high is not None and one.low <= one.value <= one.high  # type: ignore[operator]


def test_claims_flags_and_gold_have_figures(made: MadeRows, found: list[Figure]) -> None:
    good = [one for one in made.scores if one.model == "good"]
    assert only(found, "claims").value == pytest.approx(np.mean([one.claims for one in good]))
    assert only(found, "flag_any").value == only(found, "flag_dose").value
    assert only(found, "flag_any").value == pytest.approx(np.mean([one.flags > 0 for one in good]))
    assert only(found, "flag_interaction").value == 0
    assert only(found, "completeness").value == pytest.approx(
        np.mean([one.completeness for one in good if one.completeness is not None])
    )


def test_without_labels_there_are_no_flags_and_a_name_that_nobody_gave_is_no_group(made: MadeRows) -> None:
    rows = FactualityRows([replace(one, dataset="", type="") for one in made.scores])
    found = figures(rows, seed=0, resamples=20)
    assert not [one for one in found if one.metric.startswith("flag_")]
    assert {(one.keys["dataset"], one.keys["type"]) for one in found} == {("all", "all")}


def test_a_dataset_s_figures_are_the_same_whatever_is_scored_beside_it(made: MadeRows, found: list[Figure]) -> None:
    rows = replace(made.rows, scores=[one for one in made.scores if one.dataset == "beta"])
    by_itself = figures(rows, seed=3, resamples=500)
    assert [one for one in by_itself if one.keys["dataset"] == "beta"] == [
        one for one in found if one.keys["dataset"] == "beta"
    ]


def test_the_order_of_the_answers_does_not_matter(made: MadeRows, found: list[Figure]) -> None:
    assert figures(replace(made.rows, scores=made.scores[::-1]), seed=3, resamples=500) == found


def test_the_interval_is_scipy_s_within_its_own_error() -> None:
    values = np.random.default_rng(1).beta(2, 3, 150)
    one = only(figures(FactualityRows(alone(values.tolist())), seed=7, resamples=10_000), METHOD.fas, "m")
    theirs = bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(2))
    interval = theirs.confidence_interval
    assert [one.low, one.high] == pytest.approx([interval.low, interval.high], abs=theirs.standard_error * 0.08)


def test_what_has_no_value_is_counted_and_what_is_not_measured_has_no_figure() -> None:
    found = figures(FactualityRows(alone([0.5, None, 0.7])), seed=0, resamples=20)
    (one,) = [one for one in found if one.metric != "claims"]
    assert (one.metric, one.rows, one.unscored) == (METHOD.fas, 2, 1)
    assert one.value == pytest.approx(0.6)
    assert figures(FactualityRows([]), seed=0) == []


def test_answers_of_one_cluster_are_no_independent_evidence() -> None:
    apart = alone([0.0, 1.0] * 20)
    together = [replace(one, cluster=f"c{at % 4}") for at, one in enumerate(apart)]
    wide, narrow = (
        only(figures(FactualityRows(rows), seed=1, resamples=500), METHOD.fas, "m") for rows in (together, apart)
    )
    assert (wide.clusters, narrow.clusters) == (4, 40)
    assert wide.high - wide.low > narrow.high - narrow.low  # type: ignore[operator]


def between(found: Sequence[Difference], of: str, metric: str = METHOD.fas, dataset: str = "all") -> Difference:
    (one,) = [
        each for each in found if (each.first, each.metric, each.keys["dataset"]) == ({"model": of}, metric, dataset)
    ]
    return one


def test_models_differ_on_the_questions_of_both() -> None:
    dice = np.random.default_rng(0)
    base = dice.random(60)
    one = alone((base + 0.1).tolist(), "a")[:50]
    other = alone([None if at < 5 else float(value) for at, value in enumerate(base)], "b")
    found = between(differences(FactualityRows([*one, *other]), seed=0, resamples=300), "a")
    assert (found.second, found.rows, found.clusters) == ({"model": "b"}, 90, 45)
    assert [found.value, found.low, found.high] == pytest.approx([0.1, 0.1, 0.1])
    assert found.significant


def test_the_paired_interval_is_that_of_the_differences() -> None:
    dice = np.random.default_rng(4)
    first, second = dice.random(80), dice.random(80)
    rows = FactualityRows([*alone(first.tolist(), "a"), *alone(second.tolist(), "b")])
    found = between(differences(rows, seed=1, resamples=10_000), "a")
    theirs = bootstrap(
        (first - second,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(2)
    )
    interval = theirs.confidence_interval
    assert [found.low, found.high] == pytest.approx([interval.low, interval.high], abs=theirs.standard_error * 0.08)


def test_question_types_differ_within_a_model(made: MadeRows, found: list[Figure]) -> None:
    differ = [one for one in differences(made.rows, seed=3, resamples=200) if "type" in one.first]
    assert {(one.first["type"], one.second["type"]) for one in differ} == {("factoid", "summary")}
    one = next(
        one for one in differ if (one.keys["model"], one.metric, one.keys["dataset"]) == ("good", "support@5", "alpha")
    )
    sides = [only(found, "support@5", "good", "alpha", kind).value for kind in ("factoid", "summary")]
    assert one.value == pytest.approx(sides[0] - sides[1])  # type: ignore[operator]
    assert one.low is not None and one.value is not None and one.high is not None and one.low < one.value < one.high


def test_models_in_different_settings_are_not_compared() -> None:
    one, other = alone([0.1, 0.2], "a"), [replace(row, setting="oracle") for row in alone([0.3, 0.4], "b")]
    assert differences(FactualityRows([*one, *other]), seed=0, resamples=20) == []


def test_the_mean_over_all_answers(made: MadeRows) -> None:
    found = overall(made.rows)
    assert found[METHOD.fas] == pytest.approx(np.mean([one.fas for one in made.scores if one.fas is not None]))
    assert found["flag_any"] == pytest.approx(np.mean([one.flags > 0 for one in made.scores]))
    assert overall(FactualityRows(alone([None])))[METHOD.fas] is None


@pytest.mark.parametrize(("of", "least"), [("least_coverage", 0.99), ("least_decided", 0.9)])
def test_a_group_has_no_fas_below_the_least_coverage_and_share_of_decided_claims(
    made: MadeRows, of: str, least: float
) -> None:
    rows = replace(made.rows, method=replace(METHOD, **{of: least}))  # type: ignore[arg-type]
    found = figures(rows, seed=0, resamples=20)
    name = {"least_coverage": "coverage", "least_decided": "decided"}[of]
    low = only(found, name)
    assert low.value is not None and low.value < least and low in too_low(found, rows.method)
    assert only(found, METHOD.fas).value is None and only(found, "support@5").value is not None
    assert not [one for one in differences(rows, seed=0, resamples=20) if one.metric == METHOD.fas]
    assert overall(rows)[METHOD.fas] is None
