"""The Dockerfiles: one Ray, one Python, what they copy exists and is let through, and no root at the end."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.cluster_files.tree import CLUSTER, RAY, REPOSITORY, requirements
from tests.engine import environment

_DOCKER = CLUSTER / "docker"
_KINDS = {"cpu": ("rayproject/ray", ["faiss"]), "gpu": ("rayproject/ray-llm", ["gpu", "models"])}
"""Base image, and the extras of what is installed."""


def _steps(kind: str) -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (_DOCKER / f"Dockerfile.{kind}").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(step, rest.strip()) for step, _, rest in (line.partition(" ") for line in lines) if step]


def _lock(*files: str) -> dict[str, Version]:
    """The versions that lock files give to Python 3.12 on Linux."""
    lines = (line for file in files for line in (REPOSITORY / file).read_text().splitlines() if re.match(r"\w", line))
    pinned = [Requirement(line.removesuffix("\\")) for line in lines]
    here = {"python_version": "3.12", "python_full_version": "3.12.0", "sys_platform": "linux"}
    return {
        _plain(one.name): Version(next(iter(one.specifier)).version)
        for one in pinned
        if one.marker is None or one.marker.evaluate(here)
    }


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


@pytest.mark.parametrize("kind", _KINDS)
def test_base_is_the_pinned_ray(kind: str) -> None:
    [base] = [rest for step, rest in _steps(kind) if step == "FROM"]
    name, tag = base.split(":")
    release, python, _platform = tag.split("-")
    assert (name, release) == (_KINDS[kind][0], RAY)
    assert python == "py312", "all nodes of a cluster need one Python"


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


_LOCKS = {"cpu": ("locks/core.txt", "locks/faiss.txt"), "gpu": ("locks/gpu.txt",)}


@pytest.mark.parametrize("kind", _KINDS)
def test_locked_versions_of_images_are_those_that_pyproject_allows(kind: str) -> None:
    check_lock(_KINDS[kind][1], _LOCKS[kind])


def check_lock(extras: Sequence[str], files: Sequence[str], left_out: Collection[str] = ()) -> None:
    lock = _lock(*files)
    for one in requirements(*extras):
        if one.name not in left_out and (one.marker is None or one.marker.evaluate({"python_version": "3.12"})):
            assert lock[_plain(one.name)] in one.specifier, f"{one}; run `make lock`"


def test_the_engine_that_is_tested_is_that_of_the_image() -> None:
    """tests/engine installs vLLM's CPU build; Ray pins the version that the image has."""
    [pinned] = [Requirement(one) for one in metadata.requires("ray") or () if one.startswith("vllm")]
    version = Version(environment.VERSION)
    assert version in pinned.specifier
    assert _lock(*_LOCKS["gpu"])["vllm"] == version


def test_locked_versions_for_development_are_those_that_pyproject_allows() -> None:
    """torch is in no lock: its CPU build has other hashes than the registry's."""
    files = [f"locks/{name}.txt" for name in ("core", "faiss", "test", "models")]
    check_lock(("faiss", "test", "models"), files, ["torch"])
    assert "torch" not in _lock(*files)


@pytest.mark.parametrize("file", sorted((REPOSITORY / "locks").glob("*.txt")), ids=lambda file: file.name)
def test_locks_have_a_hash_for_every_package_and_name_no_registry(file: Path) -> None:
    text = file.read_text()
    packages = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    assert all("--hash=sha256:" in package for package in packages)
    assert "://" not in text and "--index" not in text


def test_dockerfiles_differ_only_in_their_base_and_their_lock() -> None:
    own = {kind: [step for step in _steps(kind) if step[0] != "FROM"] for kind in _KINDS}
    names = {kind: " ".join(files) for kind, files in _LOCKS.items()}
    options = {kind: " ".join(f"--requirement {file}" for file in files) for kind, files in _LOCKS.items()}
    as_cpu = [
        (step, rest.replace(options["gpu"], options["cpu"]).replace(names["gpu"], names["cpu"]))
        for step, rest in own["gpu"]
    ]
    assert as_cpu == own["cpu"]
