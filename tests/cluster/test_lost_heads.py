"""A head that dies with its driver while nobody watches: the same command on another cluster goes on with the run.

It is what KubeRay does for cluster/kuberay/jobs/build-unattended.yaml. Workers of the lost cluster live on for a while.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.storage import Location
from tests.cluster.nodes import Nodes, running_nodes, write_labels
from tests.conftest import REPOSITORY
from tests.jobs.comparing import TIMED, differing
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline.scripted import KEY_VARIABLE, NAME, PLANTED_KEY, Script, models_file, read_models
from tests.pipeline.test_models import LOST_WITH_A_PROCESS
from tests.pipeline.test_steps import identities

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(1200)]

IN_FLIGHT = 16
AMOUNTS = ("--passages", "2", "--section-pairs", "1", "--twins", "1")


@pytest.fixture(scope="module", autouse=True)
def worker_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, PLANTED_KEY)
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        yield


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labels(tmp_path_factory.mktemp("many") / "labels", times=1)


@pytest.fixture(scope="module")
def server(labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    models = read_models(models_file(tmp_path_factory.mktemp("models"), "http://127.0.0.1:1/v1"))
    script = Script(identities(labels), GenerationConfig(passages=2, section_pairs=1, twins=1), models)
    with LoopbackServer(answer=script) as running:
        yield running


@pytest.fixture(scope="module")
def line(labels: Path, server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command but for --out."""
    models = models_file(tmp_path_factory.mktemp("models"), server.openai_url, max_in_flight=IN_FLIGHT)
    options = ["--models", str(models), "--generator", NAME, "--reader", NAME, "--judge", NAME]
    return [sys.executable, "-m", "jobs.cli", "build", "--labels", str(labels), *AMOUNTS, *options]


@pytest.fixture(scope="module")
def undisturbed(line: list[str], server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The run and the number of its requests."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = run_job(*line[3:], "--out", out, "--executor", "local")
    assert done.returncode == 0, done.stderr
    server.latency = 0.3  # few answers arrive while a segment is written, even on a busy machine
    return out, server.number


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.nightly])])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "s3":
        found: Location = request.getfixturevalue("bucket")
        return found / f"heads/{request.node.name}"
    return Location(tmp_path / "run")


@pytest.mark.parametrize("moments", [(0.5,), pytest.param((0.1, 0.5, 0.9), marks=pytest.mark.nightly)])
def test_a_build_goes_on_after_each_lost_head(
    out: Location, line: list[str], server: LoopbackServer, undisturbed: tuple[Path, int], moments: Sequence[float]
) -> None:
    whole, requests = undisturbed
    server.number = 0
    server.answered.clear()
    command = [*line, "--out", str(out)]
    with ExitStack() as lost:
        for moment in moments:
            nodes = lost.enter_context(cluster())
            with started(nodes, command) as job:
                while job.poll() is None and server.number < requests * moment:
                    time.sleep(0.02)
                assert job.poll() is None, job.communicate()[1]
                nodes.lose_head()
                job.kill()
        with started(lost.enter_context(cluster()), command) as job:
            told = job.communicate(timeout=600)[1]
        assert job.returncode == 0 and "resuming" in told, told
    changed = {name for name in differing(out, Location(whole), {}) if not name.startswith("responses/")}
    assert changed <= TIMED
    twice = sum(count - 1 for count in server.answered.values())
    print(f"{out.address[:5]} {moments}: {twice} of {requests} answered twice")
    assert twice <= LOST_WITH_A_PROCESS * len(moments)


def started(nodes: Nodes, command: list[str]) -> subprocess.Popen[str]:
    silent, piped, where = subprocess.DEVNULL, subprocess.PIPE, nodes.environment
    return subprocess.Popen(command, cwd=REPOSITORY, env=where, stdout=silent, stderr=piped, text=True)


@contextmanager
def cluster() -> Iterator[Nodes]:
    """A head and a worker."""
    folder = TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)
    with folder as name, running_nodes(Path(name), workers=1) as nodes:
        yield nodes
