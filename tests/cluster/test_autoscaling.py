"""Jobs on a cluster that begins with a head without CPUs: each gets the machines that it needs, and gives them back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fdarx_core.records import Passage
from tests.cluster.autoscaling import Autoscaled, autoscaled
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import rows_of, untimed
from tests.jobs.in_process import run_job
from tests.retrieval import tiny_models

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TYPES = {"cpu": ({"CPU": 2.0}, 2), "gpu": ({"CPU": 1.0, "GPU": 1.0}, 2)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Autoscaled]:
    with TemporaryDirectory(prefix="ray") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        with autoscaled(Path(folder), TYPES) as running:
            yield running


def run(cluster: Autoscaled, *words: object) -> subprocess.CompletedProcess[str]:
    """A job that must end well, from nothing; the machines that it got are gone at the end."""
    cluster.forget()
    line = [sys.executable, "-m", "jobs.cli", *map(str, words)]
    done = subprocess.run(line, cwd=REPOSITORY, env=cluster.environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    cluster.await_empty()
    print(f"{words[0]}: {cluster.history}")
    return done


def test_an_evaluation_gets_gpus_and_gives_them_back(cluster: Autoscaled, example_build: Path, tmp_path: Path) -> None:
    pytest.importorskip("bert_score")
    texts = [row.text for row in rows_of(example_build, "passages", Passage)]
    bert = tiny_models.encoder(texts, tmp_path / "bert", 512)
    line = ["evaluate", "--benchmark", example_build, "--settings", "oracle", "--resamples", 200]
    line += ["--bertscore-model", bert, "--bertscore-layers", 1, "--sample", 4]
    done = run(cluster, *line, "--out", tmp_path / "cluster", "--cpus", 2, "--gpus", 1)
    assert "waiting for 1 GPU: the cluster has none yet" in done.stderr
    assert cluster.most("gpu") == 1 and cluster.most("cpu") == 1
    here = run_job(*line, "--out", tmp_path / "here", "--executor", "local")
    assert here.returncode == 0, here.stderr
    assert untimed(tmp_path / "cluster") == untimed(tmp_path / "here")
