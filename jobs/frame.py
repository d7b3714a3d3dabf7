"""What the jobs that write a run have in common: how they begin, what they say of a run that stands, how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from fdarx_core.llm import AskingStopped, ModelsError
from fdarx_core.pipeline.planning import PlanRow
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.storage import RunDirectory, StorageError
from jobs.build_plan import tell_plan
from jobs.exits import INTERRUPTED, STOPPED
from jobs.options import stop
from jobs.progress import ProgressLine
from jobs.ray_session import ray_session
from jobs.stoppable import Work, ending, run_stoppable

_WRONG: tuple[type[Exception], ...] = (StorageError, ModelsError, ModelMissing)
"""What wrong arguments of any job raise."""


class PlannedWork(Work, Protocol):
    """Work that can say beforehand what it would ask."""

    def plan(self) -> list[PlanRow]: ...


def exit_code(job: Callable[[], int], *wrong: type[Exception]) -> int:
    """The job's exit code: what it returns, 2 after one line for wrong arguments, 3 where it was stopped while asking,
    130 where it was interrupted. `wrong` is what else its wrong arguments raise."""
    try:
        return job()
    except _WRONG + wrong as error:
        stop(str(getattr(error, "cause", error)))  # Ray wraps what a worker raised
    except AskingStopped as error:
        print(f"stopped: {error}", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:
        print("\ninterrupted; what is done is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED


def is_done(run: RunDirectory, understood_by: str | None = None) -> bool:
    """Whether nothing is left to do in a run just begun; how it stands is said in a line, unless it is new.

    `understood_by` is the state of the code that results rest on: a run that another left is made anew.
    """
    if run.complete and (understood_by is None or run.info()["understood_by"] == understood_by):
        print(f"{run.root} is complete already, nothing to do", file=sys.stderr)
        return True
    if run.complete:
        print(f"FDARx reads or grades otherwise by now: reading the replies of {run.root} anew", file=sys.stderr)
    elif run.resumed:
        print(f"resuming {run.root}", file=sys.stderr)
    return False


@contextmanager
def session(
    run: RunDirectory,
    phases: Mapping[str, str],
    *,
    asking: str,
    read: Sequence[str | None],
    cpus: int | None,
    for_models: int = 0,
) -> Iterator[ProgressLine]:
    """Ray, a line of progress, and a run that says how it ended; as `ProgressLine` and `ray_session`."""
    with (
        ending(run),
        ray_session(cpus, for_models=for_models, written=[run.root], read=read),
        ProgressLine(phases, asking=asking) as progress,
    ):
        yield progress


def carried_out(work: PlannedWork, progress: ProgressLine, *, plan: bool) -> bool:
    """Does the work and returns True; where it is only planned, says what it would ask and returns False."""
    if plan:
        tell_plan(work.plan())
        return False
    run_stoppable(work, progress)
    return True


def end_code(info: Mapping[str, Any]) -> int:
    """The exit code of a run that ended so; why something was left open is said in a line."""
    if info["status"] != "incomplete":
        return 0
    print(f"incomplete: {info['ended']}; the same command goes on from there", file=sys.stderr)
    return STOPPED
