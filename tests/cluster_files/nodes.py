"""What Ray's nodes need: one version, options that `ray start` has, ports and probes that agree, a drain in time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.dashboard.http_server_agent import PUBLIC_EXACT_PATHS
from ray.scripts.scripts import drain_node, start

from serving.served_model import ServedModel
from tests.cluster_files.pods import Pod, clusters, pods, secret_keys
from tests.cluster_files.tree import RAY, Document, Tree

_IMAGES = {f"REGISTRY/fdarx-{kind}:VERSION" for kind in ("cpu", "gpu")}
_PORTS = {"metrics-export-port": "metrics", "dashboard-port": "dashboard", "ray-client-server-port": "client"}
_KUBERAY_ALONE = {"no-monitor", "labels", "memory"}
"""Options of `ray start` that its help leaves out."""


def faults(tree: Tree) -> Iterator[str]:
    for name, cluster in clusters(tree):
        for found in (_versions(cluster), _redis(cluster, tree), _token(cluster, tree), secret_keys(cluster, tree)):
            yield from (f"{name}: {fault}" for fault in found)
    for pod in pods(tree):
        checks = (_image, _params, _probes, _drain, _spot) if pod.group else (_image,)
        yield from (f"{pod.owner}: {fault}" for check in checks for fault in check(pod))


def _versions(cluster: Document) -> Iterator[str]:
    if cluster["rayVersion"] != RAY:
        yield f"rayVersion {cluster['rayVersion']}, but pyproject.toml pins {RAY}"


def _image(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        if pod.owner != "redis" and container["image"] not in _IMAGES:
            yield f"image {container['image']}: there are {', '.join(sorted(_IMAGES))}"


def _redis(cluster: Document, tree: Tree) -> Iterator[str]:
    """Of clusters that outlive their head; one of a RayJob is replaced with it."""
    if "gcsFaultToleranceOptions" not in cluster:
        return
    host, _, port = cluster["gcsFaultToleranceOptions"]["redisAddress"].partition(":")
    service = tree.documents.get(f"Service/{host}")
    if service is None or int(port) not in [one["port"] for one in service["spec"]["ports"]]:
        yield f"redisAddress {host}:{port} is no Service"


def _token(cluster: Document, tree: Tree) -> Iterator[str]:
    options = cluster.get("authOptions", {})
    if options.get("mode") != "token" or "auth_token" not in tree.secrets.get(options.get("secretName", ""), set()):
        yield "authOptions: no token, or no secret that holds it as auth_token"


def options_of(command: click.Command) -> set[str]:
    return {option.lstrip("-") for parameter in command.params for option in parameter.opts}


def _params(pod: Pod) -> Iterator[str]:
    params = pod.group["rayStartParams"]
    yield from (f"ray start has no --{name}" for name in params if name not in options_of(start) | _KUBERAY_ALONE)
    numbers = {one["name"]: one["containerPort"] for one in pod.spec["containers"][0]["ports"]}
    for option, name in _PORTS.items():
        if option in params and numbers.get(name) != int(params[option]):
            yield f"--{option} {params[option]}, but port {name} is {numbers.get(name)}"


def _probes(pod: Pod) -> Iterator[str]:
    for kind in ("livenessProbe", "readinessProbe"):
        probe = pod.spec["containers"][0].get(kind)
        if probe is None:
            continue
        if probe["httpGet"]["path"] not in PUBLIC_EXACT_PATHS:
            yield f"{kind}: Ray's agent has no {probe['httpGet']['path']} that is open without a token"
        if str(probe["httpGet"]["port"]) != pod.group["rayStartParams"]["dashboard-agent-listen-port"]:
            yield f"{kind}: not the port of Ray's agent"


def _drain(pod: Pod) -> Iterator[str]:
    if "groupName" not in pod.group:
        return
    script = drain_script(pod.spec)
    yield from _drain_command(script)
    seconds = [int(one) for one in re.findall(r"(?:sleep|--deadline-remaining-seconds) (\d+)", script)]
    if not seconds or max(seconds) >= pod.spec["terminationGracePeriodSeconds"]:
        yield "the drain is cut off by terminationGracePeriodSeconds"


def drain_script(spec: Document) -> str:
    script: str = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    return script


def _drain_command(script: str) -> Iterator[str]:
    words = shlex.split(script.replace("\\\n", " "))
    if words[words.index("ray") + 1] != drain_node.name:
        yield "preStop does not drain"
    given = [word.lstrip("-") for word in words if word.startswith("--")]
    yield from (f"ray drain-node has no --{name}" for name in given if name not in options_of(drain_node))
    reasons: Sequence[str] = next(one for one in drain_node.params if one.name == "reason").type.choices  # type: ignore[attr-defined]
    for reason in re.findall(r"drain (\w+)", script):
        if f"DRAIN_NODE_REASON_{reason}" not in reasons:
            yield f"ray drain-node knows no reason {reason}"


def _spot(pod: Pod) -> Iterator[str]:
    pool = pod.spec["nodeSelector"]["fdarx/pool"]
    spot = pool.endswith("-spot")
    tolerated = {one["key"] for one in pod.spec.get("tolerations", ())}
    if (pool == "cpu-spot") != ("fdarx/spot" in tolerated):
        yield "spot machines and their taint do not go together"
    if spot == bool(pod.template["metadata"].get("annotations")):
        yield "what may go is to be left alone, or the other way round"
    if ("nvidia.com/gpu" in pod.spec["containers"][0]["resources"]["limits"]) != ("nvidia.com/gpu" in tolerated):
        yield "GPUs and their taint do not go together"


def unplaced(cluster: Document, models: Sequence[ServedModel]) -> list[str]:
    """Models for whose replica the autoscaler, as Ray itself reads the cluster, knows no single node."""
    named = {"metadata": {"name": "x", "namespace": "x"}, "spec": cluster}
    types: list[dict[str, Any]] = list(_derive_autoscaling_config_from_ray_cr(named)["available_node_types"].values())
    return [model.name for model in models if not any(_takes(one, model) for one in types if one["max_workers"])]


def _takes(node: dict[str, Any], model: ServedModel) -> bool:
    resources = node["resources"]
    card = model.accelerator is None or f"accelerator_type:{model.accelerator}" in resources
    return card and resources.get("GPU", 0) >= model.tensor_parallel and resources["CPU"] >= model.cpus
