"""A review on a real S3 server, of a run there, equals the same on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from fdarx_core.review.review_set import open_review
from fdarx_core.storage import Location
from jobs.cli import main
from tests.jobs.comparing import differing
from tests.review.synthetic_reviews import ReviewedBuild, ReviewedEvaluation

pytestmark = [pytest.mark.s3, pytest.mark.slow]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, bucket: Location) -> tuple[Location, Location]:
    """The same evaluation on disk and on the server."""
    disk = tmp_path_factory.mktemp("reviewed")
    made = ReviewedEvaluation(disk / "run", ReviewedBuild(disk / "build", parts=1)).run
    for file in made.root.list(recursive=True):
        (bucket / f"run/{str(file).removeprefix(f'{made.root}/')}").write_bytes(file.read_bytes())
    return Location(disk), bucket


def judged(root: Location, handed_in: Callable[[str], Location]) -> list[str]:
    """What anna and ben save of a review, the latter two thirds of it; the addresses of their files."""
    review = open_review(str(root))
    files = []
    for name, share in (("anna", 3), ("ben", 2)):
        items = review.items()[: len(review.items()) * share // 3]
        answers = [
            {"id": item.id, "value": "correct" if at % share else "incorrect", "remark": "so it says"}
            for at, item in enumerate(items)
        ]
        saved = {"format": 1, "review": review.digest, "annotator": name, "answers": answers}
        files.append(handed_in(name))
        files[-1].write_text(json.dumps(saved))
    return [str(file) for file in files]


def all_of_it(root: Location) -> None:
    """A sample, drawn, annotated, taken in and reported."""
    run, review = root / "run", root / "first"
    wanted = ["--n", "16", "--annotators", "anna,ben"]
    assert main(["review", "sample", str(run), *wanted, "--out", str(review)]) == 0
    files = judged(review, lambda name: root / f"saved/{name}.json")
    assert main(["review", "import", str(review), *files]) == 0
    assert main(["review", "import", str(review), *files]) == 0, "the same again changes nothing"
    assert main(["review", "report", str(review), "--resamples", "100"]) == 0


def test_a_review_there_is_the_same_as_on_disk(
    evaluated: tuple[Location, Location], capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for root in evaluated:
        all_of_it(root)
        told.append(capsys.readouterr().out.replace(str(root), "ROOT"))
    disk, remote = evaluated
    assert told[0] == told[1]
    unlike = differing(remote / "first", disk / "first", {})
    assert set(unlike) == {"review.json", "anna.html", "ben.html", "agreement.html"}, "they name the run's address"
    for file in unlike:
        assert addressed(remote, f"first/{file}") == addressed(disk, f"first/{file}")


def addressed(root: Location, file: str) -> str:
    """Without where it stands and when it was drawn."""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "WRITTEN", (root / file).read_text().replace(str(root), "ROOT"))


def test_what_stands_there_is_not_overwritten(
    evaluated: tuple[Location, Location], capsys: pytest.CaptureFixture[str]
) -> None:
    root = evaluated[1]
    run, review = str(root / "run"), str(root / "review")
    assert main(["review", "sample", run, "--n", "5", "--annotators", "anna", "--out", review]) == 0
    before = {str(file): file.read_bytes() for file in Location(review).list(recursive=True)}
    for changed, told in ((["--n", "6"], "holds another review"), (["--n", "5", "--seed", "1"], "another review")):
        with pytest.raises(SystemExit):
            main(["review", "sample", run, *changed, "--annotators", "anna", "--out", review])
        assert told in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["review", "import", review, str(root / "run/run.json")])
    assert "was not saved by an annotator's page" in capsys.readouterr().err
    assert {str(file): file.read_bytes() for file in Location(review).list(recursive=True)} == before
