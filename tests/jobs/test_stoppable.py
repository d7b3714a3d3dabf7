"""How a job that has begun ends when it can't go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from fdarx_core.storage import RunDirectory, StorageError
from fdarx_core.storage.errors import Unreachable
from jobs import STOPPED
from jobs.session import ending


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.begin(str(tmp_path / "run"), job="build_benchmark", config={"seed": 0}, versions={})


def test_storage_that_goes_away_stops_a_job_that_the_same_command_goes_on_with(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, ending(run):
        raise Unreachable("cannot write s3://b/a: no answer; once it answers again, the same command resumes the job")
    assert ended.value.code == STOPPED
    assert capsys.readouterr().err.startswith("error: cannot write s3://b/a")
    again = RunDirectory.begin(str(run.root), job="build_benchmark", config={"seed": 0}, versions={})
    assert again.resumed
    again.release()


def test_a_file_at_fault_fails_the_job(run: RunDirectory) -> None:
    run.file("labels.txt").write_text("one")
    with pytest.raises(StorageError, match="a torn file"), ending(run):
        raise StorageError("cannot read s3://b/a: a torn file")
    assert run.info()["status"] == "failed"


def test_a_run_that_holds_nothing_is_removed_unless_it_was_begun_before(run: RunDirectory) -> None:
    run.release()
    again = RunDirectory.begin(str(run.root), job="build_benchmark", config={"seed": 0}, versions={})
    with pytest.raises(StorageError), ending(again):
        raise StorageError("no label is left to build from")
    assert again.info()["status"] == "failed"
    with pytest.raises(StorageError), ending(run):
        raise StorageError("no label is left to build from")
    assert not Path(str(run.root)).exists()
