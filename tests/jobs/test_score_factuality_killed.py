"""`fdarx factuality` killed in the middle, and run again: what it comes to is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fdarx_core.storage import RunDirectory
from tests.conftest import REPOSITORY
from tests.jobs.checking import QUESTIONS, RIGHT, command, lines, made, made_files, score

pytestmark = pytest.mark.slow


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    options = made_files(tmp_path)
    rows = [{"question": f"{question} {n}", "answer": RIGHT[n % 6]} for n in range(7) for question in QUESTIONS]
    options = [*options, "--predictions", lines(tmp_path / "many.jsonl", rows)]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = score(whole, *options, "--executor", "local")
    assert done.returncode == 0, done.stderr
    on_ray = (*options, "--executor", "ray")
    line = command(killed, *on_ray)
    process = subprocess.Popen(line, cwd=REPOSITORY, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 120
    while not list((killed / "done").rglob("part-*")) and time.monotonic() < end:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert RunDirectory.open(str(killed)).info()["status"] == "running"
    resumed = score(killed, *on_ray)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming" in resumed.stderr
    assert made(killed) == made(whole)
    assert (killed / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()
