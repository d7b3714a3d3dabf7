"""A build from labels on a real S3 server into a run on it equals one on disk."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fdarx_core.storage import Location
from tests.conftest import EXAMPLES, REPOSITORY

pytestmark = pytest.mark.s3


def build(labels: object, out: object) -> None:
    line = [sys.executable, "-m", "jobs.build_benchmark", "--labels", str(labels), "--out", str(out), "--cpus", "2"]
    small = ["--passages", "3", "--section-pairs", "2", "--refusals", "2"]
    done = subprocess.run([*line, *small], cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_the_same_benchmark_from_and_to_s3(bucket: Location, tmp_path: Path) -> None:
    archive = tmp_path / "labels.zip"
    with zipfile.ZipFile(archive, "w") as bulk:
        for file in EXAMPLES.glob("*.xml"):
            bulk.write(file, f"prescription/{file.name}")
    (bucket / "in/labels.zip").write_bytes(archive.read_bytes())
    build(bucket / "in/labels.zip", bucket / "runs/one")
    build(archive, tmp_path / "run")
    for name in ("qa.jsonl", "labels.jsonl", "factual.parquet", "README.md"):
        assert (bucket / f"runs/one/benchmark/{name}").read_bytes() == (tmp_path / "run/benchmark" / name).read_bytes()
    assert (bucket / "runs/one/report.html").size() > 100_000
