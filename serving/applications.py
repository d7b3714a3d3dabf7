"""Ray Serve applications of one evaluation: which models fit at once; start, state, errors, and removal.

Applications are removed even if the process is killed. A replica occupies one node, because tensor parallelism over a
network is too slow. Models are placed largest replica first, each on the first node where it fits. Where Ray has spread
small models over more nodes, a large model waits until its GPUs are free; Ray places them in the end.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ApplicationDetails, LoggingConfig, ServeInstanceDetails
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fdarx_core.llm import ModelsError
from serving.failures import first_logged_error


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """Resources of one model: GPUs and CPUs per replica, and the type of GPU (None: any)."""

    name: str
    gpus: int = 0
    cpus: float = 0.0
    replicas: int = 1
    accelerator: str | None = None

    @property
    def size(self) -> tuple[int, float, int, float]:
        """Sort key: GPUs and CPUs of a replica, then of all replicas."""
        return (self.gpus, self.cpus, self.gpus * self.replicas, self.cpus * self.replicas)

    def __str__(self) -> str:
        kind = f" ({self.accelerator})" if self.accelerator else ""
        gpus = f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}{kind} on one node"
        each = gpus if self.gpus else f"{self.cpus:g} CPU{'s' if self.cpus > 1 else ''}"
        return each if self.replicas == 1 else f"{self.replicas} times {each}"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Resources of one machine."""

    gpus: int = 0
    cpus: float = 0.0
    accelerators: frozenset[str] | None = frozenset()
    """Types of its GPUs; None means any type."""

    def fits(self, request: ResourceRequest) -> bool:
        """Return whether a replica fits."""
        kind = request.accelerator is None or self.accelerators is None or request.accelerator in self.accelerators
        return kind and self.gpus >= request.gpus and self.cpus >= request.cpus


def all_fit(nodes: Sequence[ClusterNode], requests: Collection[ResourceRequest]) -> bool:
    """Return whether all requests fit at once."""
    free = sorted(nodes, key=lambda node: (node.gpus, node.cpus))  # smallest first, to keep large nodes free
    for request in sorted(requests, key=lambda request: request.size, reverse=True):
        for _ in range(request.replicas):
            place = next((index for index, node in enumerate(free) if node.fits(request)), None)
            if place is None:
                return False
            node = free[place]
            free[place] = replace(node, gpus=node.gpus - request.gpus, cpus=node.cpus - request.cpus)
    return True


def select_to_start(
    nodes: Sequence[ClusterNode],
    running: Sequence[ResourceRequest],
    waiting: Sequence[ResourceRequest],
    first: str = "",
) -> list[ResourceRequest]:
    """Return the waiting requests that fit beside the running ones: the one named `first`, then the largest."""
    chosen: list[ResourceRequest] = []
    for request in sorted(waiting, key=lambda request: (request.name == first, request.size), reverse=True):
        if all_fit(nodes, [*running, *chosen, request]):
            chosen.append(request)
        elif request.name == first:
            break  # others would take its place
    return chosen


def why_never_fits(nodes: Sequence[ClusterNode], request: ResourceRequest, judge: ResourceRequest | None = None) -> str:
    """Return the reason, with a remedy, why a request can't fit even beside the judge alone; "" where it fits."""
    if all_fit(nodes, [request] if judge is None else [judge, request]):
        return ""
    beside = f" beside {judge.name}, which stays deployed as the judge" if judge and all_fit(nodes, [request]) else ""
    if not request.gpus:
        return (
            f"it needs {request}{beside}, and models can use {sum(node.cpus for node in nodes):g} CPUs of the cluster; "
            "lower its cpus or replicas, or add machines (--cpus on this machine)"
        )
    if not any(node.gpus for node in nodes):
        return (
            f"it needs {request}, and the cluster has no GPU; use a model with device: cpu, or add --gpus N if the "
            "cluster adds machines on demand"
        )
    gpus = ", ".join(str(count) for count in sorted((node.gpus for node in nodes), reverse=True))
    return (
        f"it needs {request}{beside}, and the cluster's nodes have {gpus}; lower tensor_parallel or replicas, or add "
        "--gpus N if the cluster adds machines on demand"
    )


HEARTBEAT_S = 3.0
WATCHDOG_TIMEOUT_S = 30.0
_DELETED_WITHIN_S = 150.0
_NAMESPACE = "fdarx"


class Watchdog:
    """Actor that deletes the applications whose names begin with `prefix` when heartbeats stop.

    With `shut_down`, it also shuts Serve down if no other application is left.
    """

    def __init__(self, prefix: str, shut_down: bool, timeout_s: float) -> None:
        self._prefix, self._shut_down, self._timeout_s = prefix, shut_down, timeout_s
        self._last_beat = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        self._last_beat = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._last_beat < self._timeout_s:
            time.sleep(1)
        try:
            delete_applications(self._prefix, self._shut_down)
        finally:
            ray.kill(ray.get_runtime_context().current_actor)


@contextmanager
def watchdog(prefix: str, shut_down: bool) -> Iterator[None]:
    """Send heartbeats to a watchdog actor while the block runs; delete the applications at its end."""
    actor_class: Any = ray.remote(Watchdog)
    detached = {"lifetime": "detached", "namespace": _NAMESPACE, "name": f"{prefix}watchdog", "max_restarts": -1}
    actor = actor_class.options(num_cpus=0, **detached).remote(prefix, shut_down, WATCHDOG_TIMEOUT_S)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_S):
            with suppress(ray.exceptions.RayError):
                actor.beat.remote()

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        delete_applications(prefix, shut_down)
        ended.set()
        ray.kill(actor)


def delete_applications(prefix: str, shut_down: bool) -> None:
    """Delete the applications whose names begin with `prefix`, and wait, up to a time limit, until they are gone."""
    end = time.monotonic() + _DELETED_WITHIN_S
    deleted: set[str] = set()
    while own := {name for name in serve.status().applications if name.startswith(prefix)}:
        if time.monotonic() > end:
            break
        for name in own - deleted:
            serve.delete(name, _blocking=False)
        deleted |= own
        time.sleep(0.2)
    if shut_down and not serve.status().applications:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # Ray logs a normal end
            serve.shutdown()  # type: ignore[no-untyped-call]


_REPLY_WITHIN_S = 5.0
_READ_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class ServeApplications:
    """Applications of one evaluation. `name` is their prefix in names and routes, `address` that of Serve's proxy."""

    name: str
    address: str

    @property
    def root(self) -> str:
        """The address of all models; NAME is appended for each."""
        return f"{self.address}/{self.name}"

    def deploy(self, name: str, application: serve.Application) -> None:
        """Start an application without waiting; `states` has its state."""
        target = serve.RunTarget(application, f"{self.name}-{name}", f"/{self.name}/{name}")
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    def delete(self, name: str) -> None:
        """Delete an application without waiting; `states` does not have it when it is gone."""
        serve.delete(f"{self.name}-{name}", _blocking=False)

    def states(self) -> dict[str, ApplicationDetails]:
        """Return the state of each application, by name."""
        client: Any = _get_global_client()
        found, prefix = ServeInstanceDetails(**client.get_serve_details()).applications, f"{self.name}-"
        return {name.removeprefix(prefix): details for name, details in found.items() if name.startswith(prefix)}

    def engine_error(self, name: str) -> str:
        """Return the error that stopped the engine of an application, "" where the log has none.

        The engine runs in processes of its own, and its replica only knows that they have ended.
        """
        details = self.states().get(name)
        deployments = details.deployments.values() if details else ()
        for replica in (replica for each in deployments for replica in (*each.recent_dead_replicas, *each.replicas)):
            node = NodeAffinitySchedulingStrategy(str(replica.node_id), soft=False)
            with suppress(ray.exceptions.RayError):
                read = _logged_by.options(scheduling_strategy=node).remote(str(replica.worker_id))
                if error := ray.get(read, timeout=_READ_WITHIN_S):
                    return str(error)
        return ""

    def answers(self, name: str, key: str) -> bool:
        """Return whether the application answers a request with its API key, "" where it requires none."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(f"{self.root}/{name}/v1/models", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_REPLY_WITHIN_S):
                return True
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def serve_applications(*, alone: bool) -> Iterator[ServeApplications]:
    """Manage the applications of a sweep; all are deleted at the end of the block, or soon after this process dies.

    Serve is started if it does not run, and then also shut down. `alone`: this process has started Ray for this
    machine, so that Ray and Serve end with it. Raises ModelsError where Serve runs but can't be reached from here.
    """
    logging.getLogger("ray.serve").setLevel(logging.CRITICAL)  # otherwise it writes routine messages to the terminal
    client: Any = _get_global_client(raise_if_no_controller_running=False)
    name = f"fdarx-{uuid4().hex[:8]}"
    address = _start_serve(alone) if client is None else _serve_address(client)
    with watchdog(f"{name}-", shut_down=client is None and not alone):
        yield ServeApplications(name, address)


def cluster_nodes() -> list[ClusterNode]:
    """Return the machines of the cluster."""
    kind = "accelerator_type:"
    nodes = list[ClusterNode]()
    for resources in (node["Resources"] for node in _alive()):
        kinds = frozenset(name.removeprefix(kind) for name in resources if name.startswith(kind))
        nodes.append(ClusterNode(int(resources.get("GPU", 0)), resources.get("CPU", 0.0), kinds))
    return nodes


def _head() -> Any:
    return next(node for node in _alive() if "node:__internal_head__" in node["Resources"])


def _alive() -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def _start_serve(alone: bool) -> str:
    """Start Serve, and return its address, which is on the head node, whichever nodes have replicas."""
    head = _head()
    host = "127.0.0.1" if alone else head["NodeManagerAddress"]
    on_head = NodeAffinitySchedulingStrategy(head["NodeID"], soft=False)
    port = ray.get(_free_port.options(scheduling_strategy=on_head).remote(host))
    serve.start(
        proxy_location="HeadOnly",
        http_options={"host": host, "port": port},
        logging_config=LoggingConfig(enable_access_log=False),
    )
    return f"http://{host}:{port}"


def _serve_address(client: Any) -> str:
    """Return the address of a Serve that was already running."""
    options, location = client.http_config, client.get_serve_details()["proxy_location"]
    if location == "Disabled" or options.host is None:
        raise ModelsError("--deploy: Ray Serve runs on this cluster without HTTP; start it with HTTP, or shut it down")
    if options.host in ("127.0.0.1", "localhost", "::1") and len(_alive()) > 1:
        raise ModelsError(
            f"--deploy: Ray Serve runs on this cluster and listens only on {options.host}, which other machines can't "
            "reach; start it with host 0.0.0.0, or shut it down"
        )
    everywhere = options.host in ("0.0.0.0", "::", "")
    return f"http://{_head()['NodeManagerAddress'] if everywhere else options.host}:{options.port}"


@ray.remote(num_cpus=0)
def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


@ray.remote(num_cpus=0)
def _logged_by(worker: str) -> str:
    """Return the first error in the logs of a worker's processes on this machine."""
    node: Any = ray._private.worker.global_worker.node
    logs = Path(node.get_logs_dir_path())
    texts = (file.read_text(errors="replace") for file in sorted(logs.glob(f"worker-{worker}-*.*")))
    return next((error for text in texts if (error := first_logged_error(text))), "")
