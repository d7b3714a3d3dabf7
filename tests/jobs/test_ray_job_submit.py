"""The job on a real Ray head node with token authentication, submitted as the README shows."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.timeout(600)

RAY = Path(sys.executable).with_name("ray")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A head node on loopback; its environment, with the address to submit to."""
    home = tmp_path_factory.mktemp("head")
    port, dashboard = free_port(), free_port()
    environment = {**os.environ, "HOME": str(home), "RAY_AUTH_MODE": "token"}
    environment["PATH"] = f"{RAY.parent}{os.pathsep}{environment['PATH']}"
    subprocess.run([RAY, "get-auth-token", "--generate"], env=environment, check=True, capture_output=True, timeout=60)
    start = [str(RAY), "start", "--head", "--block", "--num-cpus=2", "--node-ip-address=127.0.0.1", f"--port={port}"]
    start += [f"--dashboard-agent-listen-port={free_port()}", f"--dashboard-agent-grpc-port={free_port()}"]
    start += [f"--dashboard-port={dashboard}", "--object-store-memory=200000000", f"--temp-dir={home / 'ray'}"]
    node = subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None
    for line in node.stdout:
        if "Ray runtime started" in line:
            break
    yield {**environment, "RAY_ADDRESS": f"http://127.0.0.1:{dashboard}"}
    node.terminate()
    node.wait(timeout=60)


def submit(environment: dict[str, str], *job: object) -> subprocess.CompletedProcess[str]:
    """Submits, again while the head's job agent is still starting."""
    line = [str(RAY), "job", "submit", "--working-dir", ".", "--", "python", "-m", "jobs.build_benchmark"]
    deadline = time.monotonic() + 120
    while True:
        done = subprocess.run(
            [*line, *map(str, job)], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=240
        )
        if "No available agent" not in done.stderr or time.monotonic() > deadline:
            return done
        time.sleep(2)


def test_a_submitted_build_completes_and_its_log_and_exit_code_arrive(head: dict[str, str], tmp_path: Path) -> None:
    small = ("--passages", 2, "--section-pairs", 2, "--refusals", 2)
    done = submit(head, "--labels", "examples/labels", "--out", tmp_path / "run", *small)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "report" in done.stdout
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "complete"
    wrong = submit(head, "--labels", "examples/absent", "--out", tmp_path / "other")
    assert wrong.returncode != 0
    assert "examples/absent" in wrong.stdout + wrong.stderr
