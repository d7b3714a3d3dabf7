"""The wheel in an environment of its own and an empty folder: what it contains, its version, and the commands of the
documentation that need nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.commands import PAGES, Block, blocks
from tests.engine.server import free_port
from tests.environments import Unavailable, install_packages

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

PACKAGES = ("fdarx_core", "jobs", "prompts", "serving")
SOURCES = (*PACKAGES, "pyproject.toml", "README.md", "LICENSE", "NOTICE")
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main")
RUNNABLE = [page for page in PAGES if any(not block.needs for block in blocks(page))]
PRINTED = {
    "for-evaluators.md": ("Table 1. ", "answer_full_label          mine", "baseline − ten-passages"),
    "for-regulatory-readers.md": ("Do not split, crush or chew", "360 chunks of 11 documents", "Table 2. "),
    "for-platform-engineers.md": ('"status": "complete"', '"kept": 5'),
}
"""What the commands of a page print, among other lines."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of which a wheel is built, without git."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes in which the wheel and the locked versions of its core are installed."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    try:
        install_packages(python, "--no-deps", "--requirement", str(REPOSITORY / "locks" / "core.txt"))
    except Unavailable as reason:
        pytest.skip(f"the locked packages can't be installed: {reason}")
    install_packages(python, "--no-deps", str(wheel))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FDARX_", "PYTHON", "VIRTUAL_"))}
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "HOME": str(folder), "COLUMNS": "200", "NO_PROXY": "127.0.0.1"}


def build(sources: Path, out: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    [wheel] = out.glob("*.whl")
    return wheel


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command; returns what it printed on both outputs."""
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-4000:]}"
    return done.stdout


def test_every_file_of_the_packages_is_in_the_wheel(sources: Path, wheel: Path) -> None:
    tree = {
        str(file.relative_to(sources)) for name in PACKAGES for file in (sources / name).rglob("*") if file.is_file()
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licenses = {name.rpartition("/")[2] for name in archive.namelist() if ".dist-info/licenses/" in name}
    assert names == tree, "name the missing kinds of files in [tool.setuptools.package-data]"
    assert licenses == {"LICENSE", "NOTICE"}


def test_the_version_is_that_of_the_tag(sources: Path, wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.split("-")[1] == "0.0.0.dev0", "the version of a tree without git"
    shutil.copytree(sources, tmp_path / "tree", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["tag", "v9.8.7"]):
        subprocess.run([*GIT, *arguments], cwd=tmp_path / "tree", check=True)
    assert build(tmp_path / "tree", tmp_path / "tagged").name.split("-")[1] == "9.8.7"


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_commands_of_a_page_run_in_an_empty_folder(page: Path, environment: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    printed = ""
    with service_stopper() as started:
        for block in blocks(page):
            if block.needs:
                continue
            script = block.script.replace("8000", str(port))
            if any(words[:2] == ["fdarx", "serve"] for words in block.commands):
                started.append(serve(script, block, port, environment, tmp_path))
            else:
                printed += run(["bash", "-euo", "pipefail", "-c", script], tmp_path, environment)
    for words in PRINTED.get(page.name, ()):
        assert words in printed, printed[-6000:]


@contextmanager
def service_stopper() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are added to the list end with the block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
            process.wait(60)


def serve(
    script: str, block: Block, port: int, environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    """Start the service of a block; returns when it can answer."""
    process = subprocess.Popen(["bash", "-c", f"exec {script}"], cwd=folder, env=environment)
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return process
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"{block.place}: the service ended with exit code {process.returncode}")


def test_four_real_labels(real_labels: Path, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    with zipfile.ZipFile(real_labels) as release:
        for name in sorted(release.namelist())[100:104]:
            (tmp_path / "labels" / Path(name).name).write_bytes(release.read(name))
    run(["fdarx", "build", "--labels", "labels", "--exclude-routes", "none", "--out", "run"], tmp_path, environment)
    evaluated = run(["fdarx", "evaluate", "--benchmark", "run", "--out", "evaluation"], tmp_path, environment)
    assert "Table 1. " in evaluated and (tmp_path / "evaluation" / "report.html").exists()
    indexed = run(["fdarx", "index", "--documents", "run", "--words-only", "--out", "index"], tmp_path, environment)
    assert "of 4 documents" in indexed
    ask = (
        "import fdarx_core as fdarx; index = fdarx.Index.open('index'); "
        "answer = index.answer('What are the contraindications?'); assert answer.text; print(len(answer.citations))"
    )
    assert int(run(["python", "-c", ask], tmp_path, environment)) > 0
