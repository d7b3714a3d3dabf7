"""The jobs of the command line, one module per job, their exit codes, and the messages of errors."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import NoReturn

WRONG_ARGUMENT = 2
"""The exit code for everything that is wrong before work starts."""

STOPPED = 3
"""The exit code where something was left open that the same command may finish."""

INTERRUPTED = 130


def version_of(package: str) -> str:
    """Return the version of an installed package, else "not installed": under `ray job submit` FDARx itself is not."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def stop(message: str) -> NoReturn:
    """Print one line on standard error and end the program with WRONG_ARGUMENT."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(WRONG_ARGUMENT)
