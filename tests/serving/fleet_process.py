"""`fdarx evaluate --deploy` with plain models in the place of vLLM's, in a process that can be interrupted or killed.

python tests/serving/fleet_process.py WATCHDOG_TIMEOUT_S OPTION...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import jobs.evaluation
import serving.applications
import serving.models
from jobs.cli import main
from tests.serving.fake_models import build


def find_spec(name: str) -> Any:
    """Whatever it is, it is installed."""
    return name


if __name__ == "__main__":
    vars(jobs.evaluation)["find_spec"] = find_spec
    serving.models.build = build
    serving.applications.WATCHDOG_TIMEOUT_S = float(sys.argv[1])
    sys.exit(main(["evaluate", *sys.argv[2:]]))
