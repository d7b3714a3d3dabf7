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
_SECRET = re.compile(r"kubectl create secret generic (\S+)([^\n]*)")
_KEY = re.compile(r"--from-(?:literal|file)=([\w.]+)")
_KUSTOMIZED = ("kuberay", "grafana")
_APPLIED = (
    "kuberay/jobs/build.yaml",
    "kuberay/jobs/build-unattended.yaml",
    "kuberay/jobs/sweep.yaml",
    "kuberay/service.yaml",
    "prometheus/pods.yaml",
)

Document = dict[str, Any]


@dataclass
class Tree:
    """Documents by KIND/NAME, and the keys of each secret."""

    documents: dict[str, Document]
    secrets: dict[str, set[str]]

    def of(self, kind: str) -> list[Document]:
        return [one for one in self.documents.values() if one["kind"] == kind]


def load() -> Tree:
    documents = [one for folder in _KUSTOMIZED for one in _kustomized(CLUSTER / folder)]
    documents += [one for name in _APPLIED for one in read(CLUSTER / name)]
    return Tree({f"{one['kind']}/{one['metadata']['name']}": one for one in documents}, _secrets())


def read(path: Path) -> list[Document]:
    return list(yaml.load_all(path.read_text(), yaml.CSafeLoader))


def _kustomized(folder: Path) -> Iterator[Document]:
    """As `kubectl kustomize` does it, as far as ours go."""
    [kustomization] = read(folder / "kustomization.yaml")
    for name in kustomization.get("resources", ()):
        yield from read(folder / name)
    for made in kustomization["configMapGenerator"]:
        data = {Path(file).name: (folder / file).read_text() for file in made["files"]}
        metadata = {"name": made["name"], "namespace": kustomization["namespace"]}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _secrets() -> dict[str, set[str]]:
    guide = GUIDE.read_text().replace("\\\n", " ")
    return {name: set(_KEY.findall(rest)) for name, rest in _SECRET.findall(guide)}


def here(path: str) -> Path:
    """Where a file of the image, or of a mounted ConfigMap, lies in the repository."""
    for there, ours in (("/opt/fdarx/", REPOSITORY), ("/etc/fdarx/models/", CLUSTER / "kuberay" / "models")):
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
