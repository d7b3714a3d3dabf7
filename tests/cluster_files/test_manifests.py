"""Every manifest under cluster/: its shape, what it refers to, what it runs, and the versions that it names.

What a fault looks like is tried on broken copies: a check that finds nothing there would be none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster_files import commands, network, nodes, pods, serve_configs, shapes
from tests.cluster_files.tree import CLUSTER, COMPONENTS, KUSTOMIZED, Document, Tree, load, read

_CLUSTER, _SERVICE, _SWEEP = "RayCluster/fdarx", "RayService/qa-rag", "RayJob/sweep"
_UNATTENDED = "RayJob/build-unattended"
_MISSING = object()


@pytest.fixture(scope="module")
def tree() -> Tree:
    return load(*COMPONENTS)


@pytest.fixture(autouse=True)
def keys(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that nodes have of the secret, which models files may name."""
    for name in tree.secrets["fdarx-keys"]:
        monkeypatch.setenv(name, "a-key")


def _faults(tree: Tree) -> list[str]:
    return [fault for check in (shapes, pods, network, nodes, commands, serve_configs) for fault in check.faults(tree)]


def test_manifests_hold(tree: Tree) -> None:
    assert _faults(tree) == []
    kinds = {"RayCluster", "RayJob", "RayService", "PodMonitor", "NetworkPolicy", "Ingress", "PodDisruptionBudget"}
    assert {one["kind"] for one in tree.documents.values()} >= kinds
    assert _faults(load()) == [], "without the components"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", KUSTOMIZED)
def test_kustomize_makes_of_them_what_is_checked_here(tree: Tree, folder: str) -> None:
    assert kustomized(CLUSTER / folder, tree)


def kustomized(folder: Path, tree: Tree) -> list[Document]:
    """What kubectl makes of a folder; every document must be one of the tree."""
    line = ["kubectl", "kustomize", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    made = list(yaml.load_all(done.stdout, yaml.CSafeLoader))
    for document in made:
        ours = tree.documents[f"{document['kind']}/{document['metadata']['name']}"]
        spec = {name: value for name, value in ours.get("spec", {}).items() if name != "serveConfigV2"}
        assert {"spec": {}, **document, "metadata": None} == {**ours, "spec": spec, "metadata": None}
    return made


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_components_are_added_to_the_service(tree: Tree, tmp_path: Path) -> None:
    service = Path(os.path.relpath(CLUSTER / "kuberay" / "service", tmp_path))
    components = [str(service.parent / "components" / name) for name in COMPONENTS]
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({"namespace": "fdarx", "resources": [str(service)], "components": components})
    )
    kinds = [document["kind"] for document in kustomized(tmp_path, tree)]
    assert sorted(kinds) == [
        "ConfigMap",
        "Ingress",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodDisruptionBudget",
        "RayService",
    ]


def _worker(*rest: str | int, group: int = 2) -> tuple[str | int, ...]:
    return ("spec", "workerGroupSpecs", group, "template", "spec", *rest)


def _container(*rest: str | int, group: int = 2) -> tuple[str | int, ...]:
    return _worker("containers", 0, *rest, group=group)


def _service(*rest: str | int) -> tuple[str | int, ...]:
    head = ("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "containers", 0)
    return (*head, *rest)


_BROKEN: list[tuple[str, tuple[str | int, ...], Any, str]] = [
    (_CLUSTER, ("spec", "rayVersion"), "2.59.0", "pyproject.toml pins"),
    (_CLUSTER, ("spec", "autoscaling"), True, "'autoscaling' was unexpected"),
    (_CLUSTER, ("spec", "workerGroupSpecs", 0, "maxReplicas"), "4", "is not of type 'integer'"),
    (_CLUSTER, ("spec", "workerGroupSpecs", 0, "template"), _MISSING, "'template' is a required property"),
    (_CLUSTER, ("spec", "autoscalerOptions", "resources", "limit"), {}, "'limit' was unexpected"),
    (_CLUSTER, ("spec", "authOptions", "secretName"), "other", "no secret that holds it"),
    (_CLUSTER, ("spec", "gcsFaultToleranceOptions", "redisAddress"), "redis:6380", "is no Service"),
    (_CLUSTER, ("spec", "headGroupSpec", "rayStartParams", "num-cpu"), "0", "ray start has no --num-cpu"),
    (_CLUSTER, ("spec", "headGroupSpec", "rayStartParams", "metrics-export-port"), "8081", "but port metrics is 8080"),
    (_CLUSTER, _container("image"), "REGISTRY/fdarx-gpu:0.0.9", "image REGISTRY/fdarx-gpu:0.0.9"),
    (_CLUSTER, _container("imagePulPolicy"), "Always", "'imagePulPolicy' was unexpected"),
    (_CLUSTER, _container("resources", "requests", "memory"), "130Gi", "memory is requested beyond its limit"),
    (_CLUSTER, _container("resources", "requests", "nvidia.com/gpu"), _MISSING, "limit and request differ"),
    (_CLUSTER, _container("volumeMounts", 0, "name"), "shm", "mounts shm, which is no volume"),
    (_CLUSTER, _container("securityContext", "runAsNonRoot"), False, "runAsNonRoot is not True"),
    (_CLUSTER, _container("envFrom", 0, "secretRef", "name"), "keys", "makes no secret keys"),
    (_CLUSTER, _container("livenessProbe", "httpGet", "path"), "/health", "Ray's agent has no /health"),
    (_CLUSTER, _container("livenessProbe", "httpGet", "port"), 8265, "not the port of Ray's agent"),
    (_CLUSTER, _container("lifecycle", "preStop", "exec", "command", 2), "ray stop", "preStop does not drain"),
    (_CLUSTER, _worker("terminationGracePeriodSeconds"), 30, "the drain is cut off"),
    (_CLUSTER, _worker("tolerations"), [], "GPUs and their taint"),
    (_CLUSTER, _worker("serviceAccountName"), "nobody", "no ServiceAccount nobody"),
    (_CLUSTER, _worker("volumes", 3, "configMap", "name"), "nothing", "no ConfigMap nothing"),
    (_CLUSTER, _worker("tolerations", group=1), [], "spot machines and their taint"),
    ("Service/redis", ("spec", "ports", 0, "targetPort"), "db", "no container has a port db"),
    (
        _CLUSTER,
        _worker("volumes", 2, "persistentVolumeClaim", "claimName"),
        "weights",
        "no PersistentVolumeClaim weights",
    ),
    (_CLUSTER, _worker("volumes", 2), {"name": "models", "hostPath": {"path": "/"}}, "hostPath is refused"),
    (_CLUSTER, _worker("hostNetwork"), True, "hostNetwork is set"),
    (_CLUSTER, _container("securityContext", "runAsUser"), 0, "runs as root"),
    (_CLUSTER, _container("securityContext", "capabilities", "add"), ["SYS_ADMIN"], "keeps capabilities"),
    (_CLUSTER, _container("securityContext", "seccompProfile", "type"), "Unconfined", "seccompProfile is not"),
    (_CLUSTER, _container("securityContext", "privileged"), True, "privileged is set"),
    (_CLUSTER, ("spec", "autoscalerOptions", "securityContext", "runAsNonRoot"), False, "autoscaler: runAsNonRoot"),
    (
        "Namespace/fdarx",
        ("metadata", "labels", "pod-security.kubernetes.io/enforce"),
        "baseline",
        "does not enforce the restricted profile",
    ),
    ("NetworkPolicy/redis", ("spec", "podSelector", "matchLabels"), {"app": "redis"}, "selects no pod"),
    ("NetworkPolicy/redis", ("spec", "ingress", 0, "ports", 0, "port"), 6380, "no selected pod has a port 6380"),
    ("NetworkPolicy/redis", ("spec", "ingres"), [], "'ingres' was unexpected"),
    ("PodDisruptionBudget/service-cpu", ("spec", "selector", "matchLabels", "ray.io/group"), "gpu", "selects no pod"),
    ("ConfigMap/fdarx-serve", ("data", "RAY_SERVE_USE_GRPC_BY_DEFAULT"), "0", "differs from SERVE_VARIABLES"),
    (_SERVICE, _service("envFrom", 1), {"secretRef": {"name": "fdarx-keys"}}, "not have the variables of Serve"),
    ("Service/redis", ("spec", "port"), 1, "'port' was unexpected"),
    (
        "StatefulSet/redis",
        ("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"),
        "x",
        "is not of type",
    ),
    ("PodMonitor/fdarx-nodes", ("spec", "selector", "matchLabels"), {"app": "ray"}, "does not select"),
    ("PodMonitor/fdarx-nodes", ("spec", "podMetricsEndpoints", 0, "port"), "prom", "no pod has a port prom"),
    (_SWEEP, ("spec", "backoffLimit"), 2, "'backoffLimit' was unexpected"),
    (_SWEEP, ("spec", "clusterSelector", "ray.io/cluster"), "other", "no RayCluster other"),
    (_UNATTENDED, ("spec", "backoffLimit"), -1, "is less than the minimum"),
    (_UNATTENDED, ("spec", "clusterSelector"), {"ray.io/cluster": "fdarx"}, "'clusterSelector' was unexpected"),
    (_UNATTENDED, ("spec", "shutdownAfterJobFinishes"), False, "True was expected"),
    (_UNATTENDED, ("spec", "rayClusterSpec", "rayVersion"), "2.59.0", "pyproject.toml pins"),
    (_UNATTENDED, ("spec", "entrypoint"), "python -m jobs.cli build --label x --out y", "does not take"),
    (_SWEEP, ("spec", "entrypoint"), "python -m jobs.cli sweep", "no job"),
    (_SWEEP, ("spec", "entrypoint"), "python -m jobs.cli evaluate --benchmark s3://$(BUKET)/x --out y", "no variable"),
    (_SWEEP, ("spec", "entrypoint"), "python -m jobs.cli evaluate --benchmark x --out y --gpu 8", "does not take"),
    (
        _SWEEP,
        ("spec", "entrypoint"),
        "python -m jobs.cli evaluate --benchmark x --out y --deploy /opt/fdarx/a.yaml",
        "no file",
    ),
    (_SERVICE, ("spec", "serveConfigV2"), "applications: [{name: x}]", "import_path"),
]


def _named(one: tuple[str, tuple[str | int, ...], Any, str]) -> str:
    return f"{one[0]}-{'.'.join(map(str, one[1][-3:]))}-{one[3][:20]}"


@pytest.mark.parametrize("broken", _BROKEN, ids=_named)
def test_a_fault_is_found(tree: Tree, broken: tuple[str, tuple[str | int, ...], Any, str]) -> None:
    name, path, value, told = broken
    document = json.loads(
        json.dumps(tree.documents[name])
    )  # anchored parts are one object each in YAML, so no deepcopy
    _put(document, path, value)
    changed = Tree({**tree.documents, name: document}, tree.secrets)
    assert any(told in fault for fault in _of(changed, name)), _of(changed, name)


def _put(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    if value is _MISSING:
        del document[path[-1]]
    else:
        document[path[-1]] = value


def _of(tree: Tree, name: str) -> list[str]:
    """Faults of shape first: what has none is looked at further, as the other checks may rest on it."""
    alone = Tree({name: tree.documents[name]}, tree.secrets)
    return list(shapes.faults(alone)) or _faults(tree)


_BROKEN_SERVE: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda config: config.update(http_option={}), "Serve knows no http_option"),
    (lambda config: config["applications"][0].update(route_prefix="/llama"), "name and route are to be"),
    (lambda config: config["applications"][0].update(import_path="serving.models:application"), "no serving.models"),
    (lambda config: config["applications"][1]["args"].update(answerer="gpt"), "there is no model gpt"),
    (lambda config: config["applications"][1]["args"]["models"][0].update(model="llama"), "where it is not"),
]


@pytest.mark.parametrize(("breaks", "told"), _BROKEN_SERVE)
def test_a_fault_of_a_serve_config_is_found(tree: Tree, breaks: Callable[[dict[str, Any]], Any], told: str) -> None:
    config = yaml.safe_load(tree.documents[_SERVICE]["spec"]["serveConfigV2"])
    breaks(config)
    assert any(told in fault for fault in serve_configs.config_faults(config))


@pytest.mark.parametrize("path", serve_configs.FILES, ids=lambda path: path.name)
def test_serve_configs_hold(path: Any) -> None:
    [config] = read(path)
    assert list(serve_configs.config_faults(config)) == []


def test_each_model_has_a_node_to_come_up_on(tree: Tree) -> None:
    cluster = tree.documents[_CLUSTER]["spec"]
    models = commands.deployed(tree)
    assert len(models) == 5
    assert nodes.unplaced(cluster, models) == []
    service = tree.documents[_SERVICE]["spec"]
    own = dict(serve_configs.served(yaml.safe_load(service["serveConfigV2"])))
    assert own and nodes.unplaced(service["rayClusterConfig"], list(own.values())) == []
    small = deepcopy(cluster)
    small["workerGroupSpecs"] = small["workerGroupSpecs"][:3]
    assert nodes.unplaced(small, models) == ["llama-3.3-70b", "qwen3-32b"]
    del small["workerGroupSpecs"][2]["resources"]
    assert len(nodes.unplaced(small, models)) == len(models), "an accelerator that the autoscaler is not told of"
