"""Manifests against schemas: Kubernetes' own, and those of KubeRay and the Prometheus operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import kubernetes_validate
from jsonschema import Draft202012Validator

from tests.cluster_files.tree import Document, Tree

VERSION = "1.7.1"

Schema = dict[str, Any]

_TEXT, _NUMBER, _YES = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_NAME = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def _of(*required: str, **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def _core(kind: str) -> Schema:
    return {"type": "object", "core": kind}


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


_CREDENTIAL = _of(value=_TEXT, valueFrom=_of("secretKeyRef", secretKeyRef=_of("name", "key", name=_TEXT, key=_TEXT)))

_HEAD = _of(
    "template",
    template=_core("PodTemplateSpec"),
    rayStartParams=_TEXTS,
    resources=_TEXTS,
    labels=_TEXTS,
    serviceType=_one_of("ClusterIP", "NodePort", "LoadBalancer"),
    enableIngress=_YES,
)
_WORKERS = _of(
    "groupName",
    "minReplicas",
    "maxReplicas",
    "template",
    groupName=_NAME,
    replicas=_NUMBER,
    minReplicas=_NUMBER,
    maxReplicas=_NUMBER,
    numOfHosts=_NUMBER,
    idleTimeoutSeconds=_NUMBER,
    rayStartParams=_TEXTS,
    resources=_TEXTS,
    labels=_TEXTS,
    template=_core("PodTemplateSpec"),
)
_CLUSTER = _of(
    "headGroupSpec",
    rayVersion=_TEXT,
    authOptions=_of(mode=_one_of("disabled", "token"), secretName=_TEXT),
    gcsFaultToleranceOptions=_of(
        "redisAddress",
        redisAddress=_TEXT,
        redisUsername=_CREDENTIAL,
        redisPassword=_CREDENTIAL,
        externalStorageNamespace=_TEXT,
    ),
    enableInTreeAutoscaling=_YES,
    autoscalerOptions=_of(
        version=_one_of("v1", "v2"),
        upscalingMode=_one_of("Default", "Aggressive", "Conservative"),
        idleTimeoutSeconds=_NUMBER,
        resources=_core("ResourceRequirements"),
        securityContext=_core("SecurityContext"),
    ),
    suspend=_YES,
    upgradeStrategy=_of(type=_one_of("Recreate", "None")),
    headGroupSpec=_HEAD,
    workerGroupSpecs={"type": "array", "items": _WORKERS},
)
_SUBMITTED: dict[str, Schema] = {
    "entrypoint": _TEXT,
    "submissionMode": _one_of("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
    "submitterPodTemplate": _core("PodTemplateSpec"),
    "entrypointNumCpus": {"type": "number"},
    "metadata": _TEXTS,
    "activeDeadlineSeconds": _NUMBER,
}
_JOB = _of(
    "entrypoint", "clusterSelector", clusterSelector=_of("ray.io/cluster", **{"ray.io/cluster": _NAME}), **_SUBMITTED
)
# a job is started again, and its nodes are removed, only where the cluster is its own
_JOB_WITH_CLUSTER = _of(
    "entrypoint",
    "rayClusterSpec",
    "backoffLimit",
    "shutdownAfterJobFinishes",
    rayClusterSpec=_CLUSTER,
    backoffLimit=_NUMBER,
    shutdownAfterJobFinishes={"const": True},
    ttlSecondsAfterFinished=_NUMBER,
    **_SUBMITTED,
)
_SERVICE = _of(
    "rayClusterConfig",
    serveConfigV2=_TEXT,
    rayClusterConfig=_CLUSTER,
    upgradeStrategy=_of(type=_one_of("NewCluster", "NewClusterWithIncrementalUpgrade", "None")),
    excludeHeadPodFromServeSvc=_YES,
    rayClusterDeletionDelaySeconds=_NUMBER,
)


def _resource(group: str, kind: str, spec: Schema) -> Schema:
    metadata = _of("name", "namespace", name=_NAME, namespace=_NAME, labels=_TEXTS, annotations=_TEXTS)
    fields = {"apiVersion": {"const": group}, "kind": {"const": kind}, "metadata": metadata, "spec": spec}
    return _of(*fields, **fields)


RELABEL = _of(sourceLabels={"type": "array", "items": _TEXT}, targetLabel=_TEXT, regex=_TEXT, replacement=_TEXT)
_ENDPOINT = _of(
    "port", port=_TEXT, path=_TEXT, interval=_TEXT, scrapeTimeout=_TEXT, relabelings={"type": "array", "items": RELABEL}
)

SCHEMAS: dict[str, Schema] = {
    "RayCluster": _resource("ray.io/v1", "RayCluster", _CLUSTER),
    "RayJob": _resource("ray.io/v1", "RayJob", _JOB),
    "RayJob with a cluster": _resource("ray.io/v1", "RayJob", _JOB_WITH_CLUSTER),
    "RayService": _resource("ray.io/v1", "RayService", _SERVICE),
    "PodMonitor": _resource(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        _of(
            "selector",
            "podMetricsEndpoints",
            selector=_of("matchLabels", matchLabels=_TEXTS),
            podMetricsEndpoints={"type": "array", "items": _ENDPOINT},
        ),
    ),
}
"""By kind. PodMonitor: after the Prometheus operator's API reference."""


KUBERNETES = "1.35"


def faults(tree: Tree) -> Iterator[str]:
    for name, document in tree.documents.items():
        own = " with a cluster" if "rayClusterSpec" in document.get("spec", {}) else ""
        schema = SCHEMAS.get(f"{document['kind']}{own}")
        found = _core_shapes(document) if schema is None else _of_operator(document, schema)
        yield from (f"{name}: {fault}" for fault in found)


def _of_operator(document: Document, schema: Schema) -> Iterator[str]:
    for error in Draft202012Validator(schema).iter_errors(document):
        yield f"{error.json_path}: {error.message}"
    for kind, value in _marked(document, schema):
        yield from _core_shapes(_AS_POD[kind](value))


def _marked(value: Any, schema: Schema) -> Iterator[tuple[str, Any]]:
    """Kubernetes' own types within."""
    if "core" in schema:
        yield schema["core"], value
    for name, inner in schema.get("properties", {}).items():
        if isinstance(value, dict) and name in value:
            yield from _marked(value[name], inner)
    if "items" in schema and isinstance(value, list):
        for one in value:
            yield from _marked(one, schema["items"])


def _pod(template: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", **template.get("metadata", {})},
        **_spec(template),
    }


def _spec(template: Document) -> Document:
    return {name: value for name, value in template.items() if name != "metadata"}


def _container(**fields: Any) -> Document:
    return _pod({"spec": {"containers": [{"name": "x", "image": "x", **fields}]}})


_AS_POD: dict[str, Callable[[Any], Document]] = {
    "PodTemplateSpec": _pod,
    "ResourceRequirements": lambda value: _container(resources=value),
    "SecurityContext": lambda value: _container(securityContext=value),
}


def _core_shapes(document: Document) -> Iterator[str]:
    fault = _core_fault(json.dumps(document))
    if fault:
        yield fault


@cache
def _core_fault(document: str) -> str | None:
    try:
        kubernetes_validate.validate(json.loads(document), KUBERNETES, strict=True)
    except kubernetes_validate.SchemaNotFoundError as error:
        return str(error.message)
    except kubernetes_validate.ValidationError as error:
        return f"{error.json_path}: {error.message}"
    return None
