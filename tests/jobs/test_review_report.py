"""`fdarx review report` on a review as it stands on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.review_set import FORMAT_VERSION
from fdarx_core.storage import Location, write_records
from jobs import cli
from tests.review.synthetic_reviews import PEOPLE, item, simulated, votes

pytestmark = pytest.mark.slow


@pytest.fixture
def review(tmp_path: Path) -> Path:
    """Three people's votes on made-up items."""
    items, given = simulated(n=20)
    return _written(tmp_path / "review", items, given)


def _written(root: Path, items: list[ReviewItem], given: list[Annotation]) -> Path:
    write_records(Location(root / "items.parquet"), items, ReviewItem)
    for name in {one.annotator for one in given}:
        said = [one for one in given if one.annotator == name]
        write_records(Location(root / "annotations" / f"{name}-0.parquet"), said, Annotation)
    info = {"format": FORMAT_VERSION, "digest": "d1", "run": str(root / "gone"), "job": "evaluate"}
    info |= {"annotators": list(PEOPLE), "tasks": [], "models": [], "settings": []}
    (root / "review.json").write_text(json.dumps(info))
    return root


def test_it_writes_tables_data_and_a_page(review: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["review", "report", str(review), "--resamples", "100"]) == 0
    told, noticed = capsys.readouterr()
    assert noticed == ""
    for number in (3, 4, 5):
        assert f"Table {number}." in told
        assert f"Table {number}." in (review / "agreement.txt").read_text()
    found = json.loads((review / "agreement.json").read_text())
    assert found["review"] == "d1"
    assert {one["task"] for one in found["figures"]} == {one["task"] for one in found["tallies"]}
    assert all(one["value"] is None or -1 <= one["value"] <= 1 for one in found["figures"])
    assert "Confusion tables" in (review / "agreement.html").read_text()


def test_the_same_votes_make_the_same_report_and_options_change_it(review: Path) -> None:
    written = []
    for options in ([], [], ["--blind"], ["--weighted"], ["--seed", "1"]):
        assert cli.main(["review", "report", str(review), "--resamples", "100", *options]) == 0
        written.append(json.loads((review / "agreement.json").read_text())["figures"])
    assert written[0] == written[1]
    assert all(other != written[0] for other in written[2:])


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unvoted = _written(tmp_path / "unvoted", [item("a")], [])
    stranger = _written(tmp_path / "stranger", [item("a")], votes(item("b"), {"anna": "correct"}))
    for given, told in (
        ([str(tmp_path / "nowhere")], "is not a review"),
        ([str(unvoted)], "fdarx review import"),
        ([str(stranger)], "item b is on no item of this review"),
        ([str(unvoted), "--resamples", "5"], "--resamples"),
        ([], "--review"),
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["review", "report", *given])
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.count("\n") == 1
