"""Jobs on a cluster that begins with a head without CPUs: each gets the machines that it needs, and gives them back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.records import Passage
from fdarx_core.retrieval.index import IndexReader
from tests.cluster.autoscaling import Autoscaled, autoscaled
from tests.cluster.nodes import write_labels
from tests.cluster.test_killed_nodes import answered_twice, files_of
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.checking import made, made_files
from tests.jobs.evaluating import rows_of, untimed
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline.scripted import KEY_VARIABLE, NAME, PLANTED_KEY, Script, models_file, read_models
from tests.pipeline.test_models import AMOUNTS
from tests.pipeline.test_steps import identities
from tests.retrieval import tiny_models

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

TYPES = {"cpu": ({"CPU": 2.0}, 2), "gpu": ({"CPU": 1.0, "GPU": 1.0}, 2)}
"""By type of machine its resources, and the most machines of it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Autoscaled]:
    with TemporaryDirectory(prefix="ray") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        patch.setenv(KEY_VARIABLE, PLANTED_KEY)
        with autoscaled(Path(folder), TYPES) as running:
            yield running


def started(cluster: Autoscaled, *words: object) -> subprocess.Popen[str]:
    """A job on the cluster, which has no workers yet."""
    cluster.forget()
    line = [sys.executable, "-m", "jobs.cli", *map(str, words)]
    return subprocess.Popen(line, cwd=REPOSITORY, env=cluster.environment, stderr=subprocess.PIPE, text=True)


def ended(cluster: Autoscaled, job: subprocess.Popen[str]) -> str:
    """What a job says that must end well; the machines that it got are gone then."""
    try:
        _, told = job.communicate(timeout=600)
    finally:
        job.kill()
    assert job.returncode == 0, told
    cluster.await_empty()
    print(f"nodes by second: {cluster.history}")
    return told


def run(cluster: Autoscaled, *words: object) -> str:
    return ended(cluster, started(cluster, *words))


def run_here(*words: object) -> None:
    done = run_job(*words, "--executor", "local")
    assert done.returncode == 0, done.stderr


def test_an_evaluation_gets_a_gpu_and_gives_it_back(cluster: Autoscaled, example_build: Path, tmp_path: Path) -> None:
    pytest.importorskip("bert_score")
    texts = [row.text for row in rows_of(example_build, "passages", Passage)]
    bert = tiny_models.encoder(texts, tmp_path / "bert", 512)
    line = ["evaluate", "--benchmark", example_build, "--settings", "oracle", "--resamples", 200]
    line += ["--bertscore-model", bert, "--bertscore-layers", 1, "--sample", 4]
    run(cluster, *line, "--out", tmp_path / "cluster", "--cpus", 2, "--gpus", 1)
    assert (cluster.most("cpu"), cluster.most("gpu")) == (1, 1)
    run_here(*line, "--out", tmp_path / "here")
    assert untimed(tmp_path / "cluster") == untimed(tmp_path / "here")


@pytest.mark.nightly
def test_a_build_asks_for_as_many_cpus_as_it_is_told(cluster: Autoscaled, tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels", times=8)
    line = ["build", "--labels", labels, "--twins", 4]
    run(cluster, *line, "--out", tmp_path / "cluster", "--cpus", 4)
    assert (cluster.most("cpu"), cluster.most("gpu")) == (2, 0)
    run_here(*line, "--out", tmp_path / "here")
    assert files_of(tmp_path / "cluster" / "benchmark") == files_of(tmp_path / "here" / "benchmark")


@pytest.mark.nightly
def test_two_actors_that_embed_an_index_share_a_gpu(cluster: Autoscaled, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    labels = write_labels(tmp_path / "labels", times=8)
    texts = [file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("*.xml"))]
    line = ["index", "--documents", labels, "--cosine-model", tiny_models.encoder(texts, tmp_path / "model")]
    run(cluster, *line, "--out", tmp_path / "cluster", "--cpus", 2, "--gpus", 1, "--gpus-per-actor", 0.5)
    assert cluster.most("gpu") == 1
    run_here(*line, "--out", tmp_path / "here")
    there, here = (IndexReader.open(str(tmp_path / name)) for name in ("cluster", "here"))
    assert there.manifest.windows == here.manifest.windows > 0
    [entries, expected] = [
        {id: (one.file, one.chunks) for id, one in opened.manifest.entries.items()} for opened in (there, here)
    ]
    assert entries == expected and len(expected) == 96


@pytest.mark.nightly
def test_the_models_of_a_factuality_run_share_a_gpu(cluster: Autoscaled, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.verify import tiny_nli

    nli = tiny_nli.cross_encoder("bert", tmp_path / "nli")
    other = tiny_nli.cross_encoder("bert", tmp_path / "other", sizes={**tiny_nli.SIZES, "num_hidden_layers": 1})
    line = ["factuality", *made_files(tmp_path), "--entailment", nli, "--compare-entailment", other]
    run(cluster, *line, "--out", tmp_path / "cluster", "--cpus", 2, "--gpus", 1)
    assert (cluster.most("cpu"), cluster.most("gpu")) == (1, 1)
    run_here(*line, "--out", tmp_path / "here")
    assert made(tmp_path / "cluster") == made(tmp_path / "here")


@pytest.mark.nightly
def test_two_workers_of_a_fine_tuning_get_a_gpu_each(cluster: Autoscaled, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from tests.jobs.tuning_runs import curve_of, options_in

    run(cluster, "finetune", *options_in(tmp_path), "--out", tmp_path / "run", "--workers", 2, "--gpus", 2)
    assert cluster.most("gpu") == 2
    assert curve_of(tmp_path / "run")


@pytest.mark.nightly
@pytest.mark.parametrize("moment", [0.1, 0.5, 0.9])
def test_a_machine_that_is_taken_away_costs_nothing(cluster: Autoscaled, tmp_path: Path, moment: float) -> None:
    labels = write_labels(tmp_path / "labels", times=2)
    models = read_models(models_file(tmp_path, "http://127.0.0.1:1/v1"))
    script = Script(identities(labels), GenerationConfig(passages=4, section_pairs=3, twins=3), models)
    with LoopbackServer(answer=script, latency=0.1) as server:
        asked = ["--models", models_file(tmp_path, server.openai_url), "--generator", NAME, "--reader", NAME]
        line = ["build", "--labels", labels, *AMOUNTS, *asked, "--judge", NAME]
        run_here(*line, "--out", tmp_path / "here")
        due = moment * server.answered.total()
        server.answered.clear()
        job = started(cluster, *line, "--out", tmp_path / "cluster", "--cpus", 4)
        while server.answered.total() < due:
            assert job.poll() is None, job.communicate()[1]
            time.sleep(0.1)
        cluster.kill_one()
        ended(cluster, job)
        assert answered_twice(server) == 0
    assert files_of(tmp_path / "cluster" / "benchmark") == files_of(tmp_path / "here" / "benchmark")
