"""Models that a sweep brings up, on a cluster that outlives it: whatever becomes of the sweep, nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

from fdarx_core.llm import ModelsError
from serving.applications import cluster_nodes
from serving.fleet import ServeFleet
from serving.served_model import load_served
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import cells, models_file
from tests.llm.loopback_server import LoopbackServer
from tests.serving.fake_models import JUDGEMENT, build, served_file
from tests.serving.service_process import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PROCESS = Path(__file__).with_name("fleet_process.py")
WITHIN_S = 120.0
PATIENCE_S = 4
OF_RAY_DATA = ("ActorLocationTracker", "AutoscalingCoordinator", "datasets_stats_actor")
"""Detached actors without resources that Ray Data starts once a cluster."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two machines, to which the tests belong too. `ray` finds no GPU on it."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "object_store_memory": 150 * 2**20})
    cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture
def job(address: str, example_build: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`job(*options)` starts a sweep on the cluster."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: object) -> subprocess.Popen[str]:
        common = ("--benchmark", example_build, "--out", tmp_path / "run", "--settings", "oracle", "--sample", 2)
        line = [sys.executable, PROCESS, PATIENCE_S, *common, "--resamples", 100, *options]
        environment = os.environ | {"RAY_ADDRESS": address, "PYTHONPATH": str(REPOSITORY)}
        with (tmp_path / "said.txt").open("w") as said:
            started.append(
                subprocess.Popen(
                    [str(part) for part in line], cwd=REPOSITORY, stdout=said, stderr=said, text=True, env=environment
                )
            )
        return started[-1]

    yield start
    print(said(tmp_path))
    for one in started:
        one.kill()
        one.wait()


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text()


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end, f"{what}, within {WITHIN_S:g} s"
        time.sleep(0.3)


def lasting() -> list[str]:
    """The names of all that outlives a process: Serve, its replicas, watchdogs; Ray Data's own actors stay always."""
    found: list[dict[str, str]] = ray.util.list_named_actors(all_namespaces=True)
    return [one["name"] for one in found if one["name"] not in OF_RAY_DATA]


def served(folder: Path, *names: str, **more: Any) -> list[Path]:
    return [served_file(folder, name, **more) for name in names]


def test_two_models_are_asked_and_those_that_cannot_start_are_explained(
    job: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    with LoopbackServer(answer=lambda body: JUDGEMENT) as judge:
        attached = models_file(tmp_path, judge.openai_url, {"name": "strong"})
        wrong = [
            *served(tmp_path, "broken", engine={"fault": "broken"}),
            *served(tmp_path, "engine", engine={"fault": "engine"}),
            *served(tmp_path, "unbuildable", engine={"fault": "unbuildable"}),
            *served(tmp_path, "cards", device="gpu", tensor_parallel=4),
        ]
        right = served(tmp_path, "small", "other")
        done = job("--models", attached, "--judge", "strong", "--deploy", *right, *wrong)
        assert done.wait(WITHIN_S * 2) == 3, said(tmp_path)
        assert judge.number > 0
    found = {model: cell for (model, _, _), cell in cells(tmp_path / "run").items()}
    assert {model for model, cell in found.items() if cell.status == "done"} == {"small", "other"}
    assert found["small"].due == found["other"].due > 0
    assert found["broken"].reason.endswith("Broken: OSError: these weights are for another model, as their shapes say")
    assert found["engine"].reason == "engine can't be served: weights.HeaderError: cut short"
    assert found["unbuildable"].reason == "unbuildable can't be served: model unbuildable: nothing is known of it"
    assert "4 GPUs on one node, and the cluster has no GPU" in found["cards"].reason
    assert "small is ready" in said(tmp_path) and "removing small" in said(tmp_path)
    assert lasting() == []


@pytest.mark.nightly
def test_an_interrupted_sweep_takes_its_models_down_and_leaves_others_alone(
    job: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    serve.start(http_options={"host": "0.0.0.0", "port": free_port()})
    try:
        serve.run(build(load_served(served_file(tmp_path, "theirs"))), name="theirs", route_prefix="/theirs")
        interrupted = job("--deploy", *served(tmp_path, "small"), *served(tmp_path, "slow", engine={"fault": "slow"}))
        until(lambda: "removing small" in said(tmp_path), "small has answered")
        until(lambda: any("slow" in name for name in serve.status().applications), "slow is starting")
        interrupted.send_signal(signal.SIGTERM)
        assert interrupted.wait(WITHIN_S) == 130, said(tmp_path)
        assert list(serve.status().applications) == ["theirs"]
        assert serve.status().applications["theirs"].status == "RUNNING"
        assert not [name for name in lasting() if "watchdog" in name]
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]


def test_a_killed_sweep_leaves_nothing_running(job: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    killed = job("--deploy", *served(tmp_path, "slow", engine={"fault": "slow"}))
    until(lambda: any("slow" in name for name in lasting()), "slow is starting")
    killed.send_signal(signal.SIGKILL)
    until(lambda: lasting() == [], "all is gone")


@pytest.mark.nightly
def test_what_takes_too_long_is_given_up(address: str, tmp_path: Path) -> None:
    told: list[str] = []
    [slow] = served(tmp_path, "slow", engine={"fault": "slow"}, start_within_s=2)
    with ServeFleet([load_served(slow)], "", build, told.append) as fleet:
        tended(fleet, "slow", lambda: bool(fleet.failed("slow")))
        assert "after 2 s (start_within_s)" in fleet.failed("slow")
    assert told == ["starting slow", fleet.failed("slow")]
    assert lasting() == []


@pytest.mark.nightly
def test_models_take_turns_where_there_is_no_room_for_both(address: str, tmp_path: Path) -> None:
    one, other = (load_served(file) for file in served(tmp_path, "one", "other", cpus=2.5))
    with ServeFleet([one, other], "", build, lambda line: None) as fleet:
        tended(fleet, "one", lambda: fleet.ready("one"), also="other")
        assert not fleet.ready("other") and "1 waiting for resources" in fleet.state()
        tended(fleet, "other", lambda: fleet.ready("other"))
        assert not fleet.ready("one")


def test_a_cluster_that_grows_is_waited_for(address: str, tmp_path: Path) -> None:
    """Until it does, the model waits; it is not said that there is no room."""
    [cards] = served(tmp_path, "cards", device="gpu", tensor_parallel=2)
    assert not any(node.gpus for node in cluster_nodes())
    with ServeFleet([load_served(cards)], "", build, lambda line: None, gpus=2) as fleet:
        fleet.tend({"cards"})
        assert not fleet.failed("cards") and "cards starting" in fleet.state()


def test_a_serve_that_cannot_be_asked_is_told_of(address: str, tmp_path: Path) -> None:
    [small] = map(load_served, served(tmp_path, "small"))
    serve.start(http_options={"host": "127.0.0.1", "port": free_port()})
    try:
        with (
            ServeFleet([small], "", build, lambda line: None) as fleet,
            pytest.raises(ModelsError, match=r"listens only on 127\.0\.0\.1"),
        ):
            fleet.located({"small": small.client_config("http://nowhere")})
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]


def tended(fleet: ServeFleet, name: str, holds: Callable[[], bool], also: str = "") -> None:
    def look() -> bool:
        fleet.tend({name, also} - {""})
        return holds()

    until(look, f"{name} is seen to")
