"""The frame of all jobs: start, executor, signals, resumed runs and plans."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import orjson

from fdarx_core.llm import AskingStopped, ModelConfig
from fdarx_core.pipeline.asking import PlanRow, batch_records, check_batch_apis
from fdarx_core.pipeline.executor import SMALL, Executor, ExecutorName
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.storage import Location, RunDirectory, StorageError, version_of
from fdarx_core.storage.errors import Unreachable
from fdarx_core.telemetry import process_span
from jobs import STOPPED
from jobs.options import ComputingConfig, JobConfig
from jobs.output import print_json, wants_json
from jobs.progress import ProgressLine, batches_text
from jobs.ray_session import as_ctrl_c, ray_session


def versions() -> dict[str, str]:
    """Return the versions of Python, FDARx and the libraries that decide its results."""
    names = ("fdarx", "ray", "lxml", "pyarrow")
    return {"python": sys.version.split()[0], **{name: version_of(name) for name in names}}


def tell_plan(rows: Sequence[PlanRow], notes: Sequence[str] = ()) -> None:
    """Print a line for each task and model, their sum and the notes; with `--json`, lines and sum as an object."""
    from fdarx_core.report.page_engine import render_page  # importing it takes longer than most of a job's start

    if wants_json():
        planned = [{name: value for name, value in asdict(row).items() if name != "key"} for row in rows]
        counted = ("requests", "prompt_tokens", "shared_tokens", "completion_tokens")
        costs = [row.cost for row in rows if row.cost is not None]
        total = {name: sum(getattr(row, name) for row in rows) for name in counted}
        print_json({"plan": planned, "sum": {**total, "cost": sum(costs) if costs else None}})
    else:
        print(render_page("plan.txt.j2", rows=rows, notes=notes))


@contextmanager
def ending(run: RunDirectory) -> Iterator[None]:
    """Make sure that, however the block ends (also by SIGTERM), `run.json` no longer says that the run is running, and
    another job may write it."""
    try:
        with as_ctrl_c():
            yield
    except Unreachable as error:  # run.json can't be written either, and is corrected by the next job
        cause = getattr(error, "cause", error)  # an error of a Ray task comes with its traceback around it
        print(f"error: {' '.join(str(cause).split())}", file=sys.stderr)
        raise SystemExit(STOPPED) from error
    except BaseException as error:
        if run.info()["status"] == "running":
            run.stop("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    finally:
        run.release()


@contextmanager
def run_folder(out: str | None, *, plan: bool) -> Iterator[str]:
    """Return the folder of a run: `out`; for a plan, and without `out`, one that is removed when the block ends.

    The machines of a cluster share no temporary folder: there, the folder of a plan is beside `out`.
    """
    if out is not None and not plan:
        yield out
    elif out is not None and os.environ.get("RAY_ADDRESS"):
        folder = Location(f"{Location(out)}.plan-{uuid4().hex}")
        try:
            yield folder.address
        finally:
            _delete_plan(folder)
    else:
        with TemporaryDirectory() as name:
            yield name


def _delete_plan(folder: Location) -> None:
    try:
        folder.delete_tree()
    except StorageError as error:  # a run needs no permission to delete, but this folder is no run
        print(f"the files of the plan are left in {folder}: {error}", file=sys.stderr)


@contextmanager
def asking_session(config: JobConfig, phases: Mapping[str, str]) -> Iterator[tuple[ProgressLine, Executor]]:
    """Return the progress and an executor in this process, for a job that asks a little and writes no run.

    However the block ends, what is in flight is stored.
    """
    from fdarx_core.pipeline.local import LocalExecutor

    executor = LocalExecutor()
    line = ProgressLine(phases, "judge", quiet=config.quiet)
    with as_ctrl_c(), line as progress, progress.watching(executor.asking):
        try:
            yield progress, executor
        except KeyboardInterrupt:
            _await_in_flight(executor)
            raise


def run_stoppable(job: PipelineJob, progress: ProgressLine) -> None:
    """Run a job to its end. However else it ends, what is in flight is stored and `run.json` says how it ended.

    Raises what ended it: AskingStopped where that is why.
    """
    with progress.watching(job.executor.asking):
        try:
            job.run_all()
        except KeyboardInterrupt:
            _interrupt(job)
            raise
        except BaseException as error:
            job.run.stop("stopped" if isinstance(error, AskingStopped) else "failed")
            raise


def _interrupt(job: PipelineJob) -> None:
    """Write the status before waiting, because `ray job stop` kills the job three seconds after SIGTERM."""
    job.executor.stop_asking()
    job.run.stop("interrupted")
    _await_in_flight(job.executor)


def _await_in_flight(executor: Executor) -> None:
    executor.stop_asking()
    asking = executor.asking()
    if asking is not None:
        what = "waiting for what is in flight, Ctrl-C gives it up"
        if asking.batches:
            what = f"the same command collects {batches_text(asking.batches)}"
        print(f"\nnothing more is asked; {what}", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            executor.await_stopped()


def check_servers(models: Mapping[str, ModelConfig], out: str, *, batch: bool) -> None:
    """Raise ModelsError, before a run begins, if it is to ask a server in batches that has no batch API."""
    if batch:
        check_batch_apis(models.values(), Location(out) / "responses")


def warn_of_batches(run: RunDirectory, *, batch: bool) -> None:
    """Print a line if a job is about to send requests directly that are in batches of the run."""
    waiting = {} if batch else batch_records(run.file("responses")).uncollected()
    if waiting:
        print(
            f"{sum(waiting.values()):,} requests of {run.root} are in {len(waiting)} batches that were not collected: "
            "with --batch they are collected, without it they are sent and paid for again",
            file=sys.stderr,
        )


def is_done(run: RunDirectory, code_version: str | None = None) -> bool:
    """Return whether nothing is left to do in a run just begun; print its state in a line, unless it is new.

    `code_version` is the state of the code that results rest on: a run that another left is made anew.
    """
    if run.complete and (code_version is None or run.info()["code_version"] == code_version):
        print(f"{run.root} is complete already, nothing to do", file=sys.stderr)
        return True
    if run.complete:
        print(f"FDARx reads or grades otherwise by now: reading the replies of {run.root} anew", file=sys.stderr)
    elif run.resumed:
        print(f"resuming {run.root}", file=sys.stderr)
    return False


@contextmanager
def session(
    config: ComputingConfig,
    phases: Mapping[str, str],
    *,
    read: Sequence[str | None],
    executor: ExecutorName,
    asking: str = "",
    size: int | None = None,
    run: RunDirectory | None = None,
    for_models: int = 0,
) -> Iterator[tuple[ProgressLine, Executor]]:
    """Return the progress and the executor that a job runs on, with Ray started where that is needed.

    `size` is the number of labels, documents or answers, None where it is not known: `auto` takes this process for
    small work, unless RAY_ADDRESS names a cluster. A given run says how it ended. See `ProgressLine`, `ray_session`.
    """
    if config.verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    name = executor
    if name == "auto":
        small = size is not None and size <= SMALL and not for_models and not os.environ.get("RAY_ADDRESS")
        name = "local" if small else "ray"
    with (
        ending(run) if run else as_ctrl_c(),
        _run_span(run),
        ProgressLine(phases, asking, quiet=config.quiet) as progress,
    ):
        if name == "local":
            from fdarx_core.pipeline.local import LocalExecutor

            yield progress, LocalExecutor()
            return
        written = [run.root] if run else []
        progress("ray", 0, 1)
        with ray_session(config.cpus, for_models=for_models, written=written, read=read):
            from fdarx_core.pipeline.ray_executor import RayExecutor

            made = RayExecutor(config.demand)
            with progress.awaiting(made.waiting):
                yield progress, made


def _run_span(run: RunDirectory | None) -> AbstractContextManager[object]:
    """Return the span of a job, below which are those of its phases, parts and requests, also in workers."""
    if run is None:
        return nullcontext()
    job = run.info()["job"]
    return process_span(f"job {job}", {"fdarx.job": job, "fdarx.run": run.root.name, "fdarx.resumed": run.resumed})


def run_result(run: RunDirectory, **more: Any) -> dict[str, Any]:
    """Return the result of a run for programs: its address, run.json, and metrics.json where it has one."""
    file = run.file("metrics.json")
    metrics = {"metrics": orjson.loads(file.read_bytes())} if file.exists() else {}
    return {"run": str(run.root), **run.info(), **metrics, **more}


def carried_out(
    work: PipelineJob,
    progress: ProgressLine,
    *,
    plan: bool,
    expected: Callable[[list[PlanRow]], list[PlanRow]] = lambda planned: planned,
    plan_note: str = "",
) -> bool:
    """Do the work and return True; for a plan, print what it would ask and return False.

    `expected` makes of the plan, which is an upper bound, what is expected to be asked.
    `plan_note` says how to read it.
    """
    if plan:
        planned = work.plan()
        tell_plan(expected(planned), [*work.prompt_lengths(planned), *([plan_note] if plan_note else [])])
        return False
    run_stoppable(work, progress)
    return True


def end_code(info: Mapping[str, Any]) -> int:
    """Return the exit code for a run of this state; print why something was left open."""
    if info["status"] != "incomplete":
        return 0
    print(f"incomplete: {info['ended']}; the same command resumes the job", file=sys.stderr)
    return STOPPED
