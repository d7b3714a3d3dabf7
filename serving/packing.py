"""Which models fit together on the nodes of a cluster, by their GPUs and CPUs; Ray places them in the end.

A replica occupies one node, because tensor parallelism over a network is too slow. Models are placed largest replica
first, each on the first node where it fits. Where Ray has spread small models over more nodes, a large model waits
until its GPUs are free.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


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

    def without(self, request: ResourceRequest) -> ClusterNode:
        """Return the resources that a replica leaves."""
        return ClusterNode(self.gpus - request.gpus, self.cpus - request.cpus, self.accelerators)


def all_fit(nodes: Sequence[ClusterNode], requests: Collection[ResourceRequest]) -> bool:
    """Return whether all requests fit at once."""
    free = sorted(nodes, key=lambda node: (node.gpus, node.cpus))  # smallest first, to keep large nodes free
    for request in sorted(requests, key=lambda one: one.size, reverse=True):
        for _ in range(request.replicas):
            place = next((index for index, node in enumerate(free) if node.fits(request)), None)
            if place is None:
                return False
            free[place] = free[place].without(request)
    return True


def select_to_start(
    nodes: Sequence[ClusterNode],
    running: Sequence[ResourceRequest],
    waiting: Sequence[ResourceRequest],
    first: str = "",
) -> list[ResourceRequest]:
    """Return the waiting requests that fit beside the running ones: the one named `first`, then the largest."""
    chosen: list[ResourceRequest] = []
    for request in sorted(waiting, key=lambda one: (one.name == first, one.size), reverse=True):
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
