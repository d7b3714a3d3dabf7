from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, permutation_test

from fdarx_core.evaluation.bootstrap import holm
from fdarx_core.evaluation.figures import CellKey, compared_metrics
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import Difference, RetrievalScore, Score, to_table
from tests.evaluation.synthetic_scores import retrieval_rows, score_rows, table
from tests.evaluation.whole_tables import compare_retrievers, comparisons, figures

ROWS = score_rows(9, seed=7, model="a")


def better(rows: Sequence[Score], share: float, seed: int, model: str = "b") -> list[Score]:
    """The same questions to another model, which gets `share` of the wrong answers right."""
    dice = np.random.default_rng(seed)
    return [
        replace(one, model=model, grade="correct" if one.grade == "incorrect" and dice.random() < share else one.grade)
        for one in rows
    ]


def cells(*tables: Sequence[Score]) -> dict[CellKey, pa.Table]:
    return {CellKey(rows[0].model, rows[0].setting, rows[0].retriever): table(list(rows)) for rows in tables}


def only(found: Sequence[Difference], metric: str, group: str) -> Difference:
    (one,) = [each for each in found if (each.metric, each.keys["group"]) == (metric, group)]
    return one


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5, 0.01]) == pytest.approx([1.0, 1.0, 0.03])
    assert holm([0.02, 0.02]) == pytest.approx([0.04, 0.04])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_doing_nothing_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, corrected in zip(p_values, adjusted, strict=True):
        assert p <= corrected <= min(1, len(p_values) * p)
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()
    assert all(a <= b + 1e-12 for a, b in zip(false_discovery_control(p_values), adjusted, strict=True))


def test_a_cell_against_its_own_copy() -> None:
    found = comparisons(cells(ROWS, better(ROWS, 0, 0)), seed=0, resamples=100, flips=200)
    asked = {one.category for one in ROWS}
    compared = {(metric, group) for metric, group in compared_metrics() if group not in TOPICS or group in asked}
    compared.remove(("supported_rate", "all"))  # of answers that are judged by their context
    assert {(one.metric, one.keys["group"]) for one in found} == compared
    assert {(one.value, one.low, one.high, one.p, one.p_holm) for one in found} == {(0, 0, 0, 1, 1)}


def test_the_difference_is_that_of_the_figures() -> None:
    other = better(ROWS, 0.4, 1)
    found = comparisons(cells(ROWS, other), seed=0, resamples=200, flips=200)
    one = only(found, "accuracy", "answerable")
    a, b = (
        next(
            f
            for f in figures(table(rows), seed=0, resamples=10)
            if (f.metric, f.keys["group"]) == ("accuracy", "answerable")
        )
        for rows in (ROWS, other)
    )
    assert a.value is not None
    assert b.value is not None
    assert one.value == pytest.approx(a.value - b.value)
    assert (one.rows, one.clusters) == (a.rows, a.clusters)
    assert one.low is not None and one.value is not None and one.high is not None and one.p is not None
    assert one.low <= one.value <= one.high < 0
    assert one.p < 0.05


def test_the_p_value_is_that_of_all_permutations() -> None:
    """9 labels can be swapped in 512 ways, which scipy goes through one by one."""
    other = better(ROWS, 0.1, 3)
    one = only(comparisons(cells(ROWS, other), seed=0, flips=20_000), "accuracy", "answerable")
    labels = sorted({row.set_id for row in ROWS})
    graded = [n for n, row in enumerate(ROWS) if row.type != "refusal" and row.grade not in ("", "unscored")]
    sums = [
        np.array([sum(rows[n].grade == "correct" for n in graded if rows[n].set_id == label) for label in labels])
        for rows in (ROWS, other)
    ]
    exact = permutation_test(
        sums, lambda a, b, axis: (a - b).sum(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert 0.003 < exact.pvalue < 0.9
    assert one.p == pytest.approx(exact.pvalue, abs=0.015)


def test_without_a_difference_few_comparisons_find_one() -> None:
    """Two models of equal quality on each label: p is below 0.1 in about 5 of 50 benchmarks."""
    small, rows = 0, score_rows(10, seed=1, model="a")
    for number in range(50):
        dice = np.random.default_rng(number)
        swap = {name: dice.random() < 0.5 for name in sorted({row.set_id for row in rows})}
        other = better(rows, 0.15, number)
        mine = [theirs if swap[row.set_id] else row for row, theirs in zip(rows, other, strict=True)]
        rest = [row if swap[row.set_id] else theirs for row, theirs in zip(rows, other, strict=True)]
        pair = {CellKey("a", "s", ""): table(mine), CellKey("b", "s", ""): table(rest)}
        [found] = comparisons(pair, [("accuracy", "answerable")], seed=number, resamples=10, flips=300)
        small += found.p is not None and found.p < 0.1
    assert 1 <= small <= 11


def test_the_other_way_round() -> None:
    there, back = (
        comparisons(cells(*pair), seed=0, resamples=300, flips=2000)
        for pair in ((ROWS, better(ROWS, 0.2, 5)), (better(ROWS, 0.2, 5), ROWS))
    )
    for one, other in zip(there, back, strict=True):
        assert [one.value, one.low, one.high] == pytest.approx(
            [-(other.value or 0), -(other.high or 0), -(other.low or 0)]
        )
        assert one.p == pytest.approx(other.p)


def test_only_questions_that_both_have_and_that_could_be_measured_in_both_count() -> None:
    other = better(ROWS, 0.3, 2)[40:]
    lost = next(n for n, one in enumerate(other) if one.type != "refusal" and one.grade == "incorrect")
    other[lost] = replace(other[lost], grade="unscored")
    common = [n for n, one in enumerate(other) if one.type != "refusal" and one.grade not in ("", "unscored")]
    right = [sum(rows[n].grade == "correct" for n in common) for rows in (ROWS[40:], other)]
    one = only(comparisons(cells(ROWS, other), seed=0, resamples=50, flips=50), "accuracy", "answerable")
    assert one.rows == len(common)
    assert one.value == pytest.approx((right[0] - right[1]) / len(common))


def test_the_order_of_rows_does_not_matter() -> None:
    other = better(ROWS, 0.3, 2)
    straight, reverse = (
        comparisons(cells(ROWS, rows), seed=0, resamples=50, flips=50) for rows in (other, other[::-1])
    )
    assert straight == reverse


def test_pairs_share_a_setting_or_a_model_and_are_corrected_by_metric_and_group() -> None:
    closed = [replace(one, setting="closed_book") for one in score_rows(9, seed=7, setting="closed_book", model="a")]
    found = comparisons(
        cells(ROWS, closed, better(ROWS, 0.3, 2), better(ROWS, 0.02, 3, "c")), seed=0, resamples=50, flips=500
    )
    pairs = {(one.first["model"], one.first["setting"], one.second["model"], one.second["setting"]) for one in found}
    assert pairs == {
        ("a", "full_label", "a", "closed_book"),
        ("a", "full_label", "b", "full_label"),
        ("a", "full_label", "c", "full_label"),
        ("b", "full_label", "c", "full_label"),
    }
    family = [one for one in found if (one.metric, one.keys["group"]) == ("accuracy", "factual")]
    for same in (True, False):  # settings of a model, and models
        part = [one for one in family if (one.first["model"] == one.second["model"]) == same]
        assert part and [one.p_holm for one in part] == holm([one.p or 0 for one in part])
    assert not [
        one for one in found if one.second["setting"] == "closed_book" and one.metric.startswith(("cit", "refusal"))
    ]


def test_one_label_in_common_is_no_comparison() -> None:
    alone = [one for one in better(ROWS, 0.3, 2) if one.set_id == "label-000"]
    assert comparisons(cells(ROWS, alone), seed=0) == []


def test_a_question_twice_in_a_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 2 times in a cell"):
        comparisons(cells(ROWS, [*better(ROWS, 0, 0), replace(ROWS[0], model="b")]), seed=0)


def test_retrievers_against_each_other() -> None:
    tables = {
        name: to_table(retrieval_rows(8, seed=seed, retriever=name), RetrievalScore)
        for seed, name in enumerate(("bm25", "minilm", "hybrid"))
    }
    found = compare_retrievers(tables, seed=0, resamples=50, flips=100)
    pairs = {(one.first["retriever"], one.second["retriever"]) for one in found}
    assert pairs == {("bm25", "minilm"), ("bm25", "hybrid"), ("minilm", "hybrid")}
    one = next(
        one
        for one in found
        if (one.metric, one.keys["group"], one.second["retriever"]) == ("mrr", "answerable", "minilm")
    )
    mean = [np.mean(tables[name]["mrr"].to_numpy()) for name in ("bm25", "minilm")]
    assert one.value == pytest.approx(mean[0] - mean[1])


def test_the_correction_counts_only_what_is_wanted() -> None:
    given = cells(ROWS, better(ROWS, 0.02, 2), better(ROWS, 0.3, 3, "c"))
    everything = comparisons(given, seed=0, resamples=50, flips=500)
    two = comparisons(
        given, seed=0, resamples=50, flips=500, wanted=lambda one, other: "c" not in (one.model, other.model)
    )
    assert 0 < len(two) < len(everything)
    assert all(one.p_holm == one.p for one in two)
