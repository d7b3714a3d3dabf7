"""A job that can't compute on the cluster it is given says why, in one line, before it begins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.nodes import Nodes
from tests.conftest import EXAMPLES, REPOSITORY

pytestmark = pytest.mark.cluster


def build(environment: Mapping[str, str], folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "jobs.build_benchmark", *map(str, options)]
    elsewhere = {**environment, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(line, cwd=folder, env=elsewhere, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:10001", "http://127.0.0.1:8265"])
def test_an_address_where_no_cluster_can_be_joined(address: str, tmp_path: Path) -> None:
    done = build({**os.environ, "RAY_ADDRESS": address}, tmp_path, "--labels", EXAMPLES, "--out", tmp_path / "run")
    assert done.returncode == 2
    *before, line = done.stderr.splitlines()
    assert before in ([], ["starting Ray"])
    assert line.startswith("error: ") and f"RAY_ADDRESS {address}" in line and "unset" in line.lower()
    assert not (tmp_path / "run").exists()  # a folder that holds nothing is removed


def test_an_out_that_other_machines_do_not_see_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    apart = "/proc/self/cwd/run"  # another folder in every process, as a local one is on every machine
    done = build(nodes.environment, tmp_path, "--labels", EXAMPLES, "--out", apart)
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"--out {apart}" in line and "s3://" in line
    assert not (tmp_path / "run").exists()


def test_labels_that_other_machines_do_not_see_are_refused(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(EXAMPLES)
    done = build(nodes.environment, tmp_path, "--labels", "/proc/self/cwd/mine", "--out", tmp_path / "run")
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "/proc/self/cwd/mine" in line and "s3://" in line
