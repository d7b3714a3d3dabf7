"""Log runs to experiment trackers: a finished run by `fdarx track`, and the run of a job with --track when it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fdarx_core.storage import RunDirectory
from fdarx_core.tracking import TrackerSpec, TrackingFailed, log_run
from jobs import STOPPED, stop
from jobs.cli import run_as
from jobs.options import at_commas


def track(run: str, /, *, track: list[str]) -> int:
    """Log a finished run to experiment trackers; returns the exit code: 0 done, 2 wrong argument, 3 a tracker failed.

    Parameters
    ----------
    run
        The run directory, on disk or s3://.
    track
        Trackers: mlflow:URI, wandb:PROJECT, or one of an installed package, see docs/tracking.md.
    """
    opened = RunDirectory.open(run)
    status = opened.info()["status"]
    if status not in ("complete", "incomplete"):
        stop(f"{opened.root} is {status}: it has no figures yet; finish it with the command that began it")
    return 0 if _log_to_all(opened, at_commas(track)) else STOPPED


def tracked(run: RunDirectory, trackers: Sequence[str], code: int) -> int:
    """Log the run of a job that has ended with results, and return the job's exit code, whatever trackers do."""
    _log_to_all(run, trackers)
    return code


def _log_to_all(run: RunDirectory, trackers: Sequence[str]) -> bool:
    """Log a run to trackers and print a line for each; return whether all of them took it."""
    try:
        specs = [TrackerSpec.parse(one) for one in trackers]
    except ValueError as error:
        stop(f"--track: {error}")
    failed = False
    for spec in specs:
        try:
            print(log_run(run, spec), file=sys.stderr)
        except TrackingFailed as error:
            failed = True
            later = f"the results are in {run.root}; to log them later: fdarx track {run.root} --track {spec}"
            print(f"not logged to {spec}: {error}; {later}", file=sys.stderr)
    return not failed


if __name__ == "__main__":
    run_as("track")
