"""KubeRay's resources as JSON schemas: fields and types of ray.io/v1 in KubeRay 1.7, as far as they are of use here.

Written by hand after its API reference (docs.ray.io, "KubeRay CRD API reference", v1.7.1) and the types in
ray-operator/apis/ray/v1. Kubernetes' own types inside are marked `core`, and checked against Kubernetes' schemas.
"""

from __future__ import annotations

from typing import Any

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
# KubeRay refuses backoffLimit, suspend and a shutdown where the cluster is not the job's own
_JOB = _of(
    "entrypoint",
    "clusterSelector",
    entrypoint=_TEXT,
    clusterSelector=_of("ray.io/cluster", **{"ray.io/cluster": _NAME}),
    submissionMode=_one_of("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
    submitterPodTemplate=_core("PodTemplateSpec"),
    entrypointNumCpus={"type": "number"},
    metadata=_TEXTS,
    activeDeadlineSeconds=_NUMBER,
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
    "port",
    port=_TEXT,
    path=_TEXT,
    interval=_TEXT,
    scrapeTimeout=_TEXT,
    relabelings={"type": "array", "items": RELABEL},
)

SCHEMAS: dict[str, Schema] = {
    "RayCluster": _resource("ray.io/v1", "RayCluster", _CLUSTER),
    "RayJob": _resource("ray.io/v1", "RayJob", _JOB),
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
