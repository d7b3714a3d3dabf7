"""`fdarx review sample` and `import` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from fdarx_core.review.review_set import open_review
from jobs.cli import main
from tests.review.synthetic_reviews import ReviewedBuild, ReviewedEvaluation


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> ReviewedBuild:
    return ReviewedBuild(tmp_path_factory.mktemp("review") / "build", parts=1)


def sample(run: str, out: Path, *more: str) -> int:
    options = [*more, *([] if "--annotators" in more else ["--annotators", "anna,ben"])]
    return main(["review", "sample", run, "--n", "6", "--out", str(out), *options])


def test_a_sample_is_drawn_annotated_and_taken_in(
    build: ReviewedBuild, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "set"
    assert sample(str(build.run.root), out, "--tasks", "relevance,grade") == 0
    review = open_review(str(out))
    assert {item.task for item in review.items()} == {"relevance"} and review.info["annotators"] == ["anna", "ben"]
    assert f"open {out}/anna.html\nopen {out}/ben.html" in capsys.readouterr().out
    answers = [{"id": item.id, "value": "relevant"} for item in review.items()[:2]]
    saved = {"format": 1, "review": review.digest, "annotator": "ben", "answers": answers}
    (tmp_path / "ben.json").write_text(json.dumps(saved))
    assert main(["review", "import", str(out), str(tmp_path / "ben.json")]) == 0
    told = capsys.readouterr()
    assert "2 annotations were taken in, 0 were known already" in told.out
    assert "ben: 2 of 6 items are answered, 4 are left" in told.err
    assert [row.annotator for row in open_review(str(out)).annotations()] == ["ben", "ben"]


def test_a_build_is_asked_by_default_about_what_a_benchmark_needs(build: ReviewedBuild, tmp_path: Path) -> None:
    assert sample(str(build.run.root), tmp_path / "set") == 0
    items = open_review(str(tmp_path / "set")).items()
    assert {item.task for item in items} == {"correctness", "quality"} and len({item.subject for item in items}) == 6
    every = "relevance,category,correctness,quality"
    assert sample(str(build.run.root), tmp_path / "all", "--tasks", every) == 0
    assert {item.task for item in open_review(str(tmp_path / "all")).items()} == set(every.split(","))


def test_the_same_command_again_changes_nothing(build: ReviewedBuild, tmp_path: Path) -> None:
    assert sample(str(build.run.root), tmp_path / "set") == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "set").iterdir()}
    assert sample(str(build.run.root), tmp_path / "set") == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "set").iterdir()} == before


def test_an_evaluation_is_asked_about_its_grades(build: ReviewedBuild, tmp_path: Path) -> None:
    evaluation = ReviewedEvaluation(tmp_path / "evaluation", build)
    assert sample(str(evaluation.run.root), tmp_path / "set", "--settings", "oracle") == 0
    items = open_review(str(tmp_path / "set")).items()
    assert {(item.task, item.setting) for item in items} == {("grade", "oracle")}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--annotators", "Anna", "anna"], "two names differ in case alone"),
        (["--annotators", "../anna"], "can't name a page"),
        (["--annotators", "agreement"], "can't name a page"),
        (["--annotators", ","], "name at least one"),
        (["--tasks", "taste"], "there is no task taste"),
        (["--tasks", "grade"], "its tasks are relevance"),
        (["--n", "0"], "--n"),
    ],
)
def test_wrong_options_stop_before_anything_is_written(
    build: ReviewedBuild, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        sample(str(build.run.root), tmp_path / "set", *more)
    assert stopped.value.code == 2 and told in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


def test_steps_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "--help"]) == 0
    assert "sample" in capsys.readouterr().out
    for given, told in (
        (["simple"], 'Did you mean "sample"?'),
        (["sample", "one", "two", "--annotators", "a", "--out", "o"], "two"),
    ):
        with pytest.raises(SystemExit):
            main(["review", *given])
        assert told in capsys.readouterr().err


def test_a_review_of_what_no_model_judged_speaks_of_no_judge(
    example_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "set"
    assert sample(str(example_build), out) == 0
    assert "; no judge decided on them" in capsys.readouterr().out
    review = open_review(str(out))
    page: Any = html.fromstring((out / "anna.html").read_text())
    for part in page.xpath("//script | //style | //*[@hidden]"):
        part.drop_tree()
    assert "judge’s" not in page.text_content().lower() and "the judge" not in page.text_content()
    for at, name in enumerate(("anna", "ben")):
        answers = [{"id": item.id, "value": ("fit", "unfit")[at]} for item in review.items() if item.task == "quality"]
        saved = {"format": 1, "review": review.digest, "annotator": name, "answers": answers}
        (tmp_path / f"{name}.json").write_text(json.dumps(saved))
    assert main(["review", "import", str(out), *(str(tmp_path / f"{name}.json") for name in ("anna", "ben"))]) == 0
    assert main(["review", "report", str(out)]) == 0
    report, told = (out / "agreement.html").read_text(), capsys.readouterr().out
    assert "Table 5. Annotators: each against each other" in told and "Judge" not in told and "Low and high" not in told
    page = html.fromstring(report)
    assert "no decision" not in page.text_content().lower() and ">Judge<" not in report
