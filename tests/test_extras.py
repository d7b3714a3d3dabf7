"""A core installation, without the libraries of any extra: builds work, and other jobs name the extra they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fdarx_core.extras import EXTRA_OF
from tests.conftest import REPOSITORY

_HIDE = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(EXTRA_OF)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
import importlib.util
_find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {sorted(EXTRA_OF)} else _find(name, package)
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that hides the libraries of all extras from Python, with the questions of a build."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "sitecustomize.py").write_text(_HIDE)
    done = fdarx(folder, "build", "--labels", REPOSITORY / "examples/labels", "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    return folder


def fdarx(core: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(core), str(REPOSITORY)])}
    command = [sys.executable, "-m", "jobs.cli", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=core)


def test_a_core_installation_builds_a_benchmark_with_its_report(core: Path) -> None:
    assert (core / "run" / "report.html").stat().st_size > 0


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("documents", ["index", "--documents", "run", "--words-only", "--out", "index"]),
        ("eval", ["evaluate", "--benchmark", "run", "--out", "evaluation"]),
        ("serve", ["serve", "--index", "index"]),
        ("s3", ["build", "--labels", "run/labels", "--out", "s3://bucket/run"]),
    ],
)
def test_a_job_names_the_extra_that_it_needs(core: Path, extra: str, arguments: list[str]) -> None:
    done = fdarx(core, *arguments)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and last.startswith("error: ") and last.endswith(f"pip install 'fdarx[{extra}]'")
    assert "Traceback" not in done.stderr
