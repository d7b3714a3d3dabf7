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
from tests.review.synthetic_reviews import evaluation, fair

pytestmark = [pytest.mark.s3, pytest.mark.slow]
REVIEWS = ("first", "second")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, bucket: Location) -> tuple[Location, Location]:
    """The same evaluation on disk and on the server."""
    disk = tmp_path_factory.mktemp("reviewed")
    made = evaluation(disk / "run", labels=2)
    for file in made.root.list(recursive=True):
        (bucket / f"run/{str(file).removeprefix(f'{made.root}/')}").write_bytes(file.read_bytes())
    return Location(disk), bucket


def judged(root: Location, handed_in: Callable[[str], Location]) -> list[str]:
    """What anna and ben save of a review, the latter two thirds of it; the addresses of their files."""
    review = open_review(str(root))
    files = []
    for name, share in (("anna", 3), ("ben", 2)):
        items = review.items()[: len(review.items()) * share // 3]
        answers = [{"id": item.id, "value": fair(name, item), "remark": "so it says"} for item in items]
        saved = {"format": 1, "review": review.digest, "annotator": name, "answers": answers}
        files.append(handed_in(name))
        files[-1].write_text(json.dumps(saved))
    return [str(file) for file in files]


def all_of_it(root: Location) -> None:
    """Two rounds, each drawn, annotated, taken in and reported, and the evaluation's own page with both."""
    run, (first, second) = root / "run", (root / name for name in REVIEWS)
    wanted = ["--n", "16", "--annotators", "anna,ben"]
    assert main(["review", "sample", str(run), *wanted, "--out", str(first)]) == 0
    files = judged(first, lambda name: root / f"saved/{name}.json")
    assert main(["review", "import", str(first), *files]) == 0
    assert main(["review", "import", str(first), *files]) == 0, "the same again changes nothing"
    assert main(["review", "sample", str(run), *wanted, "--out", str(second), "--after", str(first)]) == 0
    assert main(["review", "import", str(second), *judged(second, lambda name: root / f"more/{name}.json")]) == 0
    for review in (first, second):
        assert main(["review", "report", str(review), "--resamples", "100"]) == 0
    assert main(["report", str(run), "--review", str(second)]) == 0


def test_a_review_there_is_the_same_as_on_disk(
    evaluated: tuple[Location, Location], capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for root in evaluated:
        all_of_it(root)
        told.append(capsys.readouterr().out.replace(str(root), "ROOT"))
    disk, remote = evaluated
    assert told[0] == told[1]
    for name in REVIEWS:
        unlike = differing(remote / name, disk / name, {})
        assert set(unlike) == {"review.json", "anna.html", "ben.html", "agreement.html"}, "they name the run's address"
        for file in unlike:
            assert addressed(remote, f"{name}/{file}") == addressed(disk, f"{name}/{file}")
    assert 'id="calibrated"' in (remote / "run/report.html").read_text()


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
