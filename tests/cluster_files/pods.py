"""What pods need: files, secrets and accounts that exist, resources that add up, ports that agree, few rights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ray.autoscaler._private.kuberay.utils import parse_quantity

from tests.cluster_files.tree import Document, Tree


@dataclass
class Pod:
    """A pod template, and whose it is."""

    owner: str
    template: Document
    group: Document
    """The group of Ray nodes, {} for others."""

    @property
    def spec(self) -> Document:
        spec: Document = self.template["spec"]
        return spec

    @property
    def containers(self) -> list[Document]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.template.get("metadata", {}).get("labels", {}))


def pods(tree: Tree) -> Iterator[Pod]:
    for document in tree.of("StatefulSet"):
        yield Pod(document["metadata"]["name"], document["spec"]["template"], {})
    for document in tree.of("RayJob"):
        yield Pod(document["metadata"]["name"], document["spec"]["submitterPodTemplate"], {})
    for name, cluster in clusters(tree):
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            yield Pod(f"{name}/{group.get('groupName', 'head')}", group["template"], group)


def clusters(tree: Tree) -> Iterator[tuple[str, Document]]:
    """Those that are applied, and those that RayServices and RayJobs bring."""
    for kind, field in (("RayCluster", None), ("RayService", "rayClusterConfig"), ("RayJob", "rayClusterSpec")):
        for document in tree.of(kind):
            found = document["spec"].get(field) if field else document["spec"]
            if found is not None:
                yield f"{kind}/{document['metadata']['name']}", found


def faults(tree: Tree) -> Iterator[str]:
    for pod in pods(tree):
        for found in (_references(pod, tree), _mounts(pod), _resources(pod), _rights(pod)):
            yield from (f"{pod.owner}: {fault}" for fault in found)
    yield from _ports(tree)
    yield from _namespace(tree)
    yield from _monitors(tree)


def _references(pod: Pod, tree: Tree) -> Iterator[str]:
    account = pod.spec.get("serviceAccountName")
    if account and f"ServiceAccount/{account}" not in tree.documents:
        yield f"no ServiceAccount {account}"
    for volume in pod.spec.get("volumes", ()):
        config = volume.get("configMap", {"optional": True})
        if not config.get("optional") and f"ConfigMap/{config['name']}" not in tree.documents:
            yield f"no ConfigMap {config['name']}"
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and f"PersistentVolumeClaim/{claim}" not in tree.documents:
            yield f"no PersistentVolumeClaim {claim}"
        if "secret" in volume and volume["secret"]["secretName"] not in tree.secrets:
            yield f"docs/cluster.md makes no secret {volume['secret']['secretName']}"
    for container in pod.containers:
        for source in container.get("envFrom", ()):
            config = source.get("configMapRef", {}).get("name")
            if config and f"ConfigMap/{config}" not in tree.documents:
                yield f"no ConfigMap {config}"
            if "secretRef" in source and source["secretRef"]["name"] not in tree.secrets:
                yield f"docs/cluster.md makes no secret {source['secretRef']['name']}"
    yield from secret_keys(pod.spec, tree)


def secret_keys(value: Any, tree: Tree) -> Iterator[str]:
    """Faults of all `secretKeyRef` within."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from secret_keys(inner, tree)
    reference = value.get("secretKeyRef") if isinstance(value, dict) else None
    if reference and reference["key"] not in tree.secrets.get(reference["name"], set()):
        yield f"docs/cluster.md makes no secret {reference['name']} with a key {reference['key']}"


def _mounts(pod: Pod) -> Iterator[str]:
    volumes = {volume["name"] for volume in pod.spec.get("volumes", ())}
    if pod.owner == "redis":
        volumes.add("data")  # of volumeClaimTemplates
    mounts = [mount for container in pod.containers for mount in container.get("volumeMounts", ())]
    used = {mount["name"] for mount in mounts}
    yield from (f"mounts {name}, which is no volume" for name in sorted(used - volumes))
    yield from (f"volume {name} is not mounted" for name in sorted(volumes - used))


def _resources(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        limits, requests = (
            {k: parse_quantity(v) for k, v in container["resources"][w].items()} for w in ("limits", "requests")
        )
        yield from (
            f"{name} is requested beyond its limit"
            for name in requests
            if requests[name] > limits.get(name, Decimal("inf"))
        )
        yield from (f"no limit of {name}" for name in ("cpu", "memory") if name not in limits)
        gpus = "nvidia.com/gpu"
        if limits.get(gpus) != requests.get(gpus):
            yield f"{gpus}: limit and request differ, which Kubernetes refuses"
    memory = parse_quantity(pod.spec["containers"][0]["resources"]["limits"]["memory"])
    for volume in pod.spec.get("volumes", ()):
        disk = volume.get("emptyDir", {})
        if disk.get("medium") == "Memory" and parse_quantity(disk["sizeLimit"]) > memory / 2:
            yield f"volume {volume['name']} takes more than half of the memory"


_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
_HOST = ("hostNetwork", "hostPID", "hostIPC", "hostUsers")


def _rights(pod: Pod) -> Iterator[str]:
    """What Kubernetes' restricted profile refuses. Source: Kubernetes, "Pod Security Standards"."""
    yield from (f"{name} is set" for name in _HOST if name in pod.spec)
    for volume in pod.spec.get("volumes", ()):
        yield from (f"volume {volume['name']}: {kind} is refused" for kind in set(volume) - {"name"} - _VOLUMES)
    own = pod.spec.get("securityContext", {})
    if own.get("sysctls"):
        yield "sysctls are set"
    for container in pod.containers:
        context = {**own, **container.get("securityContext", {})}
        yield from (f"{container['name']}: {fault}" for fault in context_faults(context))
        yield from (f"{container['name']}: hostPort" for port in container.get("ports", ()) if "hostPort" in port)


_CONTEXT = {
    "allowPrivilegeEscalation",
    "capabilities",
    "fsGroup",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "seccompProfile",
}


def context_faults(context: Document) -> Iterator[str]:
    """What a security context lacks or has that the profile refuses."""
    yield from (f"{name} is set" for name in sorted(set(context) - _CONTEXT))
    for name, wanted in (("runAsNonRoot", True), ("allowPrivilegeEscalation", False)):
        if context.get(name) is not wanted:
            yield f"{name} is not {wanted}"
    if not context.get("runAsUser"):
        yield "runs as root, or as whom the image says"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield "keeps capabilities"
    if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "seccompProfile is not RuntimeDefault"


def _ports(tree: Tree) -> Iterator[str]:
    """A name stands for one number everywhere; Services lead to a name that their pods have."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for pod in pods(tree):
        for port in (port for container in pod.containers for port in container.get("ports", ())):
            numbers[port["name"]].add(port["containerPort"])
    yield from (f"port {name} is {sorted(found)}" for name, found in numbers.items() if len(found) > 1)
    for service in tree.of("Service"):
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in numbers:
                yield f"Service {service['metadata']['name']}: no container has a port {port['targetPort']}"


def _namespace(tree: Tree) -> Iterator[str]:
    """Kubernetes refuses the pods that `_rights` finds fault with; the autoscaler's container is KubeRay's own."""
    for namespace in tree.of("Namespace"):
        if namespace["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") != "restricted":
            yield "the namespace does not enforce the restricted profile"
    for name, cluster in clusters(tree):
        context = cluster["autoscalerOptions"].get("securityContext", {})
        yield from (f"{name}: autoscaler: {fault}" for fault in context_faults(context))


def _monitors(tree: Tree) -> Iterator[str]:
    for monitor in tree.of("PodMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        watched = [pod for pod in pods(tree) if wanted <= pod.labels.items()]
        unseen = [pod.owner for pod in pods(tree) if pod.group and pod not in watched]
        yield from (f"PodMonitor: does not select {owner}" for owner in unseen)
        there = {port["name"] for pod in watched for one in pod.containers for port in one.get("ports", ())}
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            if endpoint["port"] not in there:
                yield f"PodMonitor: no pod has a port {endpoint['port']}"
