"""A run is written by one job at a time: on a disk, and on a real S3 server."""

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

from fdarx_core.storage import Location, RunConflict, RunDirectory, heartbeat
from tests.conftest import REPOSITORY

HOLD = """
import sys, time
from fdarx_core.storage import RunConflict, RunDirectory, heartbeat
heartbeat.BEAT_S = 0.2
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
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.2)
    monkeypatch.setattr(heartbeat, "DEAD_S", 4.0)
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
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.2)
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
    assert f"process {other.pid}" in caplog.text and "it does not, going on" in caplog.text
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
        assert "has taken the run over, as this one had given no sign of life" in other.stdout.readline()
        assert run.info()["status"] == "running"
    run.finish({})
    assert RunDirectory.open(str(folder)).complete
