"""Which models fit beside each other on a cluster's nodes. Plain arithmetic; Ray places them in the end.

A replica is taken to sit on one node, as tensor parallelism over a network is too slow to be wanted. Models are laid on
nodes largest replica first, each where it first fits. Where Ray has spread small ones more widely than that, a large
one waits for its cards until they come free.
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


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Resources of one machine."""

    gpus: int = 0
    cpus: float = 0.0
    accelerators: frozenset[str] | None = frozenset()
    """Types of its GPUs; None means any type."""

    def takes(self, want: ResourceRequest) -> bool:
        """Return whether a replica fits."""
        kind = want.accelerator is None or self.accelerators is None or want.accelerator in self.accelerators
        return kind and self.gpus >= want.gpus and self.cpus >= want.cpus

    def less(self, want: ResourceRequest) -> ClusterNode:
        """Return what remains beside a replica."""
        return ClusterNode(self.gpus - want.gpus, self.cpus - want.cpus, self.accelerators)


def all_fit(nodes: Sequence[ClusterNode], wants: Collection[ResourceRequest]) -> bool:
    """Return whether all requests fit at once."""
    left = sorted(nodes, key=lambda node: (node.gpus, node.cpus))  # the smallest that will do, so that large ones stay
    for want in sorted(wants, key=lambda one: one.size, reverse=True):
        for _ in range(want.replicas):
            place = next((index for index, node in enumerate(left) if node.takes(want)), None)
            if place is None:
                return False
            left[place] = left[place].less(want)
    return True


def select_to_start(
    nodes: Sequence[ClusterNode], up: Sequence[ResourceRequest], waiting: Sequence[ResourceRequest], first: str = ""
) -> list[ResourceRequest]:
    """Those of the waiting that fit beside what is up, and beside each other: `first`, then the largest."""
    chosen: list[ResourceRequest] = []
    for want in sorted(waiting, key=lambda one: (one.name == first, one.size), reverse=True):
        if all_fit(nodes, [*up, *chosen, want]):
            chosen.append(want)
        elif want.name == first:
            break  # what starts instead of it would be in its way
    return chosen


def why_never_fits(nodes: Sequence[ClusterNode], want: ResourceRequest, beside: ResourceRequest | None = None) -> str:
    """Why it will never fit, beside another that stays where one is given, or ""; with what to do."""
    stays = [] if beside is None else [beside]
    if all_fit(nodes, [*stays, want]):
        return ""
    kept = (
        f" beside {beside.name}, which stays up as the judge" if beside is not None and all_fit(nodes, [want]) else ""
    )
    if not want.gpus:
        return (
            f"it wants {_cpus(want)}{kept}, and of the cluster's {sum(node.cpus for node in nodes):g} left to models "
            "that is too much; lower its cpus or replicas, or add machines (--cpus on this one)"
        )
    cards = [node.gpus for node in nodes]
    if not any(cards):
        return f"it wants {_gpus(want)}, and the cluster has no GPU; use a model with device: cpu, or add --gpus N" + (
            " where the cluster adds machines when they are wanted"
        )
    return (
        f"it wants {_gpus(want)}{kept}, and the cluster's nodes have {', '.join(map(str, sorted(cards, reverse=True)))}"
        "; lower tensor_parallel or replicas, or give --gpus N where the cluster adds machines when they are wanted"
    )


def _gpus(want: ResourceRequest) -> str:
    kind = f" ({want.accelerator})" if want.accelerator else ""
    each = f"{want.gpus} GPU{'s' if want.gpus > 1 else ''}{kind} on one node"
    return each if want.replicas == 1 else f"{want.replicas} times {each}"


def _cpus(want: ResourceRequest) -> str:
    each = f"{want.cpus:g} CPU{'s' if want.cpus > 1 else ''}"
    return each if want.replicas == 1 else f"{want.replicas} times {each}"
