"""The command line without Ray, and its completion in the shell: neither imports Ray or torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import EXAMPLES, REPOSITORY

CODE = """
import json, sys
from jobs.cli import main
codes = [main(words) for words in json.loads(sys.argv[1])]
print(json.dumps([codes, sorted({"ray", "torch"} & set(sys.modules))]), file=sys.stderr)
"""


def imported(*commands: list[str], **environment: str) -> tuple[list[int], list[str]]:
    """Run commands in one new process; return their exit codes, and which of Ray and torch they imported."""
    line = [sys.executable, "-c", CODE, json.dumps(commands)]
    given = {**os.environ, **environment}
    done = subprocess.run(line, cwd=REPOSITORY, env=given, capture_output=True, text=True, check=True)
    codes, names = json.loads(done.stderr.splitlines()[-1])
    return codes, names


def test_a_build_an_evaluation_and_a_review_start_no_ray(tmp_path: Path) -> None:
    run, evaluation, review = (str(tmp_path / name) for name in ("run", "evaluation", "review"))
    label, local = str(EXAMPLES / "telvanto-tablets.xml"), ["--executor", "local", "-q"]
    commands = [
        ["build", "--labels", label, "--out", run, "--twins", "3", *local],
        ["evaluate", "--benchmark", run, "--out", evaluation, "--resamples", "100", *local],
        ["compare", evaluation, evaluation, "--out", str(tmp_path / "page.html"), "--resamples", "100"],
        ["review", "sample", run, "--n", "3", "--annotators", "anna", "--out", review],
    ]
    assert imported(*commands) == ([0, 0, 0, 0], [])
    assert json.loads((tmp_path / "evaluation" / "run.json").read_bytes())["status"] == "complete"


def test_functions_of_the_python_api_start_no_ray(tmp_path: Path) -> None:
    code = (
        "import sys, fdarx_core as fdarx; assert not {'ray', 'torch', 'lxml'} & set(sys.modules); "
        f"run = fdarx.build({str(EXAMPLES / 'telvanto-tablets.xml')!r}, {str(tmp_path / 'run')!r}, twins=3); "
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
    codes, names = imported(["--install-completion"], HOME=str(tmp_path), SHELL="/bin/bash")
    assert (codes, names) == ([0], [])
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", COMPLETE], env=environment, capture_output=True, text=True, check=True)
    completed = [set(line.split()) for line in done.stdout.splitlines()]
    assert completed == [{"evaluate", "evaluate-rag"}, {"--max-cost", "--max-requests"}, {"adjudicate"}]
