"""The Dockerfiles: one Ray, one Python, what they copy exists and is let through, and no root at the end."""

from __future__ import annotations

import re

import pytest
from packaging.version import Version

from tests.cluster_files.pins import EXTRAS, RAY, requirements
from tests.cluster_files.tree import CLUSTER, REPOSITORY

_DOCKER = CLUSTER / "docker"
_KINDS = {"cpu": ("rayproject/ray", ["faiss"]), "gpu": ("rayproject/ray-llm", ["gpu", "models"])}
"""Base image, and the extras of what is installed."""


def _steps(kind: str) -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (_DOCKER / f"Dockerfile.{kind}").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(step, rest.strip()) for step, _, rest in (line.partition(" ") for line in lines) if step]


def _lock(kind: str) -> dict[str, Version]:
    lines = (_DOCKER / f"requirements-{kind}.txt").read_text().splitlines()
    pinned = (line.split("==") for line in lines if not line.startswith("#"))
    return {_plain(name): Version(version.split(";")[0].strip()) for name, version in pinned}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


@pytest.mark.parametrize("kind", _KINDS)
def test_base_is_the_pinned_ray(kind: str) -> None:
    [base] = [rest for step, rest in _steps(kind) if step == "FROM"]
    name, tag = base.split(":")
    release, python, _platform = tag.split("-")
    assert (name, release) == (_KINDS[kind][0], RAY)
    assert python == "py312", "all nodes of a cluster need one Python"
    assert "--python-version 3.12" in (_DOCKER / f"requirements-{kind}.txt").read_text()


@pytest.mark.parametrize("kind", _KINDS)
def test_what_is_copied_exists_and_is_let_through(kind: str) -> None:
    let_through = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = [one for step, rest in _steps(kind) if step == "COPY" for one in rest.split()[1:-1]]
    assert copied
    for name in copied:
        assert (REPOSITORY / name).exists(), name
        assert name in let_through, name
    assert {"fdarx_core", "jobs", "prompts", "serving"} <= set(copied), "packages of pyproject.toml"


@pytest.mark.parametrize("kind", _KINDS)
def test_runs_as_a_user(kind: str) -> None:
    users = [rest for step, rest in _steps(kind) if step == "USER"]
    assert users[-1] == "1000:100"
    assert all("--chown=1000:100" in rest for step, rest in _steps(kind) if step == "COPY")


@pytest.mark.parametrize("kind", _KINDS)
def test_pinned_versions_are_those_that_pyproject_allows(kind: str) -> None:
    lock = _lock(kind)
    wanted = [name for name in _KINDS[kind][1] if name in EXTRAS]
    for one in requirements(*wanted):
        if one.marker is None or one.marker.evaluate({"python_version": "3.12"}):
            assert lock[_plain(one.name)] in one.specifier, one


def test_dockerfiles_differ_only_in_their_base() -> None:
    """One manner for both; a change to one is a change to the other."""
    own = {kind: [step for step in _steps(kind) if step[0] != "FROM"] for kind in _KINDS}
    as_cpu = [(step, rest.replace("requirements-gpu", "requirements-cpu")) for step, rest in own["gpu"]]
    assert as_cpu == own["cpu"]
