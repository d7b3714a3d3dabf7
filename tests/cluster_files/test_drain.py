"""A worker's preStop hook, as the manifest has it, on a cluster of two nodes: what runs ends, nothing new comes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.cluster_files.nodes import drain_script
from tests.cluster_files.tree import load

_OBJECTS = 100 * 2**20
_WITHIN_S = 120.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": _OBJECTS})
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]


@ray.remote(num_cpus=1, max_retries=0)
def work(begun: str, seconds: float) -> str:
    Path(begun).touch()
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()


@pytest.mark.cluster
def test_a_node_ends_when_its_work_is_done(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=_OBJECTS).node_id
    running = work.remote(str(tmp_path / "running"), 8)
    _await(lambda: (tmp_path / "running").exists())
    hook = _hook(cluster, node, tmp_path)
    try:
        _await(lambda: (tmp_path / "drained").exists())
        later = work.remote(str(tmp_path / "later"), 0)
        assert ray.get(running, timeout=_WITHIN_S) == node
        _await(lambda: not _alive(node))
        assert not (tmp_path / "later").exists()
        other = cluster.add_node(num_cpus=1, object_store_memory=_OBJECTS).node_id
        assert ray.get(later, timeout=_WITHIN_S) == other
    finally:
        hook.kill()


def _hook(cluster: Cluster, node: str, folder: Path) -> subprocess.Popen[bytes]:
    """The hook's script. Two nodes of one machine have one address, so `ray` is told which of them it is on, and its
    wait at the end, which the pod's end cuts short, is left out."""
    wrapper = folder / "ray"
    wrapper.write_text(
        f'#!/bin/sh\n{Path(sys.executable).with_name("ray")} "$@" --node-id {node} --address {cluster.address}\n'
    )
    wrapper.chmod(0o755)
    script = drain_script(load().documents["RayCluster/fdarx"]["spec"]["workerGroupSpecs"][0]["template"]["spec"])
    script = script.replace("sleep 100", f"touch {folder / 'drained'}")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.Popen(["bash", "-c", script], env=environment)


def _alive(node: str) -> bool:
    return any(one["Alive"] for one in _nodes() if one["NodeID"] == node)


def _nodes() -> list[dict[str, Any]]:
    return list(ray.nodes())  # type: ignore[no-untyped-call]


def _await(so: Callable[[], bool]) -> None:
    end = time.monotonic() + _WITHIN_S
    while not so():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.2)
