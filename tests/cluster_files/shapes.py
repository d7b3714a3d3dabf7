"""Whether each document has the shape that Kubernetes, KubeRay or Prometheus' operator gives its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import kubernetes_validate
from jsonschema import Draft202012Validator

from tests.cluster_files.kuberay_fields import SCHEMAS, Schema
from tests.cluster_files.tree import Document, Tree

KUBERNETES = "1.35"


def faults(tree: Tree) -> Iterator[str]:
    for name, document in tree.documents.items():
        schema = SCHEMAS.get(document["kind"])
        found = _core(document) if schema is None else _of_operator(document, schema)
        yield from (f"{name}: {fault}" for fault in found)


def _of_operator(document: Document, schema: Schema) -> Iterator[str]:
    for error in Draft202012Validator(schema).iter_errors(document):
        yield f"{error.json_path}: {error.message}"
    for kind, value in _marked(document, schema):
        yield from _core(_AS_POD[kind](value))


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


def _core(document: Document) -> Iterator[str]:
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
