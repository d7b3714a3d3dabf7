"""The manifests under cluster/ as they are applied, what docs/cluster.md adds to them, and the versions that
pyproject.toml pins."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
CLUSTER = REPOSITORY / "cluster"
GUIDE = REPOSITORY / "docs" / "cluster.md"
KUBERAY = CLUSTER / "kuberay"
SITE = CLUSTER / "site"
SERVE_CONFIG = SITE / "service" / "serve.yaml"
PLACEHOLDER = re.compile(r"BUCKET|REGISTRY|VERSION|STORAGE-CLASS|SERVICE-HOST|INGRESS-CLASS|INGRESS-NAMESPACE")
"""The words of the manifests that a site replaces."""
_SECRET = re.compile(r"kubectl create secret (?:generic|tls) (\S+)([^\n]*)")
_KEY = re.compile(r"--from-(?:literal|file)=([\w.]+)|--(cert|key)=")
KUSTOMIZED = (
    "kuberay",
    "kuberay/service",
    "kuberay/jobs/build",
    "kuberay/jobs/build-unattended",
    "kuberay/jobs/sweep",
    "grafana",
)
COMPONENTS = ("ingress", "disruption-budgets")
"""Those that a user may add to the service."""
_APPLIED = ("prometheus/pods.yaml",)

Document = dict[str, Any]


@dataclass
class Tree:
    """Documents by KIND/NAME, and the keys of each secret."""

    documents: dict[str, Document]
    secrets: dict[str, set[str]]

    def of(self, kind: str) -> list[Document]:
        return [one for one in self.documents.values() if one["kind"] == kind]


def load(*components: str) -> Tree:
    """The tree, with these components added to the service."""
    documents = [one for folder in KUSTOMIZED for one in _kustomized(CLUSTER / folder)]
    documents += [one for name in components for one in _kustomized(KUBERAY / "components" / name)]
    documents += _kustomized(SITE / "kuberay")
    documents += [one for name in _APPLIED for one in read(CLUSTER / name)]
    tree = Tree({f"{one['kind']}/{one['metadata']['name']}": one for one in documents}, _secrets())
    tree.documents["RayService/qa-rag"]["spec"]["serveConfigV2"] = SERVE_CONFIG.read_text()  # as site/service does
    return tree


def read(path: Path) -> list[Document]:
    return list(yaml.load_all(path.read_text(), yaml.CSafeLoader))


def _kustomized(folder: Path) -> Iterator[Document]:
    """As `kubectl kustomize` does it, as far as ours go."""
    [kustomization] = read(folder / "kustomization.yaml")
    images = [one for name in kustomization.get("components", ()) for one in _images(folder / name)]
    for name in (one for one in kustomization.get("resources", ()) if (folder / one).is_file()):
        yield from (_with_images(document, images) for document in read(folder / name))
    for made in kustomization.get("configMapGenerator", ()):
        data = {Path(file).name: (folder / file).read_text() for file in made.get("files", ())}
        data |= {name: value for file in made.get("envs", ()) for name, value in variables(folder / file).items()}
        metadata = {"name": made["name"], "namespace": kustomization["namespace"]}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def sources(folder: Path) -> list[str]:
    """The resources of a folder."""
    [kustomization] = read(folder / "kustomization.yaml")
    return list(kustomization.get("resources", ()))


def variables(file: Path) -> dict[str, str]:
    """Those of an env file."""
    lines = (line for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _images(component: Path) -> list[dict[str, str]]:
    [kustomization] = read(component / "kustomization.yaml")
    return list(kustomization.get("images", ()))


def _with_images(value: Any, images: list[dict[str, str]]) -> Any:
    """Names of images replaced, in whatever is called `containers` or `initContainers`."""
    if isinstance(value, list):
        return [_with_images(one, images) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _with_images(inner, images) for name, inner in value.items()}
    for container in (one for kind in ("containers", "initContainers") for one in found.get(kind, ())):
        for image in images:
            if container["image"] == image["name"]:
                end = f"@{image['digest']}" if "digest" in image else f":{image['newTag']}"
                container["image"] = image["newName"] + end
    return found


def _secrets() -> dict[str, set[str]]:
    guide = GUIDE.read_text().replace("\\\n", " ")
    return {name: {key[1] or key[2] for key in _KEY.finditer(rest)} for name, rest in _SECRET.findall(guide)}


def here(path: str) -> Path:
    """Where a file of the image, or of a mounted ConfigMap, lies in the repository."""
    for there, ours in (("/opt/fdarx/", REPOSITORY), ("/etc/fdarx/models/", SITE / "kuberay" / "models")):
        if path.startswith(there):
            return ours / path.removeprefix(there)
    return Path(path)


_toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # pytest brings tomli where it is needed
_PROJECT = _toml.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

EXTRAS: dict[str, list[str]] = _PROJECT["optional-dependencies"]


def requirements(*extras: str) -> list[Requirement]:
    """Those of the project and of these extras."""
    return [
        Requirement(one) for one in [*_PROJECT["dependencies"], *(line for name in extras for line in EXTRAS[name])]
    ]


RAY = next(iter(next(one for one in requirements() if one.name == "ray").specifier)).version
"""The pinned release of Ray."""
