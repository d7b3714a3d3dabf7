"""What an experiment tracker has to do."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol


class Tracker(Protocol):
    """Logs one run. The methods are called once each from `start` to `finish`, the three of files any number of times.

    Any of them may raise any exception: the results of the run are kept without the tracker. `finish` is called also
    after another method has failed.
    """

    def start(self, run_id: str | None, *, name: str, job: str, tags: Mapping[str, str]) -> str:
        """Begin a run of the tracker and return its id; with a `run_id` go on with that one.

        Args:
            run_id: the id that an earlier `start` of the same run returned.
            name: the name of the run directory.
            job: the name of the job, such as `evaluate`.
            tags: versions, digest of the input and status, which may differ the next time.
        """

    def log_params(self, params: Mapping[str, str]) -> None:
        """Log the configuration, which is the same whenever the run goes on."""

    def log_metrics(self, metrics: Mapping[str, float], at: int) -> None:
        """Log figures by name. `at` is when the run ended, in milliseconds since 1970."""

    def log_table(self, file: Path) -> None:
        """Log the rows of a Parquet file, under the name of the file."""

    def log_artifact(self, file: Path) -> None:
        """Log a file as it is, such as the page of the run."""

    def finish(self, *, complete: bool) -> str:
        """End the run of the tracker, and return where to look at it, or "". Nothing is lost after that."""


def check_library(name: str) -> None:
    """Raise ValueError where a tracker's library is not installed."""
    if find_spec(name) is None:
        raise ValueError(f"it needs {name}, which is not installed; install it with: pip install 'fdarx[tracking]'")
