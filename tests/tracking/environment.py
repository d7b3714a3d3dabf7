"""An environment of its own for MLflow's tracking server, which needs another pandas than the tests.

`python -m tests.tracking.environment` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CACHE = PROJECT / ".cache" / "mlflow"
REQUIREMENT = "mlflow==3.17.2"
"""The server of the client that the lock has."""


class Unavailable(Exception):
    """The server can't be installed or run here; the message says why."""


def installed() -> Path:
    """Return the environment's `mlflow` command. The first call makes it: 650 MB from the package index."""
    command, ready = CACHE / "env" / "bin" / "mlflow", CACHE / "ready"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != REQUIREMENT:
            ready.unlink(missing_ok=True)
            _make(CACHE / "env")
            ready.write_text(REQUIREMENT)
    return command


def _make(folder: Path) -> None:
    """Install by uv, or by pip where uv is missing or reaches no package index."""
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(folder))
    python, uv = str(folder / "bin" / "python"), Path(sys.executable).with_name("uv")
    try:
        _run(str(uv), "pip", "install", "--quiet", "--python", python, REQUIREMENT)
    except (Unavailable, FileNotFoundError):
        _run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", REQUIREMENT)


def _run(*command: str) -> None:
    done = subprocess.run(["nice", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-600:]}")


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no MLflow server to test against: {reason}")
