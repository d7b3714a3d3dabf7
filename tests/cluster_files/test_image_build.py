"""The Dockerfile for CPUs, built and run by `buildah` without a container runtime, on a stand-in for Ray's image.

The stand-in is Debian 12 with Python in an environment that user 1000 owns, as in Ray's image; it has no Ray, which the
locked versions bring. Needs root, `buildah`, `debootstrap`, package registries, 12 GB of disk and ten minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cluster_files.tree import CLUSTER, REPOSITORY
from tests.conftest import EXAMPLES

_TOOLS = ("buildah", "debootstrap")
_MISSING = [tool for tool in _TOOLS if shutil.which(tool) is None]
_DOCKERFILE = CLUSTER / "docker" / "Dockerfile.cpu"
_STAND_IN = """
FROM scratch
ADD base.tar /
RUN useradd --uid 1000 --gid 100 --create-home ray && python3 -m venv /home/ray/venv && chown -R 1000:100 /home/ray
ENV PATH=/home/ray/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/ray
USER 1000:100
"""
_REGISTRIES = ("/etc/ssl/certs", "/etc/pip.conf")
"""What pip needs of this machine to reach a registry, where it exists."""

Buildah = Callable[..., str]
"""Runs a subcommand of buildah on a store of its own; returns what it prints."""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs Debian's packages {' and '.join(_MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: debootstrap and buildah's chroot isolation"),
]


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    with TemporaryDirectory(prefix="buildah") as folder:
        store = ["--storage-driver", "vfs", "--root", f"{folder}/store", "--runroot", f"{folder}/run"]

        def run(command: str, *words: object) -> str:
            line = ["buildah", *store, command, *map(str, words)]
            done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            return done.stdout

        yield run


@pytest.fixture(scope="module")
def image(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image that the Dockerfile makes on the stand-in, which has the name of Ray's image."""
    context = tmp_path_factory.mktemp("stand-in")
    packages = "--include=python3,python3-venv,ca-certificates"
    subprocess.run(["debootstrap", "--variant=minbase", packages, "bookworm", context / "base"], check=True)
    subprocess.run(["tar", "-C", context / "base", "-cf", context / "base.tar", "."], check=True)
    (context / "Dockerfile").write_text(_STAND_IN)
    [base] = re.findall(r"^FROM (\S+)$", _DOCKERFILE.read_text(), re.MULTILINE)
    made = ("--isolation", "chroot", "--layers=false")
    buildah("bud", *made, "--tag", f"docker.io/{base}", "--file", context / "Dockerfile", context)
    shared = [word for path in _REGISTRIES if Path(path).exists() for word in ("--volume", f"{path}:{path}:ro")]
    version = ("--build-arg", "VERSION=1.2.3")
    buildah("bud", *made, "--pull-never", *shared, *version, "--tag", "fdarx-cpu", "--file", _DOCKERFILE, REPOSITORY)
    return "fdarx-cpu"


def test_the_image_builds_a_benchmark_on_ray_as_an_unprivileged_user(buildah: Buildah, image: str) -> None:
    container = buildah("from", "--pull-never", image).strip()

    def run(*words: object) -> str:
        labels = ("--volume", f"{EXAMPLES}:/labels:ro")
        return buildah("run", "--isolation", "chroot", "--cap-drop", "all", *labels, container, "--", *words)

    assert run("id", "--user").strip() == "1000"
    assert "1.2.3" in run("fdarx", "--version")
    line = "fdarx build --labels /labels --sample 4 --executor ray --cpus 1 --out /tmp/run"
    assert "questions" in run("sh", "-c", f"cd /tmp && {line}")
    assert "qa.jsonl" in run("ls", "/tmp/run/benchmark")
