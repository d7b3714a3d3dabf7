"""Jobs on a real Ray head node with token authentication, submitted, watched and stopped as the documents show."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jobs.build_benchmark import NO_QUESTIONS
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.evaluating import models_file
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline.test_sweep_faults import answer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

RAY = Path(sys.executable).with_name("ray")
IN_FLIGHT = 8
ITEMS = json.dumps({"items": []})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def head() -> Iterator[dict[str, str]]:
    """A head node on loopback; its environment, with the address to submit to."""
    with TemporaryDirectory(prefix="ray") as home:
        port, dashboard = free_port(), free_port()
        environment = {**os.environ, "HOME": home, "RAY_AUTH_MODE": "token"}
        environment["PATH"] = f"{RAY.parent}{os.pathsep}{environment['PATH']}"
        token = [str(RAY), "get-auth-token", "--generate"]
        subprocess.run(token, env=environment, check=True, capture_output=True, timeout=120)
        start = [str(RAY), "start", "--head", "--block", "--num-cpus=2", "--node-ip-address=127.0.0.1"]
        start += [f"--port={port}", f"--dashboard-port={dashboard}", f"--temp-dir={home}/ray"]
        start += [f"--dashboard-agent-listen-port={free_port()}", f"--dashboard-agent-grpc-port={free_port()}"]
        node = subprocess.Popen(
            [*start, "--object-store-memory=200000000"], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert node.stdout is not None
        for line in node.stdout:
            if "Ray runtime started" in line:
                break
        yield {**environment, "RAY_ADDRESS": f"http://127.0.0.1:{dashboard}"}
        node.terminate()
        node.wait(timeout=60)


def ray_job(head: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """`ray job …`, again while the head's job agent is still starting."""
    deadline = time.monotonic() + 120
    while True:
        line = [str(RAY), "job", *map(str, arguments)]
        done = subprocess.run(line, cwd=REPOSITORY, env=head, capture_output=True, text=True, timeout=300)
        if "No available agent" not in done.stderr or time.monotonic() > deadline:
            return done
        time.sleep(2)


def submit(head: dict[str, str], job: Sequence[object], *options: str) -> subprocess.CompletedProcess[str]:
    return ray_job(head, "submit", "--working-dir", ".", *options, "--", "python", "-m", *job)


def build(server: LoopbackServer, folder: Path, out: Path) -> list[object]:
    models = models_file(folder, server.openai_url, {"name": "writer", "max_in_flight": IN_FLIGHT})
    options = ("--passages", 8, "--section-pairs", 8, "--models", models, "--generator", "writer")
    return ["jobs.build_benchmark", "--labels", EXAMPLES.relative_to(REPOSITORY), "--out", out, *options]


def sweep(server: LoopbackServer, folder: Path, out: Path, benchmark: Path) -> list[object]:
    models = models_file(folder, server.openai_url, {"name": "small", "max_in_flight": IN_FLIGHT})
    options = ("--resamples", 200, "--models", models, "--settings", "oracle")
    return ["jobs.evaluate", "--benchmark", benchmark, "--out", out, *options]


def stop_midway(head: dict[str, str], job: list[object], server: LoopbackServer, out: Path) -> None:
    """Submit a job, stop it when the server has seen some of its calls, and return once it has ended by itself."""
    server.latency = 0.5
    submitted = submit(head, job, "--no-wait")
    [number] = re.findall(r"submit '(raysubmit_\w+)'|Job '(raysubmit_\w+)' submitted", submitted.stdout)
    name = "".join(number)
    await_calls(server, 3 * IN_FLIGHT)
    stopped = ray_job(head, "stop", "--no-wait", name)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    while json.loads((out / "run.json").read_text())["status"] != "interrupted":
        time.sleep(0.1)
    seen = -1
    while server.in_flight or server.number > seen:  # processes that asked end a little later
        seen = server.number
        time.sleep(3 * server.latency)
    server.latency = 0.0


def await_calls(server: LoopbackServer, calls: int) -> None:
    deadline = time.monotonic() + 120
    while server.number < calls and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.number >= calls


def finish(head: dict[str, str], job: list[object], server: LoopbackServer, out: Path, code: int = 0) -> str:
    """Submit the job again; it goes on where it was stopped, and ends with an exit code."""
    before = server.number
    done = submit(head, job)
    assert done.returncode == code, done.stdout + done.stderr
    assert server.number > before, "the job was not stopped midway"
    assert json.loads((out / "run.json").read_text())["status"] == "complete"
    twice = sum(count - 1 for count in server.answered.values())
    assert twice <= IN_FLIGHT
    return done.stdout


def test_a_stopped_build_stops_asking_and_goes_on_when_submitted_again(head: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    with LoopbackServer(answer=lambda body: ITEMS) as server:
        job = build(server, tmp_path, out)
        stop_midway(head, job, server, out)
        log = finish(head, job, server, out, code=NO_QUESTIONS)  # the writer found nothing to ask
    assert f"open {out}/report.html" in log and "resuming" in log


@pytest.mark.nightly
def test_a_stopped_sweep_stops_asking_and_goes_on_when_submitted_again(
    head: dict[str, str], example_build: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with LoopbackServer(answer=answer) as server:
        job = sweep(server, tmp_path, out, example_build)
        stop_midway(head, job, server, out)
        log = finish(head, job, server, out)
    assert f"open {out}/report.html" in log and "resuming" in log


def test_a_wrong_argument_ends_with_its_line_and_exit_code(head: dict[str, str], tmp_path: Path) -> None:
    wrong = submit(head, ["jobs.build_benchmark", "--labels", "examples/absent", "--out", tmp_path / "run"])
    told = wrong.stdout + wrong.stderr
    assert wrong.returncode != 0 and "exit code 2" in told
    assert re.search(r"^error: .*examples/absent", told, re.MULTILINE)


def test_a_wrong_token_is_refused(head: dict[str, str]) -> None:
    wrong = submit({**head, "RAY_AUTH_TOKEN": "0" * 32}, ["jobs.cli", "--help"])
    assert wrong.returncode != 0
    assert "authentication token" in (wrong.stdout + wrong.stderr).lower()
