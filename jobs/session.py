"""The frame of all jobs: start, executor, signals, resumed runs and plans."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

import orjson

from fdarx_core.llm import Baseline
from fdarx_core.pipeline.asking import PlanRow, batch_records
from fdarx_core.pipeline.executor import SMALL, Executor, ExecutorName
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.report.page_engine import plural, render_page
from fdarx_core.specs.options import ComputingConfig
from fdarx_core.specs.running import AskingSpec, RunJob, RunSpec, finish, is_current
from fdarx_core.storage import Location, RunDirectory, StorageError
from fdarx_core.storage.errors import Unreachable
from fdarx_core.telemetry import process_span
from jobs import STOPPED, wrong_arguments
from jobs.output import print_json
from jobs.progress import ProgressLine, batches_text, busy
from jobs.ray_session import as_ctrl_c, ray_session

_ASK_AGAIN = "Replies are kept, unusable ones too: to ask again, give a new --out, without --reuse of this run."

SpecT = TypeVar("SpecT", bound=RunSpec)


def tell_plan(rows: Sequence[PlanRow], notes: Sequence[str], *, as_json: bool) -> None:
    """Print a line for each task and model, their sum and the notes; with `as_json`, lines and sum as an object."""
    if as_json:
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
        run.remove_if_empty()
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
            try:
                folder.delete_tree()
            except StorageError as error:  # a run needs no permission to delete, but this folder is no run
                print(f"the files of the plan are left in {folder}: {error}", file=sys.stderr)
    else:
        with TemporaryDirectory() as name:
            yield name


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


def is_done(run: RunDirectory, code_version: str | None = None) -> bool:
    """Return whether nothing is left to do in a run just begun; print its state in a line, unless it is new.

    `code_version` is the state of the code that results rest on: a run that another left is made anew.
    """
    if run.complete and is_current(run, code_version):
        asked = any(row["endpoint"] != Baseline.name for row in run.info().get("asked", []))
        print(f"{run.root} is complete already, nothing to do{f'. {_ASK_AGAIN}' * asked}", file=sys.stderr)
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
    traced: AbstractContextManager[object] = nullcontext()
    if run is not None:  # below this span are those of the job's phases, parts and requests, also in workers
        about = {"fdarx.job": run.info()["job"], "fdarx.run": run.root.name, "fdarx.resumed": run.resumed}
        traced = process_span(f"job {about['fdarx.job']}", about)
    with ending(run) if run else as_ctrl_c(), traced, ProgressLine(phases, quiet=config.quiet) as progress:
        if name == "local":
            yield progress, LocalExecutor()
            return
        written = [run.root] if run else []
        progress("ray", 0, 1)
        with ray_session(config.cpus, for_models=for_models, written=written, read=read):
            from fdarx_core.pipeline.ray_executor import RayExecutor

            yield progress, RayExecutor(config.demand)


def run_result(run: RunDirectory, **more: Any) -> dict[str, Any]:
    """Return the result of a run for programs: its address, run.json, and metrics.json where it has one."""
    file = run.file("metrics.json")
    metrics = {"metrics": orjson.loads(file.read_bytes())} if file.exists() else {}
    return {"run": str(run.root), **run.info(), **metrics, **more}


def carry_out(
    spec: SpecT,
    phases: Mapping[str, str],
    tell: Callable[[RunDirectory, SpecT], int],
    *,
    busy_text: str,
    around: Callable[[RunJob, ProgressLine], AbstractContextManager[object]] = lambda job, progress: nullcontext(),
    for_models: int = 0,
) -> int:
    """Carry out the job of a specification, or print its plan; return the exit code.

    Args:
        spec: The specification.
        phases: The names of the phases, for the progress.
        tell: Prints the result, and returns the exit code.
        busy_text: What is shown while the inputs are opened.
        around: A block in which the job runs.
        for_models: CPUs for models that are deployed, see `ray_session`.
    """
    with wrong_arguments(), busy(busy_text, quiet=spec.quiet):
        opened = spec.open()
        reuse = spec.responses()
    plan = isinstance(spec, AskingSpec) and spec.plan
    with run_folder(spec.out, plan=plan) as out:
        run = spec.begin(opened, out)
        if is_done(run, opened.code_version):
            return tell(run, spec)
        for line in opened.lines("" if plan else str(run.part("rejects", 0))):
            print(line, file=sys.stderr)
        if not (plan or spec.by_batch_api) and (batched := batch_records(run.file("responses")).uncollected()):
            print(
                f"{plural(sum(batched.values()), 'request')} of {run.root} in {len(batched)} batches were not "
                "collected: with --batch they are collected, without it they are sent and paid for again",
                file=sys.stderr,
            )
        with session(
            spec,
            phases,
            read=opened.read,
            executor=spec.asking_executor,
            size=opened.size,
            run=run,
            for_models=for_models,
        ) as (progress, executor):
            job = opened.make(run=run, executor=executor, progress=progress, tell=progress.tell, reuse=reuse)
            with around(job, progress):
                if plan:
                    assert isinstance(job, PipelineJob)
                    planned = job.plan()
                    tell_plan(planned, job.plan_notes(planned), as_json=spec.as_json)
                    return 0
                with progress.watching(executor.asking, getattr(job, "phase", "")):
                    finish(job, lambda: _await_in_flight(executor))
        return tell(run, spec)


def end_code(info: Mapping[str, Any], silent: Collection[str] = ()) -> int:
    """Return the exit code for a run of this state; print why something was left open, or who gave no usable reply."""
    if info["status"] == "incomplete":
        print(f"incomplete: {info['ended']}; the same command resumes the job", file=sys.stderr)
    elif silent:
        print(f"No reply of {' and '.join(sorted(silent))} could be used. {_ASK_AGAIN}", file=sys.stderr)
    return STOPPED if silent or info["status"] == "incomplete" else 0
