"""A core installation, without the libraries of any extra: builds work, and other jobs name the extra they need."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fdarx_core.extras import EXTRA_OF
from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_jobs_apart

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
_BUILD = ("build", "--labels", EXAMPLES / "telvanto-tablets.xml", "--out", "run", "--twins", 3)
_JOBS = {
    "documents": ("index", "--documents", "run", "--words-only", "--out", "index"),
    "eval": ("evaluate", "--benchmark", "run", "--out", "evaluation"),
    "serve": ("serve", "--index", "index"),
    "s3": ("build", "--labels", "run/labels", "--out", "s3://bucket/run"),
}
"""Jobs that need an extra, by its name."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, CompletedProcess[str]]]:
    """The folder of a build in a process that hides the libraries of all extras, and how each job ended in it."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "sitecustomize.py").write_text(_HIDE)
    (built, *others), _ = run_jobs_apart([_BUILD, *_JOBS.values()], packages=[folder], cwd=folder)
    assert built.returncode == 0, built.stderr
    return folder, dict(zip(_JOBS, others, strict=True))


def test_a_core_installation_builds_a_benchmark_with_its_report(
    core: tuple[Path, dict[str, CompletedProcess[str]]],
) -> None:
    assert (core[0] / "run" / "report.html").stat().st_size > 0


@pytest.mark.parametrize("extra", _JOBS)
def test_a_job_names_the_extra_that_it_needs(core: tuple[Path, dict[str, CompletedProcess[str]]], extra: str) -> None:
    done = core[1][extra]
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and last.startswith("error: ") and last.endswith(f"pip install 'fdarx[{extra}]'")
    assert "Traceback" not in done.stderr
