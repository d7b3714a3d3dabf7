"""`fdarx report EVALUATION --review REVIEW`: calibrated accuracies on the evaluation's own page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lxml import html

from fdarx_core.review.items import draw_sample
from fdarx_core.review.review_set import Review
from fdarx_core.storage import RunDirectory
from jobs.cli import main
from tests.review.synthetic_reviews import ReviewedBuild, evaluation, reviewed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return evaluation(tmp_path_factory.mktemp("reviewed") / "run", labels=6)


@pytest.fixture(scope="module")
def review(run: RunDirectory, tmp_path_factory: pytest.TempPathFactory) -> Review:
    return reviewed(tmp_path_factory.mktemp("reviewed") / "review", draw_sample(run, 60), annotated=40)


def test_the_page_and_the_terminal_show_what_people_made_of_it(
    run: RunDirectory, review: Review, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run.root), "--review", str(review.root)]) == 0
    told = capsys.readouterr().out
    assert "Accuracy on answerable questions, calibrated by people's annotations" in told
    assert f"report  {run.root}/report.html" in told
    page: Any = html.fromstring(run.file("report.html").read_text())
    names = [one.text_content() for one in page.xpath("//*[@id='calibrated-1']//tbody//th")]
    assert len(names) == len({name.partition(" (")[0] for name in names}) > 1
    assert all(name in told for name in names)


def test_without_a_review_the_page_is_as_before(
    run: RunDirectory, review: Review, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in (["--review", str(review.root)], []):
        assert main(["report", str(run.root), *more]) == 0
    assert "calibrated" not in capsys.readouterr().out.rpartition("report  ")[2]
    assert 'id="calibrated"' not in run.file("report.html").read_text()


def test_what_does_not_fit_is_said_in_one_line_and_changes_nothing(
    run: RunDirectory, review: Review, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ReviewedBuild(tmp_path / "build", parts=1)
    of_build = reviewed(tmp_path / "of_build", draw_sample(build.run, 5), annotated=0)
    unjudged = reviewed(tmp_path / "unjudged", draw_sample(run, 20), annotated=0)
    few = reviewed(tmp_path / "few", draw_sample(run, 20), annotated=4)
    other = evaluation(tmp_path / "other", labels=1, seed=3)
    run.file("report.html").write_text("as it was")
    for given, told in (
        ([run.root, "--review", tmp_path / "nowhere"], "is not a review"),
        ([run.root, "--review", run.root], "is not a review"),
        ([run.root, "--review", of_build.root], "whose tasks are not about answers"),
        ([run.root, "--review", unjudged.root], "fewer than 10 answers or claims that people judged"),
        ([run.root, "--review", few.root], "fewer than 10 answers or claims that people judged"),
        ([other.root, "--review", review.root], "give the evaluation that it was drawn from"),
        ([build.run.root, "--review", of_build.root], "not of evaluate"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["report", *map(str, given)])
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1
    assert run.file("report.html").read_text() == "as it was"
