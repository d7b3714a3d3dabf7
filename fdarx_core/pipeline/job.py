"""The base class of jobs: steps process rows in parts, then figures and the report are written; a plan is checked."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fdarx_core.llm import AskingStopped, ModelConfig, ResponseStore, ledger
from fdarx_core.llm.batch_files import unanswered_files
from fdarx_core.pipeline.asking import ClientPool, PlanRow, add_up
from fdarx_core.pipeline.executor import Executor, PartResult, Stages, Work
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Resource
from fdarx_core.report.page_engine import listed
from fdarx_core.storage import Location, RunConflict, RunDirectory
from fdarx_core.telemetry import span

_EFFECTS = {
    "writer": "no question is written on their passages",
    "reader": "their questions stay without an answer to compare",
    "judge": "their questions stay without a verdict",
}

Progress = Callable[[str, int, int, str], None]
"""A function that is called with a phase, the number of finished units, their total (0 if unknown), and a note."""


@dataclass(slots=True, kw_only=True)
class PipelineJob(ABC):
    """A job, which makes one run directory. If it is interrupted, another process can run it again and resume it.

    A subclass implements the work before the stages (`prepare`), the `stages`, and the work after them (`publish`).
    `phase` is the name of the work on parts. `code_version` is a digest of all code that determines the rows of parts.

    Args:
        run: The run directory.
        executor: The executor of the parts.
        progress: A function that shows the progress.
        clients: The models that the job asks, and its limits.
        tell: A function that is called with sentences for the user.
        reuse: Folders of other runs' responses, which are used for identical requests.
        seed: Random seed of the intervals.
        resamples: Number of bootstrap resamples of the intervals.
        timings: Seconds by phase, for `run.json`.
        numbers: The numbers of the parts, which `prepare` sets.
    """

    phase: ClassVar[str]
    code_version: ClassVar[str] = ""

    run: RunDirectory
    executor: Executor
    progress: Progress
    clients: ClientPool
    tell: Callable[[str], None] = field(default=lambda sentence: None, repr=False)
    reuse: Sequence[Location] = ()
    seed: int = 0
    resamples: int = 2000
    timings: dict[str, float] = field(default_factory=dict)
    numbers: Sequence[int] = field(default=(), init=False)

    @abstractmethod
    def prepare(self, *, planned: bool) -> None:
        """Do all work before the stages; if `planned`, only the work that determines requests."""

    @abstractmethod
    def stages(self, *, planned: bool) -> Stages:
        """Return the stages with all their parts; if `planned`, only with the steps that determine requests."""

    def phases(self) -> Iterator[Stages]:
        """Yield the stages to make; those that read what others made come later. The plan has those of `stages`."""
        yield self.stages(planned=False)

    @abstractmethod
    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Write figures and the report, and end the run. Return the content of `run.json`.

        `ended` has the reason for each stage that stopped sending requests early.
        """

    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        """Return the resources that the steps call, by name; none unless a subclass overrides this."""
        return {}

    def work(self, stages: Stages, store: ResponseStore, *, planned: bool) -> Work:
        """Return the work on some parts of the stages."""
        return Work(stages, self.clients, store, self.resources(planned=planned))

    def finished(self, stage: str, numbers: Collection[int]) -> set[int]:
        """Return the numbers of the parts that a stage need not make again."""
        return self.parts.complete_parts("", numbers)

    def show(self, done: int, total: int, result: PartResult | None = None) -> None:
        """Show the number of finished parts; called at the start and after each result."""
        self.progress(self.phase, done, total, "")

    def run_all(self) -> dict[str, Any]:
        """Do all remaining work. Return the content of `run.json`.

        The status of the run is "incomplete" after transient failures; run the job again to resume it. Raises
        AskingStopped where no part could be made, since a model gives no replies (wrong key, server down).
        """
        self.prepare(planned=False)
        _return_freed_memory()
        ended: dict[str, str] = {}
        made = 0
        with self.timed(self.phase):
            for stages in self.phases():
                made += self._make(stages, ended)
                _return_freed_memory()
                if ended:
                    break
        if ended and self.clients.batch_files:
            for line in unanswered_files(Location(self.clients.batch_files)):
                self.tell(line)
        if ended and not made and not (self.clients.batch or self.clients.batch_files):
            raise AskingStopped(next(iter(ended.values())))
        return self.publish(ended)

    def plan(self) -> list[PlanRow]:
        """Return the requests by task and model, without sending any: the baseline answers in place of the models."""
        return add_up(self.planned_parts(), self.clients.models)

    def plan_notes(self, planned: Sequence[PlanRow]) -> list[str]:
        """Return sentences on a plan: on the prompts that exceed the context of their model."""
        return prompt_length_lines(planned, self.clients.models)

    def planned_parts(self) -> Iterator[list[PlanRow]]:
        """Yield the requests that the job would send, part by part, without sending any."""
        self.prepare(planned=True)
        stages = self.stages(planned=True)
        work = self.work(stages, ResponseStore(self.run.file("responses")), planned=True)
        total = sum(len(parts) for _, parts in stages)
        self.progress("plan", 0, total, "")
        for done, part in enumerate(self.executor.plan(work), 1):
            self.progress("plan", done, total, "")
            yield part
        self.run.stop("planned")

    @property
    def parts(self) -> PartFiles:
        """The part files of the run."""
        return PartFiles(self.run, self.code_version)

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Record the seconds that the block takes, if it ends without an exception."""
        return timed(self.timings, phase)

    def request_counts(self) -> list[dict[str, Any]]:
        """Return the requests and tokens so far, one entry per task and endpoint, for `run.json`."""
        store = ResponseStore(self.run.file("responses"))
        store.compact()
        return ledger(store, self.clients.models)

    def end(self, summary: Mapping[str, Any], *, complete: bool) -> dict[str, Any]:
        """Write the summary and the status of the run into `run.json`. Return its content."""
        if complete:
            self.run.finish(dict(summary))
        else:
            self.run.stop("incomplete", dict(summary))
        return self.run.info()

    def publish_parts(
        self, ended: Mapping[str, str], about: Mapping[str, Any], write: Callable[[Mapping[str, Any]], str]
    ) -> dict[str, Any]:
        """Publish a job of one stage. Return the content of `run.json`.

        Args:
            ended: As in `publish`.
            about: Fields of `run.json` that are specific to this job.
            write: A function that writes figures and the report, given the new content of `run.json`, and returns the
                result in words.
        """
        self.progress("publish", 0, 1, "")
        undone = len(self.numbers) - len(self.finished(self.phase, self.numbers))
        why = next(iter(ended.values()), f"{undone} parts have requests that failed for now" if undone else "")
        summary = {
            "code_version": self.code_version,
            **about,
            "ended": why,
            "timings": self.timings,
            "flows": self.executor.flows,
            "asked": self.request_counts(),
        }
        with self.timed("publish"):
            summary["result"] = write({**self.run.info(), **summary})
        return self.end(summary, complete=not why)

    def _make(self, stages: Stages, ended: dict[str, str]) -> int:
        """Make the remaining parts; return how many are made then. Add to `ended` why a stage stopped asking early."""
        left = []
        for stage, parts in stages:
            finished = self.finished(stage.name, [part.number for part in parts])
            left.append((stage, [part for part in parts if part.number not in finished]))
        total = sum(len(parts) for _, parts in stages)
        made = done = total - sum(len(parts) for _, parts in left)
        self.show(done, total)
        if done < total:
            store = ResponseStore(self.run.file("responses"))
            for other in self.reuse:
                store.take_over(ResponseStore(other))
            store.compact(prune=True)
            for result in self.executor.run(self.work(left, store, planned=False)):
                done += result.part is not None
                made += result.part is not None and not result.ended
                if result.ended:
                    ended.setdefault(result.stage, result.ended)
                self.show(done, total, result)
        return made


def _return_freed_memory() -> None:
    """Return freed memory to the system, where the C library is glibc.

    It keeps what a thread has freed for that thread. A third of the memory of a build was kept like this: what the
    preparation had taken, and what the threads had taken that asked in each phase.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


@contextmanager
def timed(timings: dict[str, float], phase: str) -> Iterator[None]:
    """Record the seconds that the block takes in `timings`, if it ends without an exception, and have a span for it."""
    start = time.perf_counter()
    with span(phase):
        yield
    timings[phase] = round(time.perf_counter() - start, 2)


def check_inputs(run: RunDirectory, digest: str, what: str) -> None:
    """Check that all parts of a run come from the same inputs, by a digest that the first start writes.

    Raises RunConflict if the inputs differ; `what` names them in its message.
    """
    note = run.file("input.json")
    if not (run.resumed and note.exists()):
        note.write_text(json.dumps({"digest": digest}) + "\n")
    elif json.loads(note.read_text())["digest"] != digest:
        raise RunConflict(
            f"{run.root} was begun with {what} than those found now; choose another --out, or restore the first ones"
        )


def prompt_length_lines(
    rows: Sequence[PlanRow],
    models: Mapping[str, ModelConfig],
    role_of: Callable[[str], str] = lambda task: task,
    counted_on: str = "",
) -> list[str]:
    """Return a sentence for each role and model with prompts that are too long, and one on the models not checked.

    Args:
        rows: the planned requests by task and model.
        models: the models by name; those without a `context_length` are not checked.
        role_of: the role of a task, by default its name.
        counted_on: what the prompts were counted on, where it is not all that is planned.
    """
    by_role: dict[tuple[str, str], list[PlanRow]] = defaultdict(list)
    for row in rows:
        if row.endpoint in models:
            by_role[role_of(row.task), row.endpoint].append(row)
    lines = []
    for (role, name), planned in by_role.items():
        model, requests = models[name], sum(row.requests for row in planned)
        if not (too_long := sum(row.too_long for row in planned)):
            continue
        found = [row for row in planned if row.too_long and role != row.task]
        details = [f"{row.too_long:,} of {row.task}" if len(found) > 1 else f"all of them {row.task}" for row in found]
        if counted_on:
            details.insert(0, counted_on)
        where = f" ({'; '.join(details)})" if details else ""
        lines.append(
            f"{role} {name}: {too_long:,} of {requests:,} prompts{where} leave no room for a reply of max_tokens "
            f"{model.max_tokens:,} in its context_length of {model.context_length:,}. Its server will refuse them, and "
            f"{_EFFECTS.get(role, 'what they are about stays without a result')}; give a model with a longer context, "
            "or lower max_tokens."
        )
    return [*lines, *unchecked_line(dict.fromkeys(name for _, name in by_role if models[name].context_length is None))]


def unchecked_line(names: Iterable[str]) -> list[str]:
    """Return the line on models whose prompts are not checked, for want of a `context_length`; nothing without any."""
    if not (unknown := list(names)):
        return []
    return [
        f"The lengths of prompts to {listed(unknown)} are not checked; to check them, set context_length in --models "
        "to the tokens that the server takes, of prompt and reply together."
    ]
