"""Ray Serve applications of one evaluation: start, state, errors, and removal even when the process is killed."""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
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
from serving.failures import failed_deployment, first_logged_error
from serving.packing import ClusterNode

HEARTBEAT_S = 3.0
WATCHDOG_TIMEOUT_S = 30.0
_GONE_WITHIN_S = 150.0
_NAMESPACE = "fdarx"


class Watchdog:
    """Actor that deletes the applications whose names begin with `mark` when heartbeats stop, and with `serve_too` also
    shuts Serve down if no other application is left."""

    def __init__(self, mark: str, serve_too: bool, patience_s: float) -> None:
        self._mark, self._serve_too, self._patience_s = mark, serve_too, patience_s
        self._heard = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        self._heard = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._heard < self._patience_s:
            time.sleep(1)
        try:
            delete_applications(self._mark, self._serve_too)
        finally:
            ray.kill(ray.get_runtime_context().current_actor)


@contextmanager
def watchdog(mark: str, serve_too: bool) -> Iterator[None]:
    """Send heartbeats to a watchdog actor while the block runs; delete the applications at its end."""
    made: Any = ray.remote(Watchdog)
    lasting = {"lifetime": "detached", "namespace": _NAMESPACE, "name": f"{mark}watchdog", "max_restarts": -1}
    actor = made.options(num_cpus=0, **lasting).remote(mark, serve_too, WATCHDOG_TIMEOUT_S)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_S):
            with suppress(ray.exceptions.RayError):
                actor.beat.remote()

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        delete_applications(mark, serve_too)
        ended.set()
        ray.kill(actor)


def delete_applications(mark: str, serve_too: bool) -> None:
    """Delete the applications whose names begin with `mark`, and wait, within a time limit, until they are gone."""
    until = time.monotonic() + _GONE_WITHIN_S
    asked: set[str] = set()
    while (names := set(serve.status().applications)) and time.monotonic() < until:
        ours = {name for name in names if name.startswith(mark)}
        for name in ours - asked:
            serve.delete(name, _blocking=False)
        asked |= ours
        if not ours:
            break
        time.sleep(0.2)
    if serve_too and not serve.status().applications:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # Ray tells of what ends as it should
            serve.shutdown()  # type: ignore[no-untyped-call]


_ANSWERS_WITHIN_S = 5.0
_READS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class ApplicationState:
    """State of an application. `placed`: all of its replicas have been scheduled."""

    status: str
    placed: bool
    trouble: str


@dataclass(frozen=True, slots=True)
class ServeApplications:
    """Applications of one evaluation. `mark` is their prefix in names and routes, `address` that of Serve's proxy."""

    mark: str
    address: str

    @property
    def root(self) -> str:
        """The address under which each model has its name."""
        return f"{self.address}/{self.mark}"

    def deploy(self, name: str, application: serve.Application) -> None:
        """Returns at once; what becomes of it is `seen`."""
        target = serve.RunTarget(application, self._named(name), f"/{self.mark}/{name}")
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    def delete(self, name: str) -> None:
        """Returns at once; it is gone when `seen` has it no more."""
        serve.delete(self._named(name), _blocking=False)

    def seen(self) -> dict[str, ApplicationState]:
        """Return the state of each application, by name."""
        client: Any = _get_global_client()
        found = ServeInstanceDetails(**client.get_serve_details()).applications
        ours = self._named("")
        return {
            name.removeprefix(ours): _application_state(told) for name, told in found.items() if name.startswith(ours)
        }

    def engine_error(self, name: str) -> str:
        """What stopped the engine of one that can't start, "" where its log does not say.

        The engine has processes of its own, and its replica knows no more than that they have ended.
        """
        client: Any = _get_global_client()
        told = ServeInstanceDetails(**client.get_serve_details()).applications.get(self._named(name))
        deployments = told.deployments.values() if told else ()
        for replica in (one for each in deployments for one in (*each.recent_dead_replicas, *each.replicas)):
            there = NodeAffinitySchedulingStrategy(str(replica.node_id), soft=False)
            with suppress(ray.exceptions.RayError):
                read = _LOGGED_BY.options(scheduling_strategy=there).remote(replica.worker_id)
                if said := ray.get(read, timeout=_READS_WITHIN_S):
                    return str(said)
        return ""

    def answers(self, name: str) -> bool:
        """Return whether the application answers a request."""
        try:
            with urllib.request.urlopen(f"{self.root}/{name}/v1/models", timeout=_ANSWERS_WITHIN_S):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _named(self, name: str) -> str:
        return f"{self.mark}-{name}"


@contextmanager
def serve_applications(*, alone: bool) -> Iterator[ServeApplications]:
    """Room for a sweep's applications; all are taken down at the end, or soon after this process's death.

    Starts Serve where it does not run, and then ends it. `alone`: Ray was started by this process, for this machine,
    and ends with it, Serve included. Raises ModelsError where Serve runs and can't be asked from here.
    """
    logging.getLogger("ray.serve").setLevel(logging.CRITICAL)  # it tells the terminal of what is as it should be
    client: Any = _get_global_client(raise_if_no_controller_running=False)
    mark = f"fdarx-{uuid4().hex[:8]}"
    address = _start_serve(alone) if client is None else _serve_address(client)
    with watchdog(f"{mark}-", serve_too=client is None and not alone):
        yield ServeApplications(mark, address)


def cluster_nodes() -> list[ClusterNode]:
    """Return the present machines of the cluster."""
    return [_node(one["Resources"]) for one in _alive()]


def _node(resources: Mapping[str, float]) -> ClusterNode:
    kinds = frozenset(
        name.removeprefix("accelerator_type:") for name in resources if name.startswith("accelerator_type:")
    )
    return ClusterNode(int(resources.get("GPU", 0)), resources.get("CPU", 0.0), kinds)


def _head() -> Any:
    return next(one for one in _alive() if "node:__internal_head__" in one["Resources"])


def _alive() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [one for one in found if one["Alive"]]


def _start_serve(alone: bool) -> str:
    """Serve, listening on the head node alone: one address for all machines, whichever has replicas."""
    head = _head()
    host = "127.0.0.1" if alone else head["NodeManagerAddress"]
    there = NodeAffinitySchedulingStrategy(head["NodeID"], soft=False)
    port = ray.get(_FREE_PORT.options(scheduling_strategy=there).remote(host))
    serve.start(
        proxy_location="HeadOnly",
        http_options={"host": host, "port": port},
        logging_config=LoggingConfig(enable_access_log=False),
    )
    return f"http://{host}:{port}"


def _serve_address(client: Any) -> str:
    """Where a Serve that others have started can be asked."""
    options, place = client.http_config, client.get_serve_details()["proxy_location"]
    if place == "Disabled" or options.host is None:
        raise ModelsError("--deploy: Ray Serve runs on this cluster without HTTP; start it with HTTP, or end it")
    if options.host in ("127.0.0.1", "localhost", "::1") and len(_alive()) > 1:
        raise ModelsError(
            f"--deploy: Ray Serve runs on this cluster and listens on {options.host} alone, which other machines can't "
            "reach; start it with host 0.0.0.0, or end it"
        )
    everywhere = options.host in ("0.0.0.0", "::", "")
    return f"http://{_head()['NodeManagerAddress'] if everywhere else options.host}:{options.port}"


def _free_port(host: str) -> int:
    import socket

    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


_FREE_PORT: Any = ray.remote(num_cpus=0)(_free_port)


def _logged_by(worker: str) -> str:
    """The first error that a worker's processes logged on this machine."""
    node: Any = ray._private.worker.global_worker.node
    logs = Path(node.get_logs_dir_path())
    texts = (file.read_text(errors="replace") for file in sorted(logs.glob(f"worker-{worker}-*.*")))
    return next((said for text in texts if (said := first_logged_error(text))), "")


_LOGGED_BY: Any = ray.remote(num_cpus=0)(_logged_by)


def _application_state(told: ApplicationDetails) -> ApplicationState:
    replicas = [replica for one in told.deployments.values() for replica in one.replicas]
    placed = bool(replicas) and all(replica.node_id for replica in replicas)
    return ApplicationState(told.status.value, placed, failed_deployment(told.deployments)[1])
