"""Deploys the models of a sweep on Ray Serve while they are needed, as many at once as fit on the cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from ray import serve
from ray.serve.schema import ApplicationDetails

from fdarx_core.llm import ModelConfig, ModelsError
from serving.applications import (
    ClusterNode,
    ResourceRequest,
    ServeApplications,
    cluster_nodes,
    select_to_start,
    serve_applications,
    why_never_fits,
)
from serving.failures import failed_deployment
from serving.served_model import INGRESS_CPUS, ServedModel


def resource_request(model: ServedModel) -> ResourceRequest:
    """Return the resources that a model needs when it starts."""
    gpus = 0 if model.device == "cpu" else model.tensor_parallel
    return ResourceRequest(model.name, gpus, model.cpus + INGRESS_CPUS, model.min_replicas, model.accelerator)


@dataclass(slots=True)
class Deployment:
    """State of one model. `since` is the start of its deployment, on the monotonic clock."""

    model: ServedModel
    phase: Literal["waiting", "starting", "ready", "leaving", "gone"] = "waiting"
    since: float = 0.0
    failure: str = ""

    @property
    def occupies(self) -> bool:
        """Whether it occupies resources."""
        return self.phase in ("starting", "ready", "leaving")


class ServeFleet:
    """The `ModelFleet` of a sweep (see `fdarx_core.pipeline.evaluation`) on Ray Serve."""

    def __init__(
        self,
        models: Sequence[ServedModel],
        judge: str,
        build: Callable[[ServedModel], serve.Application],
        log: Callable[[str], None],
        gpus: int | None = None,
        own_cpus: int = 1,
        alone: bool = False,
    ) -> None:
        """Create the fleet. Models are deployed when `tend` is called.

        Args:
            models: the models.
            judge: the name of the judge; if it is one of the models, it is started first and stays.
            build: makes the application of a model.
            log: is called with lines for the log.
            gpus: maximum number of GPUs, including those that an autoscaling cluster will add; None: those present.
            own_cpus: CPUs reserved for the sweep's own tasks, which could not run if models occupied all.
            alone: see `serve_applications`.
        """
        self._deployments = {model.name: Deployment(model) for model in models}
        self._judge, self._build, self._log = judge, build, log
        self._gpus, self._own_cpus, self._alone = gpus, own_cpus, alone
        self._stack = ExitStack()
        self._applications: ServeApplications | None = None
        self._wanted = set[str]()

    def __enter__(self) -> ServeFleet:
        return self

    def __exit__(self, *error: object) -> None:
        for name, deployment in self._deployments.items():
            if deployment.phase in ("starting", "ready"):
                self._log(f"removing {name}")
        self._stack.close()

    def located(self, models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        """Return the models with the addresses of the deployed ones. Raises ModelsError if Serve can't be used."""
        root, own = self._open().root, self._deployments
        return {name: own[name].model.client_config(root) if name in own else models[name] for name in models}

    def ready(self, name: str) -> bool:
        return name not in self._deployments or self._deployments[name].phase == "ready"

    def failed(self, name: str) -> str:
        return self._deployments[name].failure if name in self._deployments else ""

    def state(self) -> str:
        now = time.monotonic()
        starting = [
            f"{name} starting, {now - deployment.since:.0f} s of {deployment.model.start_within_s:,.0f}"
            for name, deployment in self._deployments.items()
            if deployment.phase == "starting"
        ]
        waiting = len(self._waiting())
        return ", ".join([*starting, *([f"{waiting} waiting for resources"] if waiting else [])])

    def tend(self, wanted: Collection[str]) -> None:
        """Update the states, remove models that are not wanted any more, and start wanted ones that fit."""
        now, self._wanted = time.monotonic(), set(wanted)
        states = self._open().states()
        for name, deployment in self._deployments.items():
            self._update(deployment, states.get(name), now)
            if name not in wanted and deployment.phase in ("starting", "ready"):
                self._remove(deployment)
        if waiting := self._waiting():
            self._start(waiting, now)

    def _waiting(self) -> list[Deployment]:
        """Return the wanted models that wait for resources."""
        deployments = self._deployments.items()
        return [
            deployment for name, deployment in deployments if name in self._wanted and deployment.phase == "waiting"
        ]

    def _open(self) -> ServeApplications:
        if self._applications is None:
            self._applications = self._stack.enter_context(serve_applications(alone=self._alone))
        return self._applications

    def _update(self, deployment: Deployment, state: ApplicationDetails | None, now: float) -> None:
        if deployment.phase == "leaving" and state is None:
            deployment.phase = "gone"
        elif deployment.occupies and state is None:
            deployment.phase = "gone"
            self._fail(deployment, "another process has removed it")
        elif deployment.phase == "starting" and state is not None:
            self._update_starting(deployment, state, now)

    def _update_starting(self, deployment: Deployment, state: ApplicationDetails, now: float) -> None:
        model, error = deployment.model, failed_deployment(state.deployments)[1]
        replicas = [replica for application in state.deployments.values() for replica in application.replicas]
        placed = bool(replicas) and all(replica.node_id for replica in replicas)
        others = (other for other in self._deployments.values() if other is not deployment)
        if not placed and any(other.phase in ("ready", "leaving") for other in others):
            deployment.since = now  # it waits for resources that others occupy
        if state.status == "RUNNING" and self._open().answers(model.name, model.client_config(self._open().root).key()):
            deployment.phase = "ready"
            self._log(f"{model.name} is ready after {now - deployment.since:.0f} s")
        elif state.status == "DEPLOY_FAILED":
            reason = self._open().engine_error(model.name) or error
            self._fail(deployment, reason or "Ray Serve gives no reason; see its logs")
        elif now - deployment.since > model.start_within_s:
            reason = "it does not answer" if placed else "the cluster has no resources for it"
            self._fail(deployment, f"after {model.start_within_s:,.0f} s (start_within_s): {error or reason}")

    def _fail(self, deployment: Deployment, reason: str) -> None:
        deployment.failure = f"{deployment.model.name} can't be served: {reason}"
        self._log(deployment.failure)
        if deployment.occupies:
            self._remove(deployment)

    def _remove(self, deployment: Deployment) -> None:
        self._open().delete(deployment.model.name)
        if not deployment.failure:
            self._log(f"removing {deployment.model.name}")
        deployment.phase = "leaving"

    def _start(self, waiting: Sequence[Deployment], now: float) -> None:
        """Start the waiting models that fit now; those that can never fit fail."""
        nodes = self._nodes()
        judge = self._deployments.get(self._judge)
        for deployment in waiting:
            beside = resource_request(judge.model) if judge is not None and judge is not deployment else None
            if reason := why_never_fits(nodes, resource_request(deployment.model), beside):
                deployment.phase = "gone"
                self._fail(deployment, reason)
        requests = [resource_request(deployment.model) for deployment in waiting if not deployment.failure]
        running = [
            resource_request(deployment.model) for deployment in self._deployments.values() if deployment.occupies
        ]
        for request in select_to_start(nodes, running, requests, self._judge):
            self._deploy(self._deployments[request.name], now)

    def _deploy(self, deployment: Deployment, now: float) -> None:
        model = deployment.model
        deployment.phase, deployment.since = "starting", now
        self._log(f"starting {model.name}")
        try:
            self._open().deploy(model.name, self._build(model))
        except Exception as error:  # an error of one model does not stop the others
            deployment.phase = "gone"
            kind = "" if isinstance(error, ModelsError) else f"{type(error).__name__}: "
            self._fail(deployment, kind + " ".join(str(error).split()))

    def _nodes(self) -> list[ClusterNode]:
        """Return the resources that models may use."""
        if self._gpus is not None:
            return [ClusterNode(self._gpus, math.inf, None)]
        first, *rest = sorted(cluster_nodes(), key=lambda node: node.cpus, reverse=True)
        return [ClusterNode(first.gpus, first.cpus - self._own_cpus, first.accelerators), *rest]
