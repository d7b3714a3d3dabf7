"""The command and the library in a working directory that has folders with the names of our packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fdarx_core.llm.task import source_digest
from tests.conftest import EXAMPLES

LOAD_ALL = (
    "from fdarx_core.rag.tasks import RAG_TASKS; from fdarx_core.llm.task import source_digest; import fdarx_core; "
    "assert 'compare_drugs' in RAG_TASKS; print(source_digest('prompts'))"
)


@pytest.fixture(params=["plain", "packages"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with folders `prompts`, `jobs` and `serving` of the user, or packages that cannot be loaded."""
    for name in ("prompts", "jobs", "serving"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "judge_quality_factual.yaml").write_text("name: of the user")
        if request.param == "packages":
            (tmp_path / name / "__init__.py").write_text("raise ImportError('a package of the user')")
    return tmp_path


def run(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("folder", ["packages"], indirect=True)  # plain folders are less in the way
def test_a_build_finds_our_prompts(folder: Path) -> None:
    script = Path(sys.executable).parent / "fdarx"
    if not script.exists():
        pytest.skip("the command fdarx is not installed here")
    done = run(
        folder, script, "build", "--labels", EXAMPLES / "telvanto-tablets.xml", "--out", "run", "--twins", 4, "--plan"
    )
    assert done.returncode == 0, done.stderr


def test_the_library_finds_our_prompts(folder: Path) -> None:
    """As in a notebook, or in a job that `ray job submit` runs in its working directory."""
    done = run(folder, sys.executable, "-c", LOAD_ALL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == source_digest("prompts")
