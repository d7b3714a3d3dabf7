"""Figures of a review: a case computed by hand, made-up annotators against scikit-learn, and what is left out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, precision_recall_fscore_support

from fdarx_core.records import Figure
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review import agreement_metrics
from fdarx_core.review.agreement import Agreement, measure_agreement
from fdarx_core.review.agreement_metrics import collect_votes, consensus, unanimous
from fdarx_core.review.tasks import REVIEW_TASKS
from tests.review.synthetic_reviews import PEOPLE, item, simulated, votes

BY_HAND = (
    ("+", "+", "+", "+"),
    ("+", "+", "+", "+"),
    ("+", "+", "-", "+"),
    ("+", "-", "+", "-"),
    ("-", "-", "-", "-"),
    ("-", "-", "-", "+"),
    ("-", "+", "-", "-"),
    ("-", "-", "+", "-"),
    ("+", "-", "", "+"),
    ("+", "+", "+", ""),
)
"""Anna, Ben, Cleo, the judge: items 3, 4, 7 and 8 are split, 9 is a tie, the judge left 10 open."""
SIGNS = {"+": "correct", "-": "incorrect", "": ""}


def by_hand() -> tuple[list[ReviewItem], list[Annotation]]:
    items, given_votes = [], []
    for at, (*people, judge) in enumerate(BY_HAND, 1):
        one = item(str(at), decision=SIGNS[judge])
        items.append(one)
        given_votes += votes(one, {name: SIGNS[sign] for name, sign in zip(PEOPLE, people, strict=True)})
    return items, given_votes


def of(found: Agreement, between: str, metric: str, **where: str) -> Figure:
    wanted = {"type": "all", "between": between, "metric": metric, **where}
    (one,) = [figure for figure in found.figures if {**figure.keys, "metric": figure.metric}.items() >= wanted.items()]
    return one


@pytest.mark.parametrize(
    ("between", "who", "expected"),
    [
        ("consensus", "", {"accuracy": 6 / 8, "precision": 3 / 4, "recall": 3 / 4, "f1": 3 / 4, "kappa": 1 / 2}),
        ("unanimous", "", {"accuracy": 3 / 4, "precision": 2 / 3, "recall": 1, "f1": 4 / 5, "kappa": 1 / 2}),
        ("annotator", "anna", {"accuracy": 7 / 9, "precision": 4 / 5, "recall": 4 / 5, "f1": 4 / 5}),
        ("annotator", "ben", {"accuracy": 6 / 9, "precision": 3 / 5, "recall": 3 / 4, "f1": 2 / 3}),
        ("annotator", "cleo", {"accuracy": 4 / 8, "precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2, "kappa": 0}),
        ("pair", "anna, ben", {"accuracy": 7 / 10, "f1": 8 / 11, "kappa": 2 / 5}),
        ("pair", "anna, cleo", {"accuracy": 7 / 9, "f1": 8 / 10}),
        ("pair", "ben, cleo", {"accuracy": 5 / 9, "f1": 6 / 10}),
        ("annotators", "anna, ben, cleo", {"alpha": 17 / 52}),
    ],
)
def test_ten_items_by_hand(between: str, who: str, expected: Mapping[str, float]) -> None:
    found = measure_agreement(*by_hand())
    for metric, value in expected.items():
        assert of(found, between, metric, who=who).value == pytest.approx(value), metric


def test_ten_items_are_accounted_for() -> None:
    found = measure_agreement(*by_hand())
    (tally,) = found.tallies
    assert (tally.items, tally.judged, tally.undecided, tally.ties) == (10, 10, 1, ["9"])
    assert tally.votes == {"anna": 10, "ben": 10, "cleo": 9}
    together = of(found, "consensus", "accuracy")
    assert (together.rows, together.clusters, together.unscored) == (8, 8, 1)
    (confusion,) = found.confusions
    assert confusion.rows == ["correct", "incorrect", "tie"]
    assert confusion.columns == ["correct", "incorrect", "no decision"]
    assert confusion.cells == [[["1", "2", "3"], ["4"], ["10"]], [["6"], ["5", "7", "8"], []], [["9"], [], []]]


def pairs_of(one: Sequence[str], other: Sequence[str]) -> tuple[list[str], list[str]]:
    both = [(a, b) for a, b in zip(one, other, strict=True) if a and b]
    return [a for a, _ in both], [b for _, b in both]


def check(found: Agreement, between: str, who: str, truth: list[str], said: list[str], positive: str) -> None:
    figure = {metric: of(found, between, metric, who=who, positive=positive) for metric in ("accuracy", "kappa")}
    assert figure["accuracy"].rows == len(truth)
    assert figure["accuracy"].value == pytest.approx(accuracy_score(truth, said))
    assert figure["kappa"].value == pytest.approx(cohen_kappa_score(truth, said))
    if not positive:
        macro = of(found, between, "macro_f1", who=who, positive="").value
        assert macro == pytest.approx(f1_score(truth, said, average="macro"))
        return
    wanted = precision_recall_fscore_support(truth, said, pos_label=positive, average="binary")[:3]
    for metric, value in zip(("precision", "recall", "f1"), wanted, strict=True):
        assert of(found, between, metric, who=who, positive=positive).value == pytest.approx(value), metric


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", sorted(REVIEW_TASKS))
def test_simulated_annotators_as_in_scikit_learn_and_krippendorff(task: str, seed: int) -> None:
    items, given_votes = simulated([task], seed=seed, n=120)
    found = measure_agreement(items, given_votes, resamples=100)
    chosen = {(one.item_id, one.annotator): one.value for one in given_votes}
    positive = REVIEW_TASKS[task].positive
    many = len(REVIEW_TASKS[task].choices) > 2
    for scale in ([positive] if positive else []) + ([""] if many else []):

        def read(value: str, scale: str = scale) -> str:
            return value if not value or not scale or value == scale else "other"

        judge = [read(one.decision) for one in items]
        people = {name: [read(chosen.get((one.id, name), "")) for one in items] for name in PEOPLE}
        together = [[vote for vote in row if vote] for row in zip(*people.values(), strict=True)]
        check(found, "consensus", "", *pairs_of([consensus(row) for row in together], judge), scale)
        check(found, "unanimous", "", *pairs_of([unanimous(row) for row in together], judge), scale)
        for name, said in people.items():
            check(found, "annotator", name, *pairs_of(said, judge), scale)
        for pair in combinations(PEOPLE, 2):
            check(found, "pair", ", ".join(pair), *pairs_of(people[pair[0]], people[pair[1]]), scale)
        names = sorted({vote for said in people.values() for vote in said if vote})
        coded = [[float(names.index(vote)) if vote else math.nan for vote in said] for said in people.values()]
        alpha = krippendorff.alpha(np.array(coded), level_of_measurement="nominal")
        figure = of(found, "annotators", "alpha", positive=scale)
        assert figure.value == pytest.approx(alpha)
        assert figure.rows == sum(len(row) > 1 for row in together)


@given(st.randoms())
@settings(max_examples=5)
def test_the_order_of_items_and_votes_does_not_matter(dice: Random) -> None:
    items, given_votes = simulated(["correctness"], n=8)
    before = measure_agreement(items, given_votes, resamples=100)
    dice.shuffle(items)
    dice.shuffle(given_votes)
    assert measure_agreement(items, given_votes, resamples=100).figures == before.figures


@given(st.lists(st.sampled_from("abc"), max_size=7))
def test_a_consensus_leads_every_other_value(values: list[str]) -> None:
    found = consensus(values)
    if found:
        assert all(values.count(found) > values.count(other) for other in set(values) - {found})
    else:
        counts = sorted((values.count(value) for value in set(values)), reverse=True)
        assert not counts or counts[0] == counts[1]
    assert unanimous(values) in ("", found)


def test_one_vote_is_a_consensus_but_not_unanimous() -> None:
    one = item("only")
    found = measure_agreement([one], votes(one, {"anna": "correct"}))
    assert of(found, "consensus", "accuracy").value == 1
    assert not [figure for figure in found.figures if figure.keys["between"] in ("unanimous", "pair", "annotators")]


def test_levels_are_folded_before_they_are_counted() -> None:
    """Three different levels tie; that the question is not plainly relevant has two votes of three."""
    one = item("split", "relevance", "irrelevant")
    found = measure_agreement([one], votes(one, dict(zip(PEOPLE, REVIEW_TASKS["relevance"].choices, strict=True))))
    assert found.tallies[0].ties == ["split"]
    assert of(found, "consensus", "accuracy", positive="relevant").value == 1
    assert not [
        figure for figure in found.figures if figure.keys["between"] == "consensus" and not figure.keys["positive"]
    ]


def test_a_decision_not_reached_is_never_wrong() -> None:
    items = [item("a"), item("b", decision="")]
    found = measure_agreement(items, [vote for one in items for vote in votes(one, {"anna": "correct"})])
    assert of(found, "consensus", "accuracy").value == 1
    assert of(found, "consensus", "accuracy").unscored == 1


def test_informed_votes_can_be_left_out() -> None:
    one = item("seen")
    given_votes = [*votes(one, {"anna": "correct"}, saw_decision=True), *votes(one, {"ben": "incorrect"})]
    assert of(measure_agreement([one], given_votes, blind=True), "consensus", "accuracy").value == 0
    kept = measure_agreement([one], given_votes)
    assert kept.tallies[0].ties == ["seen"]
    assert (kept.informed, measure_agreement([one], given_votes, blind=True).tallies[0].votes) == (1, {"ben": 1})


def test_weights_stand_for_the_items_that_were_not_drawn() -> None:
    items = [item("rare", fraction=1.0), item("common", decision="incorrect", fraction=0.1)]
    given_votes = [vote for one in items for vote in votes(one, {"anna": "correct"})]
    assert of(measure_agreement(items, given_votes), "consensus", "accuracy").value == 1 / 2
    assert of(measure_agreement(items, given_votes, weighted=True), "consensus", "accuracy").value == pytest.approx(
        1 / 11
    )


def test_intervals_draw_labels_with_all_their_items() -> None:
    """40 items that are 20 times the same two labels: as uncertain as two items, not as 40."""
    items = [item(str(at), set_id=f"label-{at % 2}", decision=SIGNS["+-"[at % 2]]) for at in range(40)]
    found = measure_agreement(items, [vote for one in items for vote in votes(one, {"anna": "correct"})])
    share = of(found, "consensus", "accuracy")
    assert (share.value, share.low, share.high, share.clusters) == (1 / 2, 0, 1, 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("names", ["a", "abcdefg"])
def test_no_interval_on_one_label_or_where_nobody_differs(names: str, weighted: bool) -> None:
    items = [item(name, fraction=1 / at) for at, name in enumerate(names, 1)]
    given_votes = [vote for one in items for vote in votes(one, {"anna": "correct"})]
    share = of(measure_agreement(items, given_votes, weighted=weighted), "consensus", "accuracy")
    assert (share.value, share.low, share.high) == (1, None, None)


def test_judges_and_types_stand_apart() -> None:
    items = [item("a", judge="one", type="factual"), item("b", judge="two", type="multihop", decision="incorrect")]
    found = measure_agreement(items, [vote for one in items for vote in votes(one, {"anna": "correct"})])
    values = {
        (figure.keys["judge"], figure.keys["type"]): figure.value
        for figure in found.figures
        if (figure.keys["between"], figure.metric) == ("consensus", "accuracy")
    }
    assert values == {
        ("one", "factual"): 1, ("one", "all"): 1, ("two", "multihop"): 0, ("two", "all"): 0,
        ("all", "factual"): 1, ("all", "multihop"): 0, ("all", "all"): 1 / 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (votes(item("stranger"), {"anna": "correct"}), "on no item of this review"),
        (votes(item("a"), {"anna": "perhaps"}), "it may be correct, incorrect"),
    ],
)
def test_votes_that_can_not_be(wrong: list[Annotation], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        collect_votes([item("a")], wrong)


Ratings = list[tuple[int, int, float]]


def ratings(values: int) -> st.SearchStrategy[Ratings]:
    """Two raters' codes and a weight, an item each."""
    code = st.integers(0, values - 1)
    return st.lists(st.tuples(code, code, st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=40)


def table(rows: Ratings, values: int) -> NDArray[np.float64]:
    found = np.zeros((values, values))
    for first, second, weight in rows:
        found[first, second] += weight
    return found


def same(mine: object, theirs: float) -> bool:
    value = float(mine)  # type: ignore[arg-type]
    return (math.isnan(value) and math.isnan(theirs)) or value == pytest.approx(theirs, abs=1e-9)


@given(ratings(2))
def test_two_values_as_in_scikit_learn(rows: Ratings) -> None:
    truth, said, weights = (np.array(column) for column in zip(*rows, strict=True))
    found = table(rows, 2)
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, said, pos_label=0, average="binary", sample_weight=weights, zero_division=np.nan
    )
    assert same(agreement_metrics.accuracy(found), accuracy_score(truth, said, sample_weight=weights))
    assert same(agreement_metrics.precision(found), precision)
    assert same(agreement_metrics.recall(found), recall)
    assert same(agreement_metrics.f1(found), f1)


@given(st.integers(2, 5).flatmap(lambda values: st.tuples(st.just(values), ratings(values))))
def test_many_values_as_in_scikit_learn(drawn: tuple[int, Ratings]) -> None:
    values, rows = drawn
    truth, said, weights = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kappa = cohen_kappa_score(truth, said, labels=list(range(values)), sample_weight=weights)
    found = table(rows, values)
    assert same(agreement_metrics.macro_f1(found), f1_score(truth, said, average="macro", sample_weight=weights))
    assert same(agreement_metrics.kappa(found), kappa)


@st.composite
def panels(draw: st.DrawFn) -> tuple[int, NDArray[np.float64]]:
    """Votes (items, annotators) with gaps."""
    values, people = draw(st.integers(2, 4)), draw(st.integers(2, 5))
    vote = st.one_of(st.none(), st.integers(0, values - 1))
    rows = draw(st.lists(st.lists(vote, min_size=people, max_size=people), min_size=1, max_size=25))
    return values, np.array(rows, dtype=np.float64)


@given(panels())
def test_alpha_as_in_krippendorff(drawn: tuple[int, NDArray[np.float64]]) -> None:
    values, votes = drawn
    mine = float(agreement_metrics.alpha(agreement_metrics.coincidences(votes, values).sum(axis=0)))
    paired = votes[np.count_nonzero(~np.isnan(votes), axis=1) > 1]
    if len(np.unique(paired[~np.isnan(paired)])) < 2:
        assert math.isnan(mine)
        return
    theirs = krippendorff.alpha(votes.T, value_domain=np.arange(values), level_of_measurement="nominal")
    assert mine == pytest.approx(theirs, abs=1e-9)


@given(panels(), st.randoms())
def test_alpha_does_not_know_annotators_or_values_by_name(drawn: tuple[int, NDArray[np.float64]], dice: Random) -> None:
    values, votes = drawn
    before = float(agreement_metrics.alpha(agreement_metrics.coincidences(votes, values).sum(axis=0)))
    assume(not math.isnan(before))
    order = list(range(votes.shape[1]))
    dice.shuffle(order)
    turned = (values - 1) - votes[:, order]
    assert float(agreement_metrics.alpha(agreement_metrics.coincidences(turned, values).sum(axis=0))) == pytest.approx(
        before
    )


def test_many_tables_at_once() -> None:
    tables = np.array([[[3.0, 1.0], [1.0, 3.0]], [[2.0, 0.0], [0.0, 0.0]]])
    assert agreement_metrics.kappa(tables)[0] == pytest.approx(0.5)
    assert math.isnan(agreement_metrics.kappa(tables)[1])
    assert agreement_metrics.f1(tables).tolist() == [0.75, 1.0]
