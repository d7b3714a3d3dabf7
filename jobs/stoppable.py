"""Running a job's work so that Ctrl-C, and anything that goes wrong, leaves a run that can be gone on with."""

from __future__ import annotations

from typing import Any, Protocol

from fdarx_core.pipeline.control import Control, wind_down
from fdarx_core.storage import RunDirectory
from jobs.progress import ProgressLine


class Work(Protocol):
    """A job's work on a run."""

    run: RunDirectory
    control: Control | None

    def run_all(self) -> dict[str, Any]: ...


def run_stoppable(work: Work, progress: ProgressLine) -> None:
    """Run it to its end. However else it ends, what is in flight is stored and `run.json` says how it ended."""
    try:
        with progress.watching(lambda: work.control):
            work.run_all()
    except KeyboardInterrupt:
        wind_down(work.control)
        work.run.stop("interrupted")
        raise
    except BaseException:
        work.run.stop("failed")
        raise
