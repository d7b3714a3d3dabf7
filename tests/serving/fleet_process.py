"""`fdarx evaluate --deploy` with plain models in the place of vLLM's, in a process that can be interrupted or killed.

python tests/serving/fleet_process.py WATCHDOG_TIMEOUT_S OPTION...
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import serving.applications
import serving.models
import serving.served_model
from jobs.cli import main
from serving.served_model import ServedModel
from tests.serving.fake_models import build


def nothing_missing(model: ServedModel) -> None:
    """Stand for `missing_engine`: the models of these tests need no vLLM."""


if __name__ == "__main__":
    serving.served_model.missing_engine = nothing_missing
    serving.models.build = build
    serving.applications.WATCHDOG_TIMEOUT_S = float(sys.argv[1])
    sys.exit(main(["evaluate", *sys.argv[2:]]))
