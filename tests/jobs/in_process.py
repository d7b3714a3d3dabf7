"""Jobs run in the process of the test, where no interpreter starts and no library is imported again; or several in one
new process, where a test needs an interpreter of its own: python -m tests.jobs.in_process COMMANDS"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

from jobs import cli

REPOSITORY = Path(__file__).parents[2]


def run_job(*arguments: object) -> CompletedProcess[str]:
    """Run `fdarx ARGUMENTS` in this process; returns its exit code and what it printed, as `subprocess.run` does."""
    words = [str(argument) for argument in arguments]
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            code: object = cli.main(words)
        except SystemExit as ended:
            code = ended.code
    status = code if isinstance(code, int) else int(code is not None)
    return CompletedProcess(["fdarx", *words], status, out.getvalue(), errors.getvalue())


def run_jobs_apart(
    commands: Sequence[Sequence[object]],
    *,
    packages: Sequence[Path] = (),
    cwd: Path = REPOSITORY,
    environment: Mapping[str, str] | None = None,
) -> tuple[list[CompletedProcess[str]], set[str]]:
    """Run commands one after the other in one new process.

    Args:
        commands: the arguments of each.
        packages: folders of packages that the process finds before all others.
        cwd: its working directory.
        environment: variables that it has besides those of this process.

    Returns:
        What `run_job` returns for each command, and the names of the modules that the process imported.
    """
    path = os.pathsep.join(map(str, (*packages, REPOSITORY)))
    line = [sys.executable, "-m", __name__, json.dumps([[str(word) for word in words] for words in commands])]
    variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    done = subprocess.run(line, cwd=cwd, env=variables, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    ended, imported = json.loads(done.stdout.splitlines()[-1])
    return [CompletedProcess(["fdarx", *map(str, words)], *one) for words, one in zip(commands, ended, strict=True)], {
        *imported
    }


if __name__ == "__main__":
    each = [run_job(*words) for words in json.loads(sys.argv[1])]
    print(json.dumps([[[one.returncode, one.stdout, one.stderr] for one in each], sorted(sys.modules)]))
