"""Running a job's work so that Ctrl-C, SIGTERM and anything that goes wrong leave a run that can be gone on with."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from fdarx_core.pipeline.control import Control, asking_ended_by, await_stopped, stop_asking
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.errors import Unreachable
from jobs.exits import STOPPED
from jobs.progress import ProgressLine


class Work(Protocol):
    """A job's work on a run."""

    run: RunDirectory

    @property
    def control(self) -> Control | None: ...

    def run_all(self) -> dict[str, Any]: ...


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """SIGTERM, with which `ray job stop` and Kubernetes end a job, raises KeyboardInterrupt in the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def ending(run: RunDirectory) -> Iterator[None]:
    """However the block ends, SIGTERM included, `run.json` does not go on saying that the run is running, and another
    job may write it."""
    try:
        with as_ctrl_c():
            yield
    except Unreachable as error:  # neither can run.json be told: it goes on saying so until the next job finds that
        told = getattr(error, "cause", error)  # what a Ray task raised comes with its traceback around it
        print(f"error: {' '.join(str(told).split())}", file=sys.stderr)
        raise SystemExit(STOPPED) from error
    except BaseException as error:
        if run.info()["status"] == "running":
            run.stop("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    finally:
        run.release()


def run_stoppable(work: Work, progress: ProgressLine) -> None:
    """Run it to its end. However else it ends, what is in flight is stored and `run.json` says how it ended.

    Raises what ended it: AskingStopped where that is why.
    """
    with progress.watching(lambda: work.control):
        try:
            work.run_all()
        except KeyboardInterrupt:
            _interrupt(work)
            raise
        except BaseException:
            stopped = asking_ended_by(work.control)
            work.run.stop("stopped" if stopped else "failed")
            if stopped:
                raise stopped from None
            raise


def _interrupt(work: Work) -> None:
    """What must be comes first: `ray job stop` kills three seconds after it has asked to end."""
    stop_asking(work.control)
    work.run.stop("interrupted")
    if work.control is not None:
        print("\nnothing more is asked; waiting for what is in flight, Ctrl-C gives it up", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            await_stopped(work.control)
