"""SPL labels in, a question-answering benchmark with provenance out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from fdarx_core.labels import find_sources
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.build import Build, What, plan_build
from fdarx_core.pipeline.corpus import EmptySelection, Progress
from fdarx_core.pipeline.plan import STAGES
from fdarx_core.records import StageCount
from fdarx_core.storage import Location, RunDirectory
from jobs.build_config import BuildConfig
from jobs.build_plan import tell_plan
from jobs.frame import exit_code, is_done
from jobs.options import read_options
from jobs.progress import ProgressLine
from jobs.ray_session import ray_session
from jobs.stoppable import ending, run_stoppable
from jobs.versions import versions

_PHASES = {
    "identify": "files identified",
    "plan": "parts planned",
    "build": "labels built",
    "publish": "writing the benchmark and the report",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 stopped while asking, 130 interrupted."""
    config = read_options(BuildConfig, arguments, prog="fdarx build", description=__doc__ or "")
    return exit_code(lambda: _plan(config) if config.plan else _build(config), EmptySelection)


def _what(config: BuildConfig) -> What:
    return What(
        find_sources(config.labels),
        config.selection(),
        config.amounts(),
        config.roles(),
        config.max_requests,
        config.max_cost,
        [RunDirectory.open(other) for other in config.reuse],
        config.judges(),
    )


def _plan(config: BuildConfig) -> int:
    what = _what(config)
    with TemporaryDirectory() as nowhere, _session(config, what) as progress:
        rows = plan_build(what, ResponseStore(Location(nowhere)), _telling(progress))
    tell_plan(rows)
    return 0


def _build(config: BuildConfig) -> int:
    what = _what(config)
    identity = config.identity(what.roles)
    run = RunDirectory.begin(config.out, job="build_benchmark", config=identity, versions=versions())
    if not is_done(run):
        config.keep_criteria(run)
        with ending(run), _session(config, what, [run.root]) as progress:
            run_stoppable(Build(run, what, _telling(progress)), progress)
    _tell(run.info(), run)
    return 0


@contextmanager
def _session(config: BuildConfig, what: What, written: Sequence[Location] = ()) -> Iterator[ProgressLine]:
    read = sorted({source.location for source in what.inputs.sources})
    with (
        ray_session(config.cpus, written=written, read=[*read[:1], *read[-1:]]),
        ProgressLine(_PHASES, asking="build") as progress,
    ):
        yield progress


def _telling(line: ProgressLine) -> Progress:
    """What is worth telling of a build's accounts: questions so far, and rejects."""

    def tell(phase: str, done: int, total: int, counts: Sequence[StageCount]) -> None:
        made = next((count.rows_out for count in counts if count.stage == STAGES[-1]), None)
        lost = sum(count.rejected for count in counts)
        line(phase, done, total, "" if made is None else f"{made:,} questions, {lost:,} rejects")

    return tell


def _tell(info: dict[str, Any], run: RunDirectory) -> None:
    kinds = info["questions"]
    print(f"\n{sum(kinds.values()):,} questions: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()))
    for stage in info["stages"]:
        print(f"  {stage['stage']:<12} {stage['rows_in']:>9,} in {stage['rejected']:>9,} rejected")
    for row in info["asked"]:
        if row["endpoint"] != "baseline":
            cost = "" if row["cost"] is None else f", {row['cost']:.2f} USD"
            tokens = f"{row['prompt_tokens']:,} tokens in, {row['completion_tokens']:,} out"
            print(f"  {row['task']} by {row['endpoint']}: {row['requests']:,} requests, {tokens}{cost}")
    if not sum(kinds.values()):
        print("no question passed; report.html and rejects/ say where they were lost and why", file=sys.stderr)
    if missing := info["input"]["set_ids_not_found"]:
        print(f"{len(missing)} of the set ids asked for are not in the input, {missing[0]} first", file=sys.stderr)
    print(f"benchmark  {run.file('benchmark')}\nreport     {run.file('report.html')}")


if __name__ == "__main__":
    sys.exit(main())
