"""Sampling of what people judge: strata, items, the folder of a review."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.records import JudgeVerdict, Label
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.report.review_pages import annotator_page
from fdarx_core.review.items import draw_sample
from fdarx_core.review.review_set import open_review, write_review
from fdarx_core.review.sampling import SampleUnit, allocate_sample, draw_stratified, open_reviewable_run
from fdarx_core.review.tasks import pieces_of
from fdarx_core.storage import RunConflict, RunDirectory, StorageError, write_records
from tests.report.synthetic_run import make_run
from tests.review.synthetic_reviews import HOSTILE, ReviewedBuild, ReviewedEvaluation, unit


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> ReviewedBuild:
    return ReviewedBuild(tmp_path_factory.mktemp("review") / "build")


@pytest.fixture(scope="module")
def evaluation(build: ReviewedBuild, tmp_path_factory: pytest.TempPathFactory) -> ReviewedEvaluation:
    return ReviewedEvaluation(tmp_path_factory.mktemp("review") / "evaluation", build)


def test_each_question_is_drawn_once_with_the_tasks_that_its_judges_had(build: ReviewedBuild) -> None:
    drawn = draw_sample(build.run, 40)
    judged = {(one.question_id, one.stage) for one in build.verdicts}
    stages = {"relevance": "relevance", "category": "relevance", "correctness": "support", "quality": "quality"}
    assert len({item.subject for item in drawn.items}) == 40 == drawn.info["subjects"]
    assert drawn.info["population"] == len({one.question_id for one in build.verdicts})
    for subject in {item.subject for item in drawn.items}:
        asked = [item.task for item in drawn.items if item.subject == subject]
        assert asked == [task for task, stage in stages.items() if (subject, stage) in judged]
    places = [item.subject for item in drawn.items]
    assert all(places.index(one) + places.count(one) > at for at, one in enumerate(places)), "one question's items part"


def test_decisions_are_those_of_the_judges_in_the_tasks_words(build: ReviewedBuild) -> None:
    verdicts = {(one.question_id, one.stage): one for one in build.verdicts}
    words = {"kept": ("correct", "fit"), "dropped": ("incorrect", "unfit"), "unscored": ("", "")}
    decisions = Counter[str]()
    for item in draw_sample(build.run, 1000).items:
        decisions[item.decision] += 1
        assert item.kept == (item.subject in build.kept) and item.judge == "strict-judge"
        assert item.decision in {*item.choices, ""}
        if item.task in ("correctness", "quality"):
            stage = {"correctness": "support", "quality": "quality"}[item.task]
            assert item.decision == words[verdicts[item.subject, stage].outcome][item.task == "quality"]
            assert item.evidence and all(passage in item.context for passage in item.evidence)
        else:
            verdict = verdicts[item.subject, "relevance"]
            assert item.decision == (verdict.relevance if item.task == "relevance" else verdict.category)
            assert item.because == "" or verdict.outcome == "unscored", "it would tell the other task's decision"
            assert not item.evidence and item.context.startswith("Sections: ")
    assert all(decisions[value] for value in ("relevant", "somewhat", "correct", "incorrect", "fit", "unfit", ""))


def test_every_stratum_is_drawn_from_and_weights_add_up_to_all_questions(build: ReviewedBuild) -> None:
    drawn = draw_sample(build.run, 60)
    strata = {one["name"]: one for one in drawn.info["strata"]}
    assert drawn.info["by"] == ["verdict", "type", "relevance", "category"]
    assert all(1 <= one["drawn"] <= one["size"] for one in strata.values())
    firsts = {item.subject: item for item in drawn.items}.values()
    assert sum(1 / item.fraction for item in firsts) == pytest.approx(drawn.info["population"])
    assert Counter(item.stratum for item in firsts) == {name: one["drawn"] for name, one in strata.items()}
    verdicts = {name.split(" · ")[0] for name in strata}
    assert {"kept", "dropped at relevance", "dropped at support", "dropped at quality"} <= verdicts
    assert draw_sample(build.run, 6).info["by"] != drawn.info["by"]


def test_the_order_of_parts_changes_nothing(build: ReviewedBuild, tmp_path: Path) -> None:
    backwards = ReviewedBuild(tmp_path / "backwards", backwards=True)
    drawn, other = (draw_sample(one.run, 25, seed=3) for one in (build, backwards))
    assert drawn.items == other.items and drawn.info["digest"] == other.info["digest"]
    assert draw_sample(build.run, 25, seed=4).items != drawn.items


def test_a_judge_that_names_its_reason_twice_is_quoted_once(tmp_path: Path) -> None:
    made = ReviewedBuild(tmp_path / "build", parts=1)
    place = made.run.part("verdicts", 0)
    named = [replace(one, detail=f"{one.reason}: and why" if one.reason else "") for one in made.verdicts]
    write_records(place, named, JudgeVerdict)
    items = draw_sample(made.run, 500, tasks=["correctness", "quality"]).items
    assert {item.because for item in items if item.decision == item.choices[1]} == {"some_reason: and why"}


def test_a_build_that_lost_a_label_is_named_as_such(tmp_path: Path) -> None:
    made = ReviewedBuild(tmp_path / "build", parts=1)
    write_records(made.run.part("labels", 0), [], Label)
    with pytest.raises(StorageError, match="rests on a label or passage that the run does not have; delete the run"):
        draw_sample(made.run, 5)


def test_of_an_evaluation_one_prediction_a_question_is_drawn(evaluation: ReviewedEvaluation) -> None:
    drawn = draw_sample(evaluation.run, 500)
    said = {one.id: one for one in evaluation.predictions}
    asked = [said[item.subject].question_id for item in drawn.items]
    assert len(set(asked)) == len(asked) == len({one.question_id for one in evaluation.predictions})
    assert {item.model for item in drawn.items} == {"large", "small"}
    assert {item.setting for item in drawn.items} == {"oracle", "full_label"}
    for item in drawn.items:
        grade = evaluation.grades[item.subject]
        assert item.decision == ("" if grade.outcome == "unscored" else grade.outcome)
        assert item.answer == said[item.subject].answer and item.gold and item.judge == grade.judge
        assert item.fraction == pytest.approx(1 / 4), "drawn whole, of four predictions that answer the same question"


def test_models_and_settings_narrow_what_is_drawn(evaluation: ReviewedEvaluation, build: ReviewedBuild) -> None:
    drawn = draw_sample(evaluation.run, 500, models=["small"], settings=["oracle"])
    assert {(item.model, item.setting, item.fraction) for item in drawn.items} == {("small", "oracle", 1.0)}
    with pytest.raises(StorageError, match="no model tiny; known are large, small"):
        draw_sample(evaluation.run, 5, models=["tiny"])
    with pytest.raises(StorageError, match="no answers of models"):
        draw_sample(build.run, 5, models=["small"])


def test_runs_that_have_nothing_to_review_are_refused(build: ReviewedBuild, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="its tasks are relevance"):
        draw_sample(build.run, 5, tasks=["grade"])
    with pytest.raises(StorageError, match="nothing that a judge was asked about"):
        draw_sample(make_run(tmp_path / "unjudged", labels=6, parts=1), 5)
    RunDirectory.begin(str(tmp_path / "running"), job="evaluate", config={}, versions={})
    with pytest.raises(StorageError, match="is running; finish it"):
        open_reviewable_run(str(tmp_path / "running"))
    with pytest.raises(StorageError, match="is not a run"):
        open_reviewable_run(str(tmp_path))


def test_pieces_put_together_are_the_context_and_mark_what_answers(build: ReviewedBuild) -> None:
    for item in draw_sample(build.run, 50).items:
        pieces = pieces_of(item)
        assert "".join(text for _, text in pieces) == item.context
        shown = "".join(text for kind, text in pieces if kind != "plain")
        assert shown == "".join(item.evidence)
        if item.task == "correctness" and item.type == "factual":
            near = [text for kind, text in pieces if kind == "near"]
            assert any("once daily" in text for text in near)


def test_evidence_that_is_not_in_the_context_is_not_looked_for_twice() -> None:
    item = ReviewItem("i", "correctness", "s", "l", "d", "factual", "", "q?", "b", [], "", evidence=["b", "zz", "b"])
    assert pieces_of(replace(item, context="a b c b d")) == [
        *(("plain", "a "), ("near", "b"), ("plain", " c "), ("near", "b"), ("plain", " d"))
    ]


def test_the_folder_holds_pages_rows_and_a_sheet_that_tells_no_decision(build: ReviewedBuild, tmp_path: Path) -> None:
    drawn = draw_sample(build.run, 20)
    review = write_review(str(tmp_path / "set"), drawn, ["anna", "ben"], {}, annotator_page)
    assert open_review(str(tmp_path / "set")).items() == drawn.items and review.annotations() == []
    page = (tmp_path / "set" / "anna.html").read_text("utf-8")
    assert HOSTILE not in page and page.count("</script>") == 2
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    sheet = (tmp_path / "set" / "items.csv").read_text("utf-8-sig")
    assert "strict-judge" not in sheet and "kept" not in sheet and "dropped" not in sheet
    assert "\n=" not in sheet and ",=" not in sheet and '"=' not in sheet, "a spreadsheet would run it"
    assert sheet.count("How much Drug") == len(drawn.items)


def test_who_joins_gets_a_page_and_nothing_else_changes(build: ReviewedBuild, tmp_path: Path) -> None:
    drawn, out = draw_sample(build.run, 5), tmp_path / "set"
    write_review(str(out), drawn, ["anna"], {}, annotator_page)
    before = {file.name: file.read_bytes() for file in out.iterdir() if file.name != "review.json"}
    joined = write_review(str(out), drawn, ["anna", "ben"], {}, annotator_page)
    after = {file.name: file.read_bytes() for file in out.iterdir() if file.name != "review.json"}
    assert joined.info["annotators"] == ["anna", "ben"] == open_review(str(out)).info["annotators"]
    assert after.items() > before.items() and after.keys() - before.keys() == {"ben.html"}
    with pytest.raises(RunConflict, match="n: was 5, now 6"):
        write_review(str(out), draw_sample(build.run, 6), ["anna"], {}, annotator_page)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(RunConflict, match="holds files but no review"):
        write_review(str(tmp_path / "other"), drawn, ["anna"], {}, annotator_page)


sizes = st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 60), min_size=1, max_size=12)
rows = st.lists(
    st.builds(
        unit, st.uuids().map(str), st.tuples(st.sampled_from("kd"), st.sampled_from("fm"), st.sampled_from("xyz"))
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda row: row.id,
)


@given(sizes, st.integers(0, 400))
def test_each_stratum_has_one_at_least_and_larger_ones_no_fewer(sizes: dict[str, int], more: int) -> None:
    n = len(sizes) + more
    shares = allocate_sample(sizes, n)
    assert sum(shares.values()) == min(n, sum(sizes.values()))
    assert all(1 <= shares[name] <= size for name, size in sizes.items())
    for name, size in sizes.items():
        assert all(shares[other] <= shares[name] for other, less in sizes.items() if less < size)


def test_shares_are_those_of_sainte_lague_after_one_each() -> None:
    # one each, then 53/1.5 = 35.3 a, 53/2.5 = 21.2 a, 24/1.5 = 16 b, 23/1.5 = 15.3 c before 53/3.5 = 15.1
    assert allocate_sample({"a": 53, "b": 24, "c": 23}, 7) == {"a": 3, "b": 2, "c": 2}
    assert allocate_sample({"a": 98, "b": 1, "c": 1}, 10) == {"a": 8, "b": 1, "c": 1}


@given(rows, st.integers(1, 80), st.integers(0, 5), st.randoms())
def test_the_same_rows_are_drawn_whatever_their_order(
    rows: list[SampleUnit], n: int, seed: int, random: object
) -> None:
    drawn, strata, depth = draw_stratified(rows, n, seed)
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert draw_stratified(shuffled, n, seed) == (drawn, strata, depth)
    assert len(drawn) == min(n, len(rows)) == len({row.id for row, _ in drawn})
    assert sum(one.size for one in strata) == len(rows)
    for row, stratum in drawn:
        assert stratum.name == (" · ".join(row.keys[:depth]) or "all")


@given(rows, st.integers(1, 80))
def test_strata_are_merged_only_as_far_as_needed(rows: list[SampleUnit], n: int) -> None:
    depth = draw_stratified(rows, n, 0)[2]
    assert len({row.keys[:depth] for row in rows}) <= n
    assert depth == 3 or len({row.keys[: depth + 1] for row in rows}) > n


def test_another_seed_draws_others_and_a_larger_sample_holds_the_smaller() -> None:
    rows = [unit(str(number), ("kept",)) for number in range(200)]
    first = {row.id for row, _ in draw_stratified(rows, 20, 0)[0]}
    assert first != {row.id for row, _ in draw_stratified(rows, 20, 1)[0]}
    assert first < {row.id for row, _ in draw_stratified(rows, 50, 0)[0]}
