"""The manifests under cluster/ as they are applied, and what docs/cluster.md lets the user make beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
CLUSTER = REPOSITORY / "cluster"
GUIDE = REPOSITORY / "docs" / "cluster.md"
_SECRET = re.compile(r"kubectl create secret generic (\S+)([^\n]*)")
_KEY = re.compile(r"--from-(?:literal|file)=([\w.]+)")
_KUSTOMIZED = ("kuberay", "grafana")
_APPLIED = ("kuberay/jobs/build.yaml", "kuberay/jobs/sweep.yaml", "kuberay/service.yaml", "prometheus/pods.yaml")

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
