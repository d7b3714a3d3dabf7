from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, SCORE_METRICS, ScoreColumns
from fdarx_core.records import Figure, RetrievalScore, Score, to_table
from tests.evaluation.synthetic_scores import retrieval_rows, score_rows, table
from tests.evaluation.whole_tables import figures, retrieval_figures

EXACT = 1e-9
Scorer = Callable[[list[int], list[int]], float]
UNBOUNDED = {"prompt_tokens", "completion_tokens", "cost_per_question", "latency_s"}


def value_of(rows: Sequence[Score], metric: str) -> float:
    """The metric over all rows at once; NaN where it has no meaning."""
    aggregate, columns = SCORE_METRICS[metric], ScoreColumns(table(list(rows)))
    return float(aggregate.combine(columns.components(aggregate)[2].sum(axis=0)))


def by_name(found: Sequence[Figure], group: str) -> dict[str, Figure]:
    return {one.metric: one for one in found if one.keys["group_by"] == "type" and one.keys["group"] == group}


def scikit(score: Scorer, truth: list[int], called: list[int], nothing: float) -> float:
    return float(score(truth, called, zero_division=nothing))  # type: ignore[call-arg]


def row(question: int, **known: object) -> Score:
    about = ("m", "full_label", "", "factual", "factual", "c", "s", False, 9)
    plain = Score("p", f"q{question}", "label", "drug", *about, "", "")
    return replace(plain, **known)  # type: ignore[arg-type]


ROWS = score_rows(15, seed=3)
READ = [one for one in ROWS if one.outcome in ("answered", "refused")]
CITING = [one for one in READ if one.type != "refusal"]


def test_there_are_enough_rows_to_compare_on() -> None:
    assert len(CITING) >= 200
    assert {one.outcome for one in ROWS} == {"answered", "refused", "unparsed", "failed"}


CALLS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(CALLS.filter(lambda calls: any(truth for truth, _ in calls)))
def test_refusals_are_a_binary_classification(calls: list[tuple[bool, bool]]) -> None:
    rows = [
        row(number, type="refusal" if truth else "factual", outcome="refused" if called else "answered")
        for number, (truth, called) in enumerate(calls)
    ]
    truth, called = ([int(call[at]) for call in calls] for at in (0, 1))
    expected = {
        "refusal_precision": scikit(precision_score, truth, called, np.nan),
        "refusal_recall": scikit(recall_score, truth, called, np.nan),
        "refusal_f1": scikit(f1_score, truth, called, 0.0),
        "refusal_accuracy": float(accuracy_score(truth, called)),
    }
    assert {name: value_of(rows, name) for name in expected} == pytest.approx(expected, abs=EXACT, nan_ok=True)


def test_refusals_equal_scikit_learn_on_realistic_rows() -> None:
    truth, called = [int(one.type == "refusal") for one in READ], [int(one.outcome == "refused") for one in READ]
    assert value_of(ROWS, "refusal_precision") == pytest.approx(precision_score(truth, called), abs=EXACT)
    assert value_of(ROWS, "refusal_recall") == pytest.approx(recall_score(truth, called), abs=EXACT)
    assert value_of(ROWS, "refusal_f1") == pytest.approx(f1_score(truth, called), abs=EXACT)
    assert value_of(ROWS, "refusal_accuracy") == pytest.approx(accuracy_score(truth, called), abs=EXACT)


def test_answers_equal_scikit_learn_on_realistic_rows() -> None:
    verdicts = [one.grade for one in CITING if one.grade in ("correct", "incorrect", "not_attempted")]
    attempts = [verdict for verdict in verdicts if verdict != "not_attempted"]
    all_correct = ["correct"] * len(verdicts)
    assert value_of(ROWS, "accuracy") == pytest.approx(accuracy_score(all_correct, verdicts), abs=EXACT)
    given_attempted = accuracy_score(all_correct[: len(attempts)], attempts)
    assert value_of(ROWS, "accuracy_given_attempted") == pytest.approx(given_attempted, abs=EXACT)
    rate = accuracy_score(["not_attempted"] * len(verdicts), verdicts)
    assert value_of(ROWS, "not_attempted_rate") == pytest.approx(rate, abs=EXACT)


def passages(one: Score) -> tuple[list[int], list[int]]:
    """A passage each for hits, wrong citations and missed gold: is it gold, is it cited."""
    cited, hits = (0, 0) if one.outcome == "refused" else (one.cited or 0, one.hits or 0)
    return [1] * hits + [0] * (cited - hits) + [1] * (one.gold - hits), [1] * cited + [0] * (one.gold - hits)


@pytest.mark.parametrize(
    ("name", "score"), [("precision", precision_score), ("recall", recall_score), ("f1", f1_score)]
)
def test_citations_equal_scikit_learn_on_realistic_rows(name: str, score: Scorer) -> None:
    each = [scikit(score, *passages(one), 0.0) for one in CITING]
    assert value_of(ROWS, f"citation_{name}") == pytest.approx(fmean(each), abs=EXACT)
    gold, cited = ([mark for one in CITING for mark in passages(one)[at]] for at in (0, 1))
    assert value_of(ROWS, f"citation_{name}_micro") == pytest.approx(scikit(score, gold, cited, 0.0), abs=EXACT)


def test_citations_under_equivalence_by_hand() -> None:
    rows = [
        row(1, outcome="answered", gold=2, cited=4, hits=1, eq_hits=2, eq_right=3),  # P 3/4, R 1, F1 6/7
        row(2, outcome="answered", gold=1, cited=1, hits=0, eq_hits=0, eq_right=0),  # 0, 0, 0
        row(3, outcome="refused", gold=1, cited=1, hits=1, eq_hits=1, eq_right=1),  # counts as citing nothing
    ]
    expected = {
        "citation_precision_eq": 0.75 / 3,
        "citation_recall_eq": 1 / 3,
        "citation_f1_eq": 6 / 7 / 3,
        "citation_precision_micro_eq": 3 / 5,
        "citation_recall_micro_eq": 2 / 4,
        "citation_f1_micro_eq": 2 * 0.6 * 0.5 / 1.1,
        "citation_recall": 0.5 / 3,
    }
    assert {name: value_of(rows, name) for name in expected} == pytest.approx(expected, abs=EXACT)


def test_means_and_shares_of_usage() -> None:
    replied = [one for one in ROWS if one.outcome != "failed"]
    expected = {
        "bleu": fmean(one.bleu for one in ROWS if one.bleu is not None),
        "meteor": fmean(one.meteor for one in ROWS if one.meteor is not None),
        "rouge_l": fmean(one.rouge_l for one in ROWS if one.rouge_l is not None),
        "prompt_tokens": fmean(one.prompt_tokens for one in replied),
        "completion_tokens": fmean(one.completion_tokens for one in replied),
        "prefix_cache_hit_rate": sum(one.cached_tokens for one in ROWS) / sum(one.prompt_tokens for one in ROWS),
        "cost_per_question": fmean(one.cost for one in ROWS if one.cost is not None),
        "latency_s": fmean(one.latency_s for one in replied),
        "unparsed_rate": sum(one.outcome == "unparsed" for one in ROWS) / len(ROWS),
        "failed_rate": sum(one.outcome == "failed" for one in ROWS) / len(ROWS),
    }
    assert {name: value_of(ROWS, name) for name in expected} == pytest.approx(expected, abs=EXACT)


def test_retrieval_is_the_mean_of_every_number_of_the_row() -> None:
    rows = retrieval_rows(15)
    found = by_name(retrieval_figures(to_table(rows, RetrievalScore), seed=0, resamples=10), "answerable")
    assert len(rows) >= 200
    assert len(RETRIEVAL_METRICS) == 14
    for name in RETRIEVAL_METRICS:
        assert found[name].value == pytest.approx(fmean(getattr(one, name) for one in rows), abs=EXACT)


def test_what_has_no_verdict_is_counted_apart() -> None:
    grades = ["correct", "incorrect", "not_attempted", "unscored"]
    rows = [row(number, outcome="answered", grade=grade) for number, grade in enumerate(grades)]
    rows += [row(4, outcome="unparsed"), row(5, outcome="failed"), row(6, outcome="refused", grade="not_attempted")]
    found = by_name(figures(table(rows), seed=0, resamples=10), "factual")
    accuracy, given, refusals = (found[n] for n in ("accuracy", "accuracy_given_attempted", "false_refusal_rate"))
    assert (accuracy.value, accuracy.rows, accuracy.unscored) == (1 / 4, 4, 3)
    assert (given.value, given.rows, given.unscored) == (1 / 2, 2, 3)
    assert (refusals.value, refusals.rows, refusals.unscored) == (1 / 5, 5, 2)
    assert (found["unparsed_rate"].value, found["failed_rate"].value) == (1 / 7, 1 / 7)


def test_a_model_that_never_refuses_hallucinates_always_and_has_no_precision() -> None:
    rows = [row(1, outcome="answered", grade="correct"), row(2, type="refusal", outcome="answered", grade="incorrect")]
    found = figures(table(rows), seed=0, resamples=10)
    assert by_name(found, "all")["refusal_precision"].value is None
    assert by_name(found, "all")["refusal_f1"].value == 0
    assert by_name(found, "refusal")["hallucination_rate"].value == 1


def test_hallucinations_are_wrong_answers_among_the_graded_ones() -> None:
    """Refusals and answers that attempt nothing are graded and not wrong; what has no verdict is not counted."""
    answerable = [("answered", "correct"), ("answered", "incorrect"), ("refused", "not_attempted")]
    answerable += [("answered", "not_attempted"), ("answered", "unscored"), ("unparsed", "unscored")]
    rows = [row(at, outcome=outcome, grade=grade) for at, (outcome, grade) in enumerate(answerable)]
    refusals = [("answered", "incorrect"), ("refused", "not_attempted"), ("failed", "unscored")]
    rows += [row(at, type="refusal", outcome=o, grade=g) for at, (o, g) in enumerate(refusals, len(rows))]
    found = figures(table(rows), seed=0, resamples=10)
    rates = {group: by_name(found, group)["hallucination_rate"] for group in ("answerable", "refusal", "all")}
    assert {group: (one.value, one.rows, one.unscored) for group, one in rates.items()} == {
        "answerable": (1 / 4, 4, 2),
        "refusal": (1 / 2, 2, 1),
        "all": (2 / 6, 6, 3),
    }


def test_a_cell_has_no_metrics_of_what_it_was_not_asked() -> None:
    found = {one.metric for one in figures(table(score_rows(4, setting="closed_book")), seed=0, resamples=10)}
    assert {"accuracy", "false_refusal_rate", "bleu", "latency_s"} <= found
    assert not [name for name in found if name.startswith(("citation_", "refusal_", "bert"))]


def test_a_cell_that_failed_throughout_says_so() -> None:
    found = by_name(figures(table([row(n, outcome="failed") for n in range(3)]), seed=0, resamples=10), "answerable")
    assert (found["accuracy"].value, found["accuracy"].rows, found["accuracy"].unscored) == (None, 0, 3)
    assert found["failed_rate"].value == 1


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_shares_lie_between_0_and_1(seed: int, labels: int) -> None:
    for one in figures(table(score_rows(labels, seed=seed)), seed=0, resamples=20):
        if one.metric not in UNBOUNDED:
            assert all(0 <= bound <= 1 for bound in (one.value, one.low, one.high) if bound is not None)
        assert one.low is None or one.high is None or one.low <= one.high


@given(st.randoms(use_true_random=False), st.integers(0, 100))
def test_the_order_of_rows_does_not_matter(dice: object, seed: int) -> None:
    rows = score_rows(5, seed=seed)
    mixed = list(rows)
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    assert figures(table(mixed), seed=0, resamples=50) == figures(table(rows), seed=0, resamples=50)


@given(st.permutations(range(6)), st.integers(0, 100))
def test_what_labels_are_called_does_not_matter(names: list[int], seed: int) -> None:
    rows = score_rows(6, seed=seed)
    renamed = [replace(one, set_id=f"other-{names[int(one.set_id[-3:])]}") for one in rows]
    before, after = (figures(table(some), seed=0, resamples=20) for some in (rows, renamed))
    assert [one.value for one in after] == pytest.approx([one.value for one in before], abs=EXACT)
    assert [(one.rows, one.clusters, one.unscored) for one in after] == [
        (one.rows, one.clusters, one.unscored) for one in before
    ]


def test_every_row_twice_changes_nothing_but_the_counts() -> None:
    rows = [one for one in score_rows(8, seed=5) if one.section != "Overdosage"]  # too few of these stand together
    once, twice = (figures(table(some), seed=0, resamples=50) for some in (rows, rows + rows))
    for name in ("value", "low", "high"):
        assert [getattr(one, name) for one in twice] == pytest.approx([getattr(one, name) for one in once], abs=EXACT)
    assert [one.rows for one in twice] == [2 * one.rows for one in once]
    assert [one.clusters for one in twice] == [one.clusters for one in once]


def test_rows_of_two_cells_are_refused() -> None:
    both = pa.concat_tables([table(score_rows(1, model=name)) for name in ("a", "b")])
    with pytest.raises(ValueError, match="rows of 2 cells"):
        figures(both, seed=0)


def test_no_rows_give_no_figures() -> None:
    assert figures(table([]), seed=0) == []
