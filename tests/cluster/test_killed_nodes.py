"""Jobs on three machines of which one dies without warning: they end by themselves, with the same results.

    FDARX_KILLS=10 pytest -m cluster tests/cluster/test_killed_nodes.py -s

kills so many machines under a build, at moments spread evenly over the time that it takes undisturbed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.pipeline.executor import Call
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Resource
from fdarx_core.records import Figure, Grade, Prediction
from tests.cluster.nodes import Nodes, Slow, add_node, machine, write_labels
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import command, models_file, rows_of, untimed
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline.scripted import NAME, Script, read_models
from tests.pipeline.scripted import models_file as scripted_models
from tests.pipeline.test_models import AMOUNTS
from tests.pipeline.test_steps import identities
from tests.pipeline.test_sweep_faults import answer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("FDARX_KILLS", "1"))
REPEATED = 0.05
"""The most that may be answered twice, of all that is asked."""


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labels(tmp_path_factory.mktemp("many") / "labels", times=1)


@pytest.fixture(scope="module")
def script(nodes: Nodes, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Script:
    models = read_models(scripted_models(tmp_path_factory.mktemp("models"), "http://127.0.0.1:1/v1"))
    return Script(identities(labels), GenerationConfig(passages=4, section_pairs=3, twins=3), models)


def run(nodes: Nodes, line: Sequence[str], kill_after_s: float | None, bound_s: float) -> float:
    """Seconds that a job took that must end well, within a bound, though a node is killed at some moment of it."""
    began = time.monotonic()
    job = subprocess.Popen(line, cwd=REPOSITORY, env=nodes.environment, stderr=subprocess.PIPE, text=True)
    try:
        if kill_after_s is not None:
            with suppress(subprocess.TimeoutExpired):
                job.wait(kill_after_s)
            nodes.kill_one()
        _, told = job.communicate(timeout=bound_s)
        assert job.returncode == 0, told
    finally:
        job.kill()
        nodes.refill()
    return time.monotonic() - began


def undisturbed(nodes: Nodes, line: Sequence[str]) -> float:
    return run(nodes, line, None, 600)


def answered_twice(server: LoopbackServer) -> int:
    return sum(count - 1 for count in server.answered.values())


def files_of(folder: Path) -> dict[Path, bytes]:
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def survives(nodes: Nodes, line: Callable[[str], Sequence[str]], server: LoopbackServer, kills: int) -> Iterator[str]:
    """A job with each killed node, as the name of its run, after an undisturbed one, "calm"."""
    took = undisturbed(nodes, line("calm"))
    asked = server.number
    assert answered_twice(server) == 0
    for number in range(kills):
        server.answered.clear()
        moment = (number + 0.5) / kills * took
        seconds = run(nodes, line(f"killed{number}"), moment, 3 * took + 60)
        twice = answered_twice(server)
        print(f"killed after {moment:.1f} s: done in {seconds:.1f} s ({took:.1f}), {twice} of {asked} answered twice")
        assert twice <= REPEATED * asked
        yield f"killed{number}"


def test_a_build_survives_killed_nodes(nodes: Nodes, labels: Path, script: Script, tmp_path: Path) -> None:
    with LoopbackServer(answer=script, latency=0.1) as server:
        models = scripted_models(tmp_path, server.openai_url)
        line = [sys.executable, "-m", "jobs.build_benchmark", "--labels", str(labels), *AMOUNTS]
        line += ["--models", str(models), "--generator", NAME, "--reader", NAME, "--judge", NAME]
        for name in survives(nodes, lambda name: [*line, "--out", str(tmp_path / name)], server, KILLS):
            assert files_of(tmp_path / name / "benchmark") == files_of(tmp_path / "calm" / "benchmark")


@pytest.mark.nightly
def test_a_sweep_survives_a_killed_node(nodes: Nodes, example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(answer=answer, latency=0.1) as server:
        models = models_file(tmp_path, server.openai_url, {"name": "small"}, {"name": "strong"})
        settings = ("--models", models, "--judge", "strong", "--settings", "oracle,full_label")
        line = lambda name: command(example_build, tmp_path / name, *settings)  # noqa: E731
        for name in survives(nodes, line, server, max(1, KILLS // 2)):
            assert found(tmp_path / name) == found(tmp_path / "calm")


def found(out: Path) -> tuple[list[Prediction], list[Grade], Mapping[Any, Figure]]:
    """What was said and found, but for how long it took."""
    said = [replace(row, latency_s=0.0) for row in rows_of(out, "predictions/small", Prediction)]
    return said, rows_of(out, "grades/small", Grade), untimed(out)


def test_tasks_keep_off_machines_with_gpus(nodes: Nodes) -> None:
    labels = {"ray.io/accelerator-type": "A100"}
    with_gpu = add_node(nodes.cluster, num_gpus=1, labels=labels)
    ray.init(address=nodes.cluster.address, log_to_driver=False)
    try:
        used = set(RayExecutor().flow("machines", range(20), machine))
        assert used and with_gpu.node_id not in used
    finally:
        ray.shutdown()
        nodes.cluster.remove_node(with_gpu, allow_graceful=False)


def test_what_a_lost_actor_had_in_hand_is_done_by_the_others(nodes: Nodes) -> None:
    ray.init(address=nodes.cluster.address, log_to_driver=False)
    try:
        done: list[tuple[int, str]] = []
        for one in RayExecutor().flow("slow", range(60), Call(Resource(Slow, size=4), "where")):
            done.append(one)
            if len(done) == 15:
                assert len({node for _, node in done}) > 1
                nodes.kill_one()
        assert sorted(item for item, _ in done) == list(range(60))
    finally:
        ray.shutdown()
        nodes.refill()
