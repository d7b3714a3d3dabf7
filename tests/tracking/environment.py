"""An environment of its own for MLflow's tracking server, which needs another pandas than the tests.

`python -m tests.tracking.environment` makes it beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.environments import Unavailable, own_environment

REQUIREMENT = "mlflow==3.17.2"
"""The server of the client that the lock has."""


def installed() -> Path:
    """Return the environment's `mlflow` command. The first call makes it: 650 MB from the package index."""
    return own_environment("mlflow", REQUIREMENT) / "mlflow"


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no MLflow server to test against: {reason}")
