"""What a Ray cluster has, and which machines work on it waits for, as its autoscaler is told."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply  # type: ignore[attr-defined]

_REPLY_WITHIN_S = 5
_PATIENCE_S = 600.0
"""Seconds of waiting after which the text says what to look at."""


def cluster_has(resource: str) -> int:
    """Return how many of a resource, CPU or GPU, the cluster has now."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return int(resources.get(resource, 0))


@dataclass(frozen=True, slots=True)
class ClusterDemand:
    """What tasks, actors and placement groups of all jobs wait for.

    Args:
        cpus: The CPUs that have no room on the machines that are there.
        gpus: The GPUs that have none.
        refused: The GPUs or CPUs among them for which the autoscaler can add no machine, by name of the resource.
        starting: The machines that are on their way.
    """

    cpus: float = 0.0
    gpus: float = 0.0
    refused: Mapping[str, float] | None = None
    starting: int = 0

    @classmethod
    def now(cls) -> ClusterDemand:
        """Return the demand at this moment."""
        reply = GetClusterStatusReply()
        client = GcsClient(address=ray.get_runtime_context().gcs_address)
        reply.ParseFromString(client.get_cluster_status(timeout_s=_REPLY_WITHIN_S))
        state, scaling = reply.cluster_resource_state, reply.autoscaling_state
        waiting = [(one.request, one.count) for one in state.pending_resource_requests]
        waiting += [(request, 1) for gang in state.pending_gang_resource_requests for request in gang.requests]
        refused = [(request, 1) for request in scaling.infeasible_resource_requests]
        refused += [(request, 1) for gang in scaling.infeasible_gang_resource_requests for request in gang.requests]
        starting = sum(one.count for one in scaling.pending_instance_requests) + len(scaling.pending_instances)
        return cls(
            _total(waiting, "CPU"),
            _total(waiting, "GPU"),
            {kind: _total(refused, kind) for kind in ("CPU", "GPU")},
            starting,
        )


def _total(requests: Iterable[tuple[Any, int]], resource: str) -> float:
    return float(sum(request.resources_bundle.get(resource, 0.0) * count for request, count in requests))


class ClusterWait:
    """Describes what the work on a cluster waits for.

    Tasks wait for CPUs most of the time; this counts as waiting only where the cluster has none.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._had = 0

    def text(self) -> str:
        """Return which machines are missing and since when, or "" where none is, or where the head does not answer."""
        try:
            demand = ClusterDemand.now()
            kind = "GPU" if demand.gpus else "CPU"
            has = cluster_has(kind)
        except Exception:  # the head is down for a moment, which `ray_session` reports
            return ""
        wanted = demand.gpus if kind == "GPU" else demand.cpus
        if not wanted or (kind == "CPU" and has):
            self._since = None
            return ""
        now = time.monotonic()
        if self._since is None or has != self._had:
            self._since, self._had = now, has
        return _described(kind, math.ceil(wanted), has, demand, now - self._since)


def _described(kind: str, wanted: int, has: int, demand: ClusterDemand, seconds: float) -> str:
    count = f"{wanted:,} {kind}{'s' if wanted > 1 else ''}"
    there = f"the cluster has {has:,}, in use" if has else "the cluster has none yet"
    text = f"waiting for {count}: {there}"
    if demand.starting:
        text += f", {demand.starting:,} machine{'s are' if demand.starting > 1 else ' is'} starting"
    elif demand.refused and demand.refused[kind]:
        return f"{text}, and its configuration allows no more machines with {kind}s{_advice(kind)}"
    return text + (f", for {seconds:,.0f} s now{_advice(kind)}" if seconds > _PATIENCE_S else "")


def _advice(kind: str) -> str:
    remedy = "or stop the job and give a lower --gpus" if kind == "GPU" else "or add machines with CPUs"
    return f"; see `ray status`, {remedy}"
