"""The command line and the Python API in one new process, and the completion of the shell: they import neither Ray nor
torch, nor the SDK of traces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.in_process import run_jobs_apart

pytestmark = pytest.mark.slow

LABEL = EXAMPLES / "telvanto-tablets.xml"
HEAVY = {"ray", "torch", "opentelemetry.sdk", "opentelemetry.exporter"}


def test_a_build_an_evaluation_and_a_review_start_no_ray(tmp_path: Path) -> None:
    run, evaluation, review = (tmp_path / name for name in ("run", "evaluation", "review"))
    local = ("--executor", "local", "-q")
    commands = [
        ("build", "--labels", LABEL, "--out", run, "--twins", 3, *local),
        ("evaluate", "--benchmark", run, "--out", evaluation, "--resamples", 100, *local),
        ("compare", evaluation, evaluation, "--out", tmp_path / "page.html", "--resamples", 100),
        ("review", "sample", run, "--n", 3, "--annotators", "anna", "--out", review),
    ]
    ended, imported = run_jobs_apart(commands)
    assert [one.returncode for one in ended] == [0, 0, 0, 0] and not HEAVY & imported
    assert json.loads((evaluation / "run.json").read_bytes())["status"] == "complete"


def test_functions_of_the_python_api_start_no_ray(tmp_path: Path) -> None:
    code = (
        "import sys, fdarx_core as fdarx; assert not {'ray', 'torch', 'lxml'} & set(sys.modules); "
        f"run = fdarx.build({str(LABEL)!r}, {str(tmp_path / 'run')!r}, twins=3); "
        "done = fdarx.evaluate(run, settings=['oracle'], resamples=100); "
        "print(done.info()['status'], sorted({'ray', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "complete []"


COMPLETE = """
source "$HOME/.local/share/bash-completion/completions/fdarx"
for line in "fdarx eval" "fdarx build --max-" "fdarx review adj"; do
    COMP_LINE="$line" COMP_POINT=${#line}
    read -ra COMP_WORDS <<< "$line"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _fdarx
    echo "${COMPREPLY[@]}"
done
"""


def test_completion_is_installed_and_completes_commands_and_options(tmp_path: Path) -> None:
    user = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    [installed], imported = run_jobs_apart([("--install-completion",)], environment=user)
    assert installed.returncode == 0 and not HEAVY & imported
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", COMPLETE], env=environment, capture_output=True, text=True, check=True)
    completed = [set(line.split()) for line in done.stdout.splitlines()]
    assert completed == [{"evaluate", "evaluate-rag"}, {"--max-cost", "--max-requests"}, {"adjudicate"}]
