"""Serve configs against Ray's schema and our own options."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import yaml
from pydantic import ValidationError
from ray.serve.schema import ServeDeploySchema

from fdarx_core.llm import ModelConfig, ModelsError
from fdarx_core.specs.serve import ServiceConfig
from serving.config import SERVE_VARIABLES
from serving.served_model import ServedModel, load_served
from tests.cluster_files.pods import Pod, pods
from tests.cluster_files.tree import CLUSTER, SERVE_CONFIG, Document, Tree, here, read

_HERE = "http://127.0.0.1:8000"
FILES = (CLUSTER / "qa_rag.yaml", CLUSTER / "serve" / "models.yaml", SERVE_CONFIG)


def faults(tree: Tree) -> Iterator[str]:
    for document in tree.of("RayService"):
        config = yaml.safe_load(document["spec"]["serveConfigV2"])
        if found := list(config_faults(config)):
            yield from found
            continue
        [alone] = read(CLUSTER / "qa_rag.yaml")[0]["applications"]
        ours: Document = next((one for one in config["applications"] if one["import_path"] == alone["import_path"]), {})
        if ours.get("deployments") != alone["deployments"]:
            yield "RayService: deployments of qa-rag differ from cluster/qa_rag.yaml"
        yield from _variables(tree, config, document)
        yield from _mounted(ours.get("args", {}), list(pods(tree)))


def _variables(tree: Tree, config: Document, service: Document) -> Iterator[str]:
    """Serve's variables stand in one ConfigMap, which all nodes of the service read."""
    if tree.documents["ConfigMap/fdarx-serve"]["data"] != SERVE_VARIABLES:
        yield "ConfigMap fdarx-serve differs from SERVE_VARIABLES of serving/config.py"
    if any("runtime_env" in one for one in config["applications"]):
        yield "RayService: variables in runtime_env do not reach the proxies"
    for pod in pods(Tree({"RayService": service}, {})):
        names = [one.get("configMapRef", {}).get("name") for one in pod.spec["containers"][0]["envFrom"]]
        if "fdarx-serve" not in names:
            yield f"{pod.owner}: does not have the variables of Serve"


def config_faults(config: Document) -> Iterator[str]:
    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        yield str(error)
        return
    if unknown := set(config) - set(ServeDeploySchema.model_fields):  # which Ray lets pass
        yield f"Serve knows no {', '.join(unknown)}"
    models = dict(served(config))
    for application in config["applications"]:
        yield from (f"application {application['name']}: {fault}" for fault in _application(application, models))


def served(config: Document) -> Iterator[tuple[str, ServedModel]]:
    """The models that a config brings up, by application."""
    for application in config["applications"]:
        if application["import_path"] == "serving.models:app":
            yield application["name"], load_served(here(application["args"]["model"]))


def _application(application: Document, models: dict[str, ServedModel]) -> Iterator[str]:
    module, _, name = application["import_path"].partition(":")
    if not callable(getattr(import_module(module), name, None)):
        yield f"no {application['import_path']}"
    model = models.get(application["name"])
    if model and (application["name"], application["route_prefix"]) != (model.name, f"/{model.name}"):
        yield f"name and route are to be {model.name} and /{model.name}"
    if not model:
        yield from _asked(application["args"], models)


def _asked(arguments: dict[str, Any], models: dict[str, ServedModel]) -> Iterator[str]:
    """Whether the service's options hold, and the models that it asks on its own address are there."""
    try:
        service = ServiceConfig.model_validate(arguments)
    except (ValidationError, ModelsError) as error:
        yield str(error)
        return
    for one in service.models:
        if one.base_url and one.base_url.startswith(_HERE):
            model = models.get(one.base_url.removeprefix(f"{_HERE}/").split("/")[0])
            if model is None or _where(one) != _where(model.client_config(_HERE)):
                yield f"asks {one.model} at {one.base_url}, where it is not"


def _where(model: ModelConfig) -> tuple[str, str | None, int | None]:
    return model.model, model.base_url, model.context_length


def _mounted(arguments: dict[str, Any], all_pods: list[Pod]) -> Iterator[str]:
    """Files that the service reads are on each of its nodes, or fetched where they are needed."""
    ours = [pod for pod in all_pods if pod.owner.startswith("RayService")]
    keys = arguments.get("http", {}).get("keys_file")
    for pod in ours:
        if keys not in [mount["mountPath"] for mount in pod.spec["containers"][0]["volumeMounts"]]:
            yield f"{pod.owner}: no {keys}"
    reranker = arguments.get("reranker_model", "")
    fetched = " ".join(word for pod in ours for one in pod.spec.get("initContainers", ()) for word in one["args"])
    if reranker not in fetched:
        yield f"no container fetches {reranker}"
