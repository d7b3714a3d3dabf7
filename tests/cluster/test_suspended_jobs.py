"""A job on S3 that is suspended until another has taken its run over and finished it: it changes nothing after."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import Location, RunDirectory
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import command, models_file, respond
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer

pytestmark = [pytest.mark.cluster, pytest.mark.s3, pytest.mark.nightly, pytest.mark.timeout(600)]

SETTINGS = ("--settings", "oracle", "--only", "one")
MOMENTS = [0.05, 0.2, 0.5, 0.8, 0.98]
EXECUTORS = ["local", "ray"]


@pytest.fixture(scope="module")
def asked() -> Iterator[LoopbackServer]:
    """The model, slow enough that jobs are caught in the middle."""
    with LoopbackServer() as server:
        yield server


@pytest.fixture(scope="module")
def line(asked: LoopbackServer, example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command without its run."""
    models = models_file(tmp_path_factory.mktemp("models"), asked.openai_url, {"name": "one"})
    return command(example_build, "RUN", *SETTINGS, "--models", models)


@pytest.fixture(scope="module")
def requests(asked: LoopbackServer, line: list[str], tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many the job sends."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    asked.answer, asked.latency = respond, 0.0
    done = run_job(*(str(out) if word == "RUN" else word for word in line[3:]))
    assert done.returncode == 0, done.stderr
    asked.latency = 0.2
    return asked.number


def started(line: list[str], run: object, executor: str) -> subprocess.Popen[str]:
    whole = [*(str(run) if word == "RUN" else word for word in line), "--executor", executor]
    return subprocess.Popen(whole, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def otherwise(body: Mapping[str, Any]) -> str:
    """What the model replies to the second job, so that what the first writes is seen."""
    return respond(body).replace("5 mg", "9 mg")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_slept_changes_nothing_of_the_run_that_another_has_finished(
    bucket: Location, asked: LoopbackServer, line: list[str], requests: int, moment: float, executor: str
) -> None:
    run = bucket / f"suspended/{moment}-{executor}"
    asked.answer, asked.number = respond, 0
    with started(line, run, executor) as first:
        try:
            while first.poll() is None and asked.number < requests * moment:
                time.sleep(0.05)
            assert first.poll() is None, first.communicate()[1]
            first.send_signal(signal.SIGSTOP)  # on Ray, its workers go on
            asked.answer = otherwise
            with started(line, run, "local") as second:
                told = second.communicate(timeout=240)[1]
            assert second.returncode == 0 and f"{run}: it does not, going on" in told, told
            finished = files(run)
            assert RunDirectory.open(str(run)).complete
            first.send_signal(signal.SIGCONT)
            told = first.communicate(timeout=240)[1]
        finally:
            first.kill()
    assert first.returncode not in (0, -signal.SIGKILL), told
    assert "has taken the run over, because this one had not renewed its claim; this job has stopped" in told
    assert files(run) == finished


def files(run: Location) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in run.list(recursive=True)}
