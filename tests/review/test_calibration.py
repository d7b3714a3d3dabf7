"""Calibrated accuracies of an evaluation from what people said of a review, and of further ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.metrics import Codes
from fdarx_core.evaluation.tables import table_text
from fdarx_core.records import Estimate, Figure, Prediction
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.active_sampling import AnswerPool, draw_next, inclusion_probabilities, pareto_sample
from fdarx_core.review.calibration import (
    ALL_CELLS,
    calibrated_tables,
    labeling_rounds,
    read_graded_answers,
    review_history,
)
from fdarx_core.review.items import draw_sample
from fdarx_core.review.prediction_powered import LabelingRound
from fdarx_core.review.review_set import open_review
from fdarx_core.review.sampling import SampleUnit
from fdarx_core.storage import RunDirectory, StorageError, read_records, write_records
from tests.review.synthetic_reviews import PEOPLE, evaluation, fair, hashed, reviewed

EVERYTHING = 10_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return evaluation(tmp_path_factory.mktemp("calibrated") / "run")


def truth(answers: list[SampleUnit]) -> np.ndarray:
    """What `fair` people would say of every answer."""
    rows = [(one.verdict == "correct", hashed("truth", one.id)) for one in answers]
    return np.array([right != (draw < (0.25 if right else 0.1)) for right, draw in rows], dtype=np.float64)


def row(entries: dict[str, list[Estimate | None]], name: str) -> list[Estimate | None]:
    (found,) = [value for key, value in entries.items() if key.rpartition(" (")[0] == name]
    return found


def test_the_judge_s_column_is_the_evaluation_s_own_figure(run: RunDirectory, tmp_path: Path) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 100))
    first = calibrated_tables(review, run)[0]
    own = {
        " · ".join(filter(None, (one.keys[name] for name in ("model", "setting", "retriever")))): one
        for one in read_records(run.file("metrics.parquet"), Figure)
        if (one.metric, one.keys["group_by"], one.keys["group"]) == ("accuracy", "type", "answerable")
        and one.value is not None
    }
    cells = {name.rpartition(" (")[0]: entries[0] for name, entries in first.rows if not name.startswith(ALL_CELLS)}
    assert cells == {name: Estimate(one.value or 0.0, one.low, one.high) for name, one in own.items()}


def test_people_s_labels_bring_the_judge_s_figure_to_the_truth(run: RunDirectory, tmp_path: Path) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 150))
    judge, both, alone, worth = row(dict(calibrated_tables(review, run)[0].rows), ALL_CELLS)
    true = float(truth(read_graded_answers(run, review)).mean())
    assert judge and both and alone and worth
    assert both.low is not None and both.high is not None and both.value is not None
    assert judge.value is not None and worth.value is not None
    assert both.low < true < both.high
    assert abs(both.value - true) < abs(judge.value - true)
    assert worth.value > 1


def test_people_who_agree_with_the_judge_on_all_leave_its_figure(run: RunDirectory, tmp_path: Path) -> None:
    def agreeing(annotator: str, item: ReviewItem) -> str:
        return item.decision or "incorrect"

    review = reviewed(tmp_path / "review", draw_sample(run, 150), agreeing)
    judge, both, _, _ = row(dict(calibrated_tables(review, run)[0].rows), ALL_CELLS)
    assert judge and both
    assert both.value == pytest.approx(judge.value)


def test_cells_with_too_few_labels_are_named(run: RunDirectory, tmp_path: Path) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 30))
    table = calibrated_tables(review, run)[0]
    entries = [row for name, row in table.rows if "(3 of" in name or "(2 of" in name or "(1 of" in name]
    assert entries and all(one[0] and one[1:] == [None, None, None] for one in entries)
    assert any("fewer than 10 annotations" in note for note in table.notes)
    assert f"Labels: by anna, ben, cleo, of review {review.digest}." in table.notes
    assert "–" in table_text(table)


def test_a_review_of_one_setting_is_of_that_setting(run: RunDirectory, tmp_path: Path) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 40, models=["hasty-8b"], settings=["oracle"]))
    names = [name for name, _ in calibrated_tables(review, run)[0].rows]
    assert [name.rpartition(" (")[0] for name in names] == ["hasty-8b · oracle"]


def test_nothing_is_made_of_a_review_that_nobody_annotated(run: RunDirectory, tmp_path: Path) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 40), people=())
    assert calibrated_tables(review, run) == []


def test_a_tie_counts_by_share_and_a_majority_whole(run: RunDirectory, tmp_path: Path) -> None:
    def split(annotator: str, item: ReviewItem) -> str:
        three = hashed("three", item.subject) < 0.5
        return {"anna": "correct", "ben": "correct" if three else "incorrect"}.get(annotator, "not_attempted")

    review = reviewed(tmp_path / "review", draw_sample(run, 60), split)
    (one,) = labeling_rounds(read_graded_answers(run, review), [review])
    assert set(one.people.tolist()) == {1.0, 1 / 3}
    pair = reviewed(tmp_path / "pair", draw_sample(run, 60, seed=1), split, PEOPLE[1:])
    (two,) = labeling_rounds(read_graded_answers(run, pair), [pair])
    assert set(two.people.tolist()) == {0.5, 0.0}


def test_a_run_that_is_no_evaluation_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 40))
    other = RunDirectory.begin(str(tmp_path / "build"), job="build_benchmark", config={}, versions={})
    with pytest.raises(StorageError, match="not of evaluate"):
        calibrated_tables(review, other)


def test_further_answers_are_others_and_narrow_the_intervals(run: RunDirectory, tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", draw_sample(run, 80))
    mean, inside = truth(read_graded_answers(run, first)).mean(), 0
    for seed in (4, 5, 6):
        second = reviewed(tmp_path / f"second{seed}", draw_next(run, first, 80, seed=seed))
        assert len(second.items()) == 80
        assert not {item.subject for item in first.items()} & {item.subject for item in second.items()}
        assert [one.digest for one in review_history(open_review(str(second.root)))] == [first.digest, second.digest]
        before, after = (row(dict(calibrated_tables(one, run)[0].rows), ALL_CELLS)[1] for one in (first, second))
        assert before and after and before.low and before.high and after.low and after.high
        assert after.high - after.low < before.high - before.low
        inside += after.low < mean < after.high
    assert inside >= 2  # each is a 95 % interval


def test_further_draws_are_the_same_again_and_others_by_seed(run: RunDirectory, tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", draw_sample(run, 40))
    one, again, other = (draw_next(run, first, 20, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.info["digest"] != other.info["digest"]
    graded = {answer.id for answer in read_graded_answers(run, first)}
    assert one.info["population"] == len(graded - {item.subject for item in first.items()})


def test_when_all_were_seen_the_figure_is_people_s_own(run: RunDirectory, tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", draw_sample(run, 40, settings=["oracle"]))
    rest = reviewed(tmp_path / "rest", draw_next(run, first, EVERYTHING))
    _, both, alone, _ = row(dict(calibrated_tables(rest, run)[0].rows), ALL_CELLS)
    answers = read_graded_answers(run, first)
    assert sum(len(one.rows) for one in labeling_rounds(answers, [first, rest])) == len(answers)
    assert both and alone
    assert both.value == both.low == both.high == pytest.approx(truth(answers).mean())
    with pytest.raises(StorageError, match="leaves no answer"):
        draw_next(run, rest, 10)


def test_what_a_review_holds_is_not_drawn_again_though_nobody_annotated_it(run: RunDirectory, tmp_path: Path) -> None:
    drawn = draw_sample(run, 60)
    first = reviewed(tmp_path / "first", drawn, annotated=30)
    second = draw_next(run, first, 40)
    assert not {item.subject for item in drawn.items} & {item.subject for item in second.items}
    (one,) = labeling_rounds(read_graded_answers(run, first), [first])
    assert 0 < len(one.rows) <= 30


def test_going_on_needs_annotations(run: RunDirectory, tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", draw_sample(run, 40), people=())
    with pytest.raises(StorageError, match="no grades yet"):
        draw_next(run, first, 10)


def test_another_evaluation_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    """Its answers have the same ids, as the same models have on the same questions; some read otherwise."""
    first = reviewed(tmp_path / "first", draw_sample(run, 40, models=["hasty-8b"]))
    other = evaluation(tmp_path / "other", seed=1)
    assert {one.id for one in read_graded_answers(run, first)} & ids_of(other)
    for use in (lambda: draw_next(other, first, 10), lambda: calibrated_tables(first, other)):
        with pytest.raises(StorageError, match=r"\d+ of its 40 answers are not in .*give the evaluation that it was"):
            use()


def ids_of(run: RunDirectory) -> set[str]:
    return {row.id for part in run.parts("predictions/hasty-8b") for row in read_records(part, Prediction)}


def test_an_answer_that_was_given_anew_is_another(run: RunDirectory, tmp_path: Path) -> None:
    first = reviewed(tmp_path / "first", draw_sample(run, 40))
    items = first.items()
    items[7].answer += " mg"
    write_records(first.root / "items.parquet", items, ReviewItem)
    with pytest.raises(StorageError, match="1 of its 40 answers"):
        calibrated_tables(first, run)


def test_people_s_consensus_is_what_counts(run: RunDirectory, tmp_path: Path) -> None:
    """One of three who always says the contrary changes nothing."""

    def contrary(annotator: str, item: ReviewItem) -> str:
        said = fair(annotator, item)
        return said if annotator != "ben" else {"correct": "incorrect", "incorrect": "correct"}[said]

    drawn = draw_sample(run, 60)
    whole, split = reviewed(tmp_path / "whole", drawn), reviewed(tmp_path / "split", replace(drawn), contrary)
    assert calibrated_tables(whole, run) == calibrated_tables(split, run)


GROUPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=60)


def pool_of(rows: list[tuple[int, int, int]]) -> AnswerPool:
    cell, group, verdict = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return cell, group, verdict


def seen(rows: Codes, people: list[float]) -> LabelingRound:
    return LabelingRound(rows, np.array(people), np.full(len(rows), 0.5))


@given(rows=GROUPS, n=st.integers(1, 80), taken=st.integers(0, 40), seed=st.integers(0, 99))
def test_chances_are_of_what_nobody_saw_and_sum_to_n(
    rows: list[tuple[int, int, int]], n: int, taken: int, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    before = dice.permutation(len(rows))[: min(taken, len(rows))]
    found = inclusion_probabilities(pool_of(rows), [seen(before, dice.integers(0, 2, len(before)).tolist())], n)
    left = np.setdiff1d(np.arange(len(rows)), before)
    assert (found[before] == 0).all()
    assert (found[left] > 0).all(), "none is out of reach"
    assert found.max() <= 1
    assert found.sum() == pytest.approx(min(n, len(left)))
    picked = pareto_sample(found, dice.random(len(rows)), round(found.sum()))
    assert len(picked) == len(set(picked.tolist())) == min(n, len(left))
    assert set(picked.tolist()) <= set(left.tolist())


def test_rows_are_drawn_as_often_as_their_chances_say() -> None:
    dice = np.random.default_rng(5)
    chance = np.array([1.0, 0.9, 0.7, 0.5, 0.4, 0.3, 0.1, 0.1, 0.0])
    times = np.zeros(len(chance))
    for _ in range(4000):
        times[pareto_sample(chance, dice.random(len(chance)), 4)] += 1
    assert times / 4000 == pytest.approx(chance, abs=0.04)
    assert times[0] == 4000 and times[-1] == 0


def test_what_people_disagree_on_with_the_judge_is_asked_more() -> None:
    """Of two kinds that the judge found right, people found one always so and the other half of the time."""
    pool = pool_of([(0, at % 2, 1) for at in range(400)])
    found = inclusion_probabilities(
        pool, [seen(np.arange(40), [1.0 if at % 2 == 0 else float(at % 4 == 1) for at in range(40)])], 50
    )
    assert found[41] > 1.5 * found[40] > 0


def test_a_cell_with_labels_enough_gets_few_more() -> None:
    pool = pool_of([(at % 2, 0, 0) for at in range(400)])
    found = inclusion_probabilities(pool, [seen(np.arange(0, 80, 2), [float(at % 2) for at in range(40)])], 40)
    assert found[1::2].sum() > 4 * found[0::2].sum() > 0


def test_small_cells_get_as_many_as_large_ones() -> None:
    """Accuracies are of cells: answers of a small one tell more each."""
    pool = pool_of([(int(at >= 300), int(at >= 300), 0) for at in range(400)])
    before = np.array([*range(10), *range(300, 310)])
    found = inclusion_probabilities(pool, [seen(before, [float(at % 2) for at in range(20)])], 40)
    assert found[:300].sum() == pytest.approx(found[300:].sum(), rel=0.35)
