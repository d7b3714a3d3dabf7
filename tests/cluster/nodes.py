"""A Ray cluster of several nodes on this machine, each of which can be killed without warning; and many labels to
process on it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import ray
from ray._common.utils import reset_ray_address
from ray.cluster_utils import Cluster

from tests.conftest import EXAMPLES

_STORE = 150 * 2**20
_TRIES = 4


@dataclass(slots=True)
class Nodes:
    """A head, on which drivers run, and workers; a CPU each."""

    cluster: Any
    workers: int = 2

    @property
    def environment(self) -> dict[str, str]:
        """What a driver needs to compute here."""
        return {**os.environ, "RAY_ADDRESS": str(self.cluster.address)}

    def kill_one(self) -> None:
        """SIGKILL to every process of a worker node."""
        victim = min(self.cluster.worker_nodes, key=lambda node: str(node.unique_id))
        self.cluster.remove_node(victim, allow_graceful=False)

    def refill(self) -> None:
        """As many workers as at first."""
        while len(self.cluster.worker_nodes) < self.workers:
            add_node(self.cluster)

    def lose_head(self) -> None:
        """SIGKILL to every process of the head; the workers live on until they miss it."""
        self.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


class Slow:
    """A Ray actor that takes its time, and says where it is."""

    def where(self, item: int) -> tuple[int, str]:
        time.sleep(0.2)
        return item, ray.get_runtime_context().get_node_id()


def machine(item: int) -> str:
    """Return where a task is that takes its time."""
    time.sleep(0.2)
    return str(ray.get_runtime_context().get_node_id())


def add_node(cluster: Any, **options: Any) -> Any:
    """Tried again, since Ray gives a node 30 s to come up, too few on a busy machine."""
    for attempt in range(_TRIES):
        try:
            return cluster.add_node(num_cpus=1, object_store_memory=_STORE, **options)
        except Exception as error:
            if "timed out" not in str(error) or attempt + 1 == _TRIES:
                raise
    raise AssertionError("unreachable")


@contextmanager
def running_nodes(folder: Path, workers: int = 2) -> Iterator[Nodes]:
    """A head and workers. `folder` holds what Ray writes; its path is short, since sockets lie in it."""
    cluster = Cluster()
    try:
        add_node(cluster, temp_dir=str(folder), include_dashboard=False)
        nodes = Nodes(cluster, workers)
        nodes.refill()
        yield nodes
    finally:
        for node in filter(None, [*cluster.worker_nodes, cluster.head_node]):
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        reset_ray_address(None)  # else Ray takes the dead cluster for the one to join


_WORDS = ("said", "usual", "whole", "given", "present", "former", "latter", "other")


def write_labels(folder: Path, times: int) -> Path:
    """At most eight times each."""
    folder.mkdir()
    for file in sorted(EXAMPLES.glob("*.xml")):
        text = file.read_text(encoding="utf-8").replace(" the ", " the {word} ")
        for word in _WORDS[:times]:
            set_id = str(uuid5(NAMESPACE_URL, file.name + word))
            copy = re.sub(r'(?<=<setId root=")[^"]*', set_id, text).replace("{word}", word)
            (folder / f"{file.stem}_{word}.xml").write_text(copy, encoding="utf-8")
    return folder
