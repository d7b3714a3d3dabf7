"""docs/cluster.md: its commands exist, name files that are there, and agree with the versions that are tested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import getsource
from pathlib import Path

import pytest
from ray._private.ray_constants import DEFAULT_DASHBOARD_AGENT_LISTEN_PORT
from ray.dashboard.modules.job import job_head
from ray.scripts.scripts import start

from tests.cluster_files import commands, nodes, pods, shapes
from tests.cluster_files.tree import CLUSTER, GUIDE, PLACEHOLDER, REPOSITORY, SITE, load, sources

_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"(?:^|[\s=])((?:cluster|docs)/[\w./-]+)")
_COMPONENTS = (SITE / "values", *(CLUSTER / "kuberay" / "components" / name for name in ("images", "site")))
"""Those that manifests use themselves."""
_JOB = re.compile(r"(?:python -m jobs\.cli|^fdarx) .*")


def _lines() -> Iterator[str]:
    for block in _BLOCK.findall(GUIDE.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            yield re.sub(r"\s#\s.*", "", line).strip()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")


def test_files_exist() -> None:
    named = {file for line in _lines() for file in _FILE.findall(line)}
    assert len(named) >= 10
    assert [file for file in sorted(named) if not (REPOSITORY / file).exists()] == []


def test_jobs_take_the_options() -> None:
    lines = [match[0].replace("$BUCKET", "BUCKET").rstrip(" &") for line in _lines() if (match := _JOB.search(line))]
    assert len(lines) >= 6
    ours = [line.replace("/home/ray/models.d/", "/etc/fdarx/models/") for line in lines]  # where `ray up` mounts them
    assert [fault for line in ours for fault in commands.command_faults(line)] == []


def test_every_manifest_is_applied_by_a_command() -> None:
    text, guide = " ".join(_lines()), GUIDE.read_text()
    for path in CLUSTER.rglob("*.yaml"):
        name = path.relative_to(REPOSITORY)
        applied = [name.parent, *(CLUSTER.name / folder.relative_to(CLUSTER) for folder in _overlays(path.parent))]
        kustomized = any(f"-k {folder} " in f"{text} " for folder in applied)
        component = path.parent.parent.name == "components" and f"components/{path.parent.name}`" in guide
        told = kustomized or component or str(name) in text or path.parent in _COMPONENTS
        assert told or path.parent.name == "models" or "provisioning" in name.parts, name


def _overlays(folder: Path) -> list[Path]:
    """The folders of the site that add its values to the manifests of a folder."""
    made = [path.parent for path in SITE.glob("*/kustomization.yaml")]
    return [path for path in made if any((path / name).resolve() == folder for name in sources(path))]


def test_heads_of_this_machine_are_started_as_ray_takes_it() -> None:
    page = (GUIDE.parent / "for-platform-engineers.md").read_text()
    options = {
        word for line in re.findall(r"^ray start (.*)", page, re.MULTILINE) for word in re.findall(r"--([\w-]+)", line)
    }
    assert "dashboard-agent-listen-port" in options <= nodes.options_of(start)
    assert f"port {DEFAULT_DASHBOARD_AGENT_LISTEN_PORT}," in page
    assert "No available agent to submit job, please try again later" in getsource(job_head)


def test_machines_of_each_pool_are_described() -> None:
    pools = {pod.spec["nodeSelector"]["fdarx/pool"] for pod in pods.pods(load()) if pod.group}
    assert set(re.findall(r"^\| `fdarx/pool=([\w-]+)` \|", GUIDE.read_text(), re.MULTILINE)) == pools


def test_the_driver_is_named_before_the_first_command() -> None:
    before = GUIDE.read_text().partition("```sh")[0]
    assert "NVIDIA's driver 580 or newer" in before


def test_kuberay_is_the_version_whose_fields_are_checked() -> None:
    assert f"kuberay/kuberay-operator --version {shapes.VERSION}" in " ".join(_lines())


def test_the_site_fills_in_all_that_stands_in_capitals() -> None:
    texts = [re.sub(r"#.*", "", path.read_text()) for path in (CLUSTER / "kuberay").rglob("*.yaml")]
    left = [PLACEHOLDER.sub("", text) for text in texts]
    assert [found for text in left for found in re.findall(r"\b[A-Z]{3,}(?:-[A-Z]+)+\b|s3://[A-Z]+", text)] == []
