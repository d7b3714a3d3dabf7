"""Jobs run in the process of the test: no interpreter to start, no library to import again."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from jobs import cli


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
