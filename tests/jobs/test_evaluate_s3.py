"""An evaluation of a benchmark on a real S3 server, into a run on it, equals one on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fdarx_core.storage import Location, RunDirectory
from tests.jobs.comparing import TIMED, differing
from tests.jobs.evaluating import by_type, evaluate
from tests.jobs.in_process import run_job

pytestmark = [pytest.mark.s3, pytest.mark.slow]


@pytest.fixture(scope="module")
def evaluated(example_build: Path, bucket: Location) -> Location:
    for file in sorted(example_build.rglob("*")):
        if file.is_file():
            (bucket / f"build/{file.relative_to(example_build)}").write_bytes(file.read_bytes())
    out = bucket / "runs/one"
    done = evaluate(bucket / "build", out, "--settings", "oracle,retrieved")
    assert done.returncode == 0, done.stderr
    assert "Table 1" in done.stdout and f"{out}/report.html" in done.stdout
    return out


def test_the_same_run_from_and_to_s3(evaluated: Location, example_build: Path, tmp_path: Path) -> None:
    assert RunDirectory.open(str(evaluated)).complete
    done = evaluate(example_build, tmp_path / "run", "--settings", "oracle,retrieved")
    assert done.returncode == 0, done.stderr
    assert by_type(evaluated) == by_type(tmp_path / "run")
    assert set(differing(evaluated, Location(tmp_path / "run"), {})) == TIMED


def test_its_page_is_drawn_anew_there(evaluated: Location) -> None:
    page = evaluated / "report.html"
    before = untimed(page.read_text())
    page.delete()
    done = run_job("report", evaluated)
    assert done.returncode == 0, done.stderr
    assert untimed(page.read_text()) == before


def untimed(page: str) -> str:
    """Without how long drawing it and the run took, which a page can't say of itself the first time."""
    return re.sub(r"<div><dt>report</dt>.*</div>\n|\btook \d+ min \d+ s", "", page)
