"""Environments of their own for programs of the tests whose versions do not fit those of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]


class Unavailable(Exception):
    """An environment can't be made, or its program run, here; the message says why and what to do."""


def install_packages(python: Path, *what: str) -> None:
    """Install by uv, which takes a third of the time, or by pip where uv is missing or reaches no package index."""
    uv = Path(sys.executable).with_name("uv")
    found = [option for link in os.environ.get("PIP_FIND_LINKS", "").split() for option in ("--find-links", link)]
    if uv.exists():
        try:
            run([str(uv), "pip", "install", "--quiet", "--python", str(python), *found, *what])
            return
        except Unavailable:
            pass
    run([*pip_command(python), "install", "--no-cache-dir", *what])


def pip_command(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]


def run(command: list[str]) -> None:
    """Run a command at low priority. Raises Unavailable, with the end of its messages, where it fails."""
    done = subprocess.run(["nice", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-600:]}")
