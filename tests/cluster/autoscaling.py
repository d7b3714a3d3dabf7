"""A Ray cluster whose head has no CPUs, and whose autoscaler starts and stops nodes on this machine as work needs them.

The nodes are real; their GPUs are only numbers, so that what is placed on them computes on CPUs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray._private.services import get_node_ip_address
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID
from ray.core.generated.autoscaler_pb2 import DEAD, GetClusterStatusReply  # type: ignore[attr-defined]

_STORE = 100 * 2**20
_HEAD = "ray.head.default"
_IDLE_MINUTES = 0.1
_TRIES = 4
_COMMANDS = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
_UNUSED: dict[str, type] = {
    **{f"{name}_commands": list for name in _COMMANDS},
    **dict.fromkeys(("auth", "docker", "file_mounts"), dict),
    **dict.fromkeys(("cluster_synced_files", "rsync_exclude", "rsync_filter"), list),
    "file_mounts_sync_continuously": bool,
}
"""Fields that the autoscaler demands and that nodes on this machine have no use for."""


@dataclass(slots=True)
class Autoscaled:
    """The cluster, and which nodes it has had since `forget` was called: how many of each type, by seconds."""

    address: str
    head: subprocess.Popen[bytes]
    history: list[tuple[float, Mapping[str, int]]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """What a driver needs to compute here."""
        return {**os.environ, "RAY_ADDRESS": self.address}

    @property
    def workers(self) -> Mapping[str, int]:
        """How many nodes of each type there are."""
        return self.history[-1][1] if self.history else {}

    def most(self, kind: str) -> int:
        """The most nodes of a type that there were at once."""
        return max((workers.get(kind, 0) for _, workers in self.history), default=0)

    def forget(self) -> None:
        """Begin the history anew; the cluster must have no worker."""
        self.await_empty()
        self.history[:] = []

    def await_empty(self, within_s: float = 120) -> None:
        """Wait until the autoscaler has removed all nodes but the head."""
        end = time.monotonic() + within_s
        while self.workers:
            assert time.monotonic() < end, f"nodes that nobody uses are still there: {self.workers}"
            time.sleep(0.5)

    def kill_one(self) -> None:
        """SIGKILL to the raylet of a worker node, with which its processes end."""
        raylets = [pid for pid in _descendants(self.head.pid) if _is_worker_raylet(pid)]
        os.kill(raylets[0], signal.SIGKILL)

    def watch(self) -> None:
        """Note the nodes whenever they change, until the cluster ends."""
        client, began = GcsClient(address=self.address), time.monotonic()
        while not self._ended.wait(0.5):
            with suppress(Exception):
                reply = GetClusterStatusReply()
                reply.ParseFromString(client.get_cluster_status(timeout_s=5))
                nodes = [one for one in reply.cluster_resource_state.node_states if one.status != DEAD]
                workers = dict(Counter(one.ray_node_type_name for one in nodes if one.ray_node_type_name != _HEAD))
                if workers != self.workers:
                    self.history.append((round(time.monotonic() - began, 1), workers))

    def end(self) -> None:
        self._ended.set()
        for pid in [*_descendants(self.head.pid), self.head.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.head.wait()


def _descendants(pid: int) -> list[int]:
    """The processes below one, as Linux lists them."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, file.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _is_worker_raylet(pid: int) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[0].endswith(b"raylet") and b"--head" not in words
    return False


_OF_HEAD = {
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_FAKE_CLUSTER": "1",
    "RAY_enable_autoscaler_v2": "1",
    "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
    "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
    "RAY_NODE_TYPE_NAME": _HEAD,
}


def _config(gcs: str, types: Mapping[str, tuple[Mapping[str, float], int]]) -> dict[str, Any]:
    kinds = {
        name: {
            "resources": {**resources, "object_store_memory": _STORE},
            "node_config": {},
            "min_workers": 0,
            "max_workers": most,
        }
        for name, (resources, most) in types.items()
    }
    provider = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
    return {
        "cluster_name": "autoscaled",
        "max_workers": 8,
        "idle_timeout_minutes": _IDLE_MINUTES,
        # as "external", since Ray's wheel lacks the defaults of the type fake_multinode
        "provider": {
            "type": "external",
            "module": provider,
            "gcs_address": gcs,
            "launch_multiple": True,
            "head_node_id": FAKE_HEAD_NODE_ID,
        },
        "head_node_type": _HEAD,
        **{name: type_() for name, type_ in _UNUSED.items()},
        "available_node_types": {_HEAD: {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}, **kinds},
    }


@contextmanager
def autoscaled(folder: Path, types: Mapping[str, tuple[Mapping[str, float], int]]) -> Iterator[Autoscaled]:
    """The cluster, with the resources of each type of node and the most nodes of it.

    `folder` holds what Ray writes; its path is short, since sockets lie in it.
    """
    cluster = _started(folder, types)
    try:
        threading.Thread(target=cluster.watch, daemon=True).start()
        yield cluster
    finally:
        cluster.end()


def _started(folder: Path, types: Mapping[str, tuple[Mapping[str, float], int]]) -> Autoscaled:
    """Tried again, since Ray gives a node 30 s to come up, too few on a busy machine."""
    for attempt in range(_TRIES):
        with socket.create_server(("", 0)) as probe:
            port = probe.getsockname()[1]
        address = f"{get_node_ip_address()}:{port}"  # type: ignore[no-untyped-call]
        file = folder / "autoscaling.json"
        file.write_text(json.dumps(_config(address, types)))
        line = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
        line += ["--num-cpus=0", "--num-gpus=0", f"--temp-dir={folder}", f"--object-store-memory={_STORE}"]
        line += ["--include-dashboard=false", f"--autoscaling-config={file}"]
        log = folder / f"head{attempt}.log"
        with log.open("wb") as out:
            head = subprocess.Popen(line, env={**os.environ, **_OF_HEAD}, stdout=out, stderr=out)
        cluster = Autoscaled(address, head)
        while head.poll() is None:
            if "--block" in log.read_text():  # what `ray start` prints last
                return cluster
            time.sleep(0.2)
        cluster.end()
    raise AssertionError(log.read_text())
