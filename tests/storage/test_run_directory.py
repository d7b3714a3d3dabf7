"""Runs: directories, resuming, and the lock by which one job at a time writes one."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fdarx_core.storage import Location, RunConflict, RunDirectory, StorageError, run_lock
from tests.conftest import REPOSITORY

CONFIG: dict[str, Any] = {"sample": 700, "seed": 0, "labels": ["a.zip"], "limits": {"answer": 600, "question": 200}}


def _begin(out: Path, **changes: Any) -> RunDirectory:
    return RunDirectory.begin(str(out), job="build_benchmark", config={**CONFIG, **changes}, versions={"fdarx": "1"})


def test_a_run_from_start_to_finish(tmp_path: Path) -> None:
    run = _begin(tmp_path / "run")
    assert (run.resumed, run.complete) == (False, False)
    assert run.info()["status"] == "running"
    run.part("labels", 12).write_bytes(b"x")
    run.finish({"counts": [{"stage": "read", "rows_in": 1}]})
    info = RunDirectory.open(str(tmp_path / "run")).info()
    assert info["status"] == "complete"
    assert info["format"] == 1
    assert info["config"] == CONFIG
    assert info["counts"][0]["rows_in"] == 1
    assert info["finished"] >= info["started"]


def test_layout(tmp_path: Path) -> None:
    run = _begin(tmp_path)
    for number in (12, 3, 1_000_000):
        run.part("responses/highlights", number).write_bytes(b"x")
    run.file("responses/highlights/notes.txt").write_text("")
    names = [part.name for part in run.parts("responses/highlights")]
    assert names == ["part-000003.parquet", "part-000012.parquet", "part-1000000.parquet"]
    assert run.parts("nothing") == []
    assert str(run.file("report.html")) == f"{tmp_path}/report.html"


def test_the_same_run_resumes(tmp_path: Path) -> None:
    _begin(tmp_path).stop("interrupted")
    assert RunDirectory.open(str(tmp_path)).info()["status"] == "interrupted"
    again = _begin(tmp_path)
    assert (again.resumed, again.complete) == (True, False)
    assert again.info()["status"] == "running"
    again.finish({})
    last = _begin(tmp_path)
    assert (last.resumed, last.complete) == (True, True)
    assert last.info()["status"] == "complete"


def test_tuples_and_lists_are_the_same_option(tmp_path: Path) -> None:
    _begin(tmp_path)
    assert _begin(tmp_path, labels=("a.zip",)).resumed


def test_other_options_are_refused_one_by_one(tmp_path: Path) -> None:
    _begin(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(RunConflict) as refused:
        _begin(tmp_path, sample=10, limits={"answer": 600, "question": 300}, routes=["oral"])
    message = str(refused.value)
    assert "sample: was 700, now 10" in message
    assert "limits.question: was 200, now 300" in message
    assert 'routes: was not set, now ["oral"]' in message
    assert "seed" not in message
    assert "limits.answer" not in message
    assert "another --out" in message
    assert "\n" not in message
    assert (tmp_path / "run.json").read_bytes() == before


def test_another_job_is_refused(tmp_path: Path) -> None:
    _begin(tmp_path)
    with pytest.raises(RunConflict, match="build_benchmark, not evaluate"):
        RunDirectory.begin(str(tmp_path), job="evaluate", config=CONFIG, versions={})


def test_a_folder_of_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "thesis.docx").write_text("precious")
    with pytest.raises(RunConflict, match="holds files that the job build_benchmark did not write; choose another"):
        _begin(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "sub"]


def test_unwritable_output_stops_before_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(StorageError, match="choose another place"):
            _begin(bad)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\x80"])
def test_damaged_run_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageError, match=r"run\.json is .*choose another --out"):
        _begin(tmp_path)
    with pytest.raises(StorageError, match=r"run\.json is .*choose another --out"):
        RunDirectory.open(str(tmp_path))


def test_a_newer_format_is_not_misread(tmp_path: Path) -> None:
    run = _begin(tmp_path)
    run.file("run.json").write_text(run.file("run.json").read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(StorageError, match="format 9"):
        RunDirectory.open(str(tmp_path))


def test_open_wants_a_run(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no run\.json; give the folder"):
        RunDirectory.open(str(tmp_path))


def test_it_travels_to_workers_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = _begin(Path("run"))
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(run)).info()["status"] == "running"


HOLD = """
import sys, time
from fdarx_core.storage import RunConflict, RunDirectory, run_lock
run_lock.HEARTBEAT_S = 0.2
run = RunDirectory.begin(sys.argv[1], job="build_benchmark", config={}, versions={})
print("holds", flush=True)
try:
    time.sleep(120)
except KeyboardInterrupt:
    try:
        run.stop("interrupted")
    except RunConflict as error:
        print(error, flush=True)
"""


def begin(place: object) -> RunDirectory:
    return RunDirectory.begin(str(place), job="build_benchmark", config={}, versions={})


@contextmanager
def held_elsewhere(place: object) -> Iterator[subprocess.Popen[str]]:
    """Another process writes the run."""
    line = [sys.executable, "-c", HOLD, str(place)]
    with subprocess.Popen(line, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "holds\n"
            yield other
        finally:
            other.kill()


@pytest.fixture
def folder(bucket: Location, monkeypatch: pytest.MonkeyPatch) -> Location:
    """On S3, where hearts beat faster than usual."""
    monkeypatch.setattr(run_lock, "HEARTBEAT_S", 0.2)
    monkeypatch.setattr(run_lock, "HEARTBEAT_TIMEOUT_S", 4.0)
    return bucket / uuid4().hex


def claims(place: object) -> list[Location]:
    return Location(f"{place}/.claims").list()


def test_another_job_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "run") as other:
        with pytest.raises(RunConflict, match=rf"written by another job \(build_benchmark on .*{other.pid}, since"):
            begin(tmp_path / "run")
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert begin(tmp_path / "run").resumed, "the system has freed what the killed process held"


def test_it_is_given_up_at_the_end_or_with_the_object(tmp_path: Path) -> None:
    run = begin(tmp_path)
    with pytest.raises(RunConflict, match=f"process {os.getpid()}"):
        begin(tmp_path)
    run.release()
    run = begin(tmp_path)
    run.stop("interrupted")
    with pytest.raises(RunConflict):
        begin(tmp_path)
    run.finish({})
    assert begin(tmp_path).complete
    assert begin(tmp_path).complete, "nobody refers to the one before any more"


def test_workers_write_for_the_holder(tmp_path: Path) -> None:
    run = begin(tmp_path)
    sent = pickle.loads(pickle.dumps(run))
    assert sent == run and sent.claim is None
    sent.part("labels", 0).write_bytes(b"x")
    del sent
    with pytest.raises(RunConflict):
        begin(tmp_path)


def test_a_disk_that_can_not_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(run_lock, "HEARTBEAT_S", 0.2)
    run = begin(tmp_path)
    with pytest.raises(RunConflict, match=f"process {os.getpid()}"):
        begin(tmp_path)
    run.finish({})
    assert begin(tmp_path).complete


@pytest.mark.s3
def test_another_job_on_s3_is_refused(folder: Location) -> None:
    run = begin(folder)
    assert len(claims(folder)) == 1
    with pytest.raises(RunConflict, match=rf"build_benchmark on .*, process {os.getpid()}, since"):
        begin(folder)
    run.finish({})
    assert not claims(folder)
    assert begin(folder).complete


@pytest.mark.s3
def test_a_killed_job_on_s3_is_seen_to_be_dead(folder: Location, caplog: pytest.LogCaptureFixture) -> None:
    with held_elsewhere(folder) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    run = begin(folder)
    assert run.resumed
    assert f"process {other.pid}" in caplog.text and "has ended without releasing it, going on" in caplog.text
    run.release()
    assert not claims(folder)


@pytest.mark.s3
def test_of_several_that_begin_at_once_one_goes_on(folder: Location) -> None:
    def attempt(_: int) -> RunDirectory | RunConflict:
        try:
            return begin(folder)
        except RunConflict as error:
            return error

    with ThreadPoolExecutor(4) as jobs:
        outcomes = list(jobs.map(attempt, range(4)))
    assert sum(isinstance(one, RunDirectory) for one in outcomes) == 1, outcomes
    assert len(claims(folder)) == 1


@pytest.mark.s3
def test_a_job_that_slept_and_was_taken_for_dead_stops(folder: Location) -> None:
    with held_elsewhere(folder) as other:
        os.kill(other.pid, signal.SIGSTOP)
        run = begin(folder)
        os.kill(other.pid, signal.SIGCONT)
        assert other.stdout is not None
        assert "has taken the run over, because this one had not renewed its claim" in other.stdout.readline()
        assert run.info()["status"] == "running"
    run.finish({})
    assert RunDirectory.open(str(folder)).complete
