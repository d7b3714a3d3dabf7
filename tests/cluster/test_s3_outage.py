"""An S3 server that dies without warning in the middle of a build and of a sweep, and comes back a while later.

FDARX_KILLS=10 kills it at ten moments of each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fdarx_core.llm import ResponseStore
from fdarx_core.storage import Location, RunDirectory, read_table
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.comparing import TIMED, differing
from tests.jobs.evaluating import command, evaluate, models_file, respond, untimed
from tests.llm.loopback_server import LoopbackServer
from tests.storage.swift_server import Swift

pytestmark = [pytest.mark.cluster, pytest.mark.s3]

KILLS = int(os.environ.get("FDARX_KILLS", "1"))
MOMENTS = [(number + 0.5) / KILLS for number in range(KILLS)]
AWAY_S = 4.0
SETTINGS = ("--settings", "oracle,retrieved", "--only", "one")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    """Whom the sweeps ask; slow enough that they are caught in the middle."""
    with LoopbackServer(answer=respond, latency=0.5) as server:
        yield server


@pytest.fixture(scope="module")
def models(asked: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models_file(tmp_path_factory.mktemp("models"), asked.openai_url, {"name": "one"})


@pytest.fixture(scope="module")
def benchmark(bucket: Location, example_build: Path) -> Location:
    for file in example_build.rglob("*"):
        if file.is_file():
            (bucket / f"build/{file.relative_to(example_build)}").write_bytes(file.read_bytes())
    return bucket / "build"


@pytest.fixture(scope="module")
def undisturbed(
    example_build: Path, asked: LoopbackServer, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The sweep on disk."""
    out = tmp_path_factory.mktemp("sweeps") / "undisturbed"
    done = evaluate(example_build, out, *SETTINGS, "--models", models)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def fresh(asked: LoopbackServer) -> LoopbackServer:
    asked.by_prompt.clear()
    asked.answered.clear()
    asked.number = 0
    return asked


def started(line: Sequence[object]) -> subprocess.Popen[str]:
    whole = [str(part) for part in line]
    return subprocess.Popen(whole, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def await_true(job: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    while job.poll() is None and not reached():
        time.sleep(0.1)
    assert job.poll() is None, f"it ended before its moment: {job.communicate()[1]}"


def no_file_is_torn(run: Location) -> None:
    assert RunDirectory.open(str(run)).info()["status"] == "running"
    for file in run.list(recursive=True):
        if file.suffix == ".parquet":
            read_table(file)


def completes_without_its_server(
    line: Sequence[object], run: Location, swift: Swift, reached: Callable[[], bool]
) -> None:
    """The job ends well although the server is killed at the moment that is reached, and away for a while."""
    with started(line) as job:
        await_true(job, reached)
        swift.kill()
        time.sleep(AWAY_S)
        swift.start()
        no_file_is_torn(run)
        assert job.wait(240) == 0, job.communicate()[1]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_build_outlives_its_server(bucket: Location, swift: Swift, example_build: Path, moment: float) -> None:
    for file in EXAMPLES.glob("*.xml"):
        (bucket / f"in/{file.name}").write_bytes(file.read_bytes())
    run = bucket / f"builds/{moment}"
    files = len(Location(example_build).list(recursive=True))
    small = ("--passages", 3, "--section-pairs", 2, "--twins", 4, "--cpus", 2)
    line = (sys.executable, "-m", "jobs.build_benchmark", "--labels", bucket / "in", "--out", run, *small)
    completes_without_its_server(line, run, swift, lambda: len(run.list(recursive=True)) > files * moment / 4)
    placed = {f"{bucket}/in/": "LABELS/", f"{EXAMPLES}/": "LABELS/"}
    assert set(differing(run, Location(example_build), placed)) == TIMED


@pytest.mark.nightly
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_sweep_outlives_its_server_and_asks_nothing_twice(
    bucket: Location,
    swift: Swift,
    benchmark: Location,
    undisturbed: Path,
    models: Path,
    fresh: LoopbackServer,
    moment: float,
) -> None:
    run = bucket / f"sweeps/{moment}"
    whole = stored(Location(undisturbed))
    line = command(benchmark, run, *SETTINGS, "--models", models)
    completes_without_its_server(line, run, swift, lambda: fresh.number > len(whole) * moment)
    assert untimed(run) == untimed(undisturbed)
    assert set(fresh.by_prompt.values()) == {1} and len(fresh.by_prompt) == len(whole)


@pytest.mark.nightly
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_sweep_that_dies_with_its_server_goes_on(
    bucket: Location,
    swift: Swift,
    benchmark: Location,
    undisturbed: Path,
    models: Path,
    fresh: LoopbackServer,
    moment: float,
) -> None:
    run = bucket / f"crashes/{moment}"
    whole = stored(Location(undisturbed))
    line = command(benchmark, run, *SETTINGS, "--models", models)
    with started(line) as job:
        await_true(job, lambda: fresh.number > len(whole) * moment)
        swift.kill()
        job.send_signal(signal.SIGKILL)
    await_silence(fresh)
    swift.start()
    no_file_is_torn(run)
    kept, before = stored(run), fresh.number
    with started(line) as job:
        told = job.communicate(timeout=240)[1]
    assert job.returncode == 0 and f"{run}: it does not, going on" in told, told
    assert untimed(run) == untimed(undisturbed)
    assert fresh.number - before == len(whole - kept), "what was stored is not asked again"


def stored(run: Location) -> set[str]:
    """The keys of what the model answered."""
    index = ResponseStore(run / "responses").index()
    return {key for key, segment in index.items() if segment.startswith("answer_")}


def await_silence(asked: LoopbackServer) -> None:
    """Returns when the workers of a killed job have gone too."""
    while True:
        seen = asked.number
        time.sleep(3 * asked.latency)
        if not asked.in_flight and asked.number == seen:
            return
