"""The frame of the jobs: rows cut into parts, the parts taken through steps, then figures, tables and the report."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fdarx_core.llm import ResponseStore
from fdarx_core.llm.response_store import ledger
from fdarx_core.pipeline.executor import Executor, PartResult, Stages, Work
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.planning import PlanRow, add_up
from fdarx_core.pipeline.steps import Resource
from fdarx_core.storage import RunConflict, RunDirectory

Progress = Callable[[str, int, int, str], None]
"""Called with a phase, how much of it is done, of how much (0 where that is not known), and a note."""


@dataclass(slots=True, kw_only=True)
class PipelineJob(ABC):
    """Makes one run directory. It may be interrupted anywhere and run again, in a new process: what is done is kept.

    A subclass declares what comes before asking (`prepare`), its `stages`, and what comes after them (`publish`).
    `phase` names the making of the parts. `code_version` is the state of all code that the rows of parts rest on.

    Args:
        spec: The specification of the job; it has `models`, by name, and `clients`.
        reuse: Other runs, whose responses are not asked for again.
        seed: Fixes the intervals.
        resamples: Bootstrap resamples of the intervals.
        timings: Seconds by phase, for `run.json`.
        numbers: The numbers of the parts, once prepared.
    """

    phase: ClassVar[str]
    code_version: ClassVar[str] = ""

    run: RunDirectory
    executor: Executor
    progress: Progress
    spec: Any
    reuse: Sequence[RunDirectory] = ()
    seed: int = 0
    resamples: int = 2000
    timings: dict[str, float] = field(default_factory=dict)
    numbers: Sequence[int] = field(default=(), init=False)

    @abstractmethod
    def prepare(self, *, planned: bool) -> None:
        """Do all that comes before asking; for a plan, what leads to requests."""

    @abstractmethod
    def stages(self, *, planned: bool) -> Stages:
        """Return the stages with all their parts; for a plan, with the steps that lead to requests."""

    @abstractmethod
    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Write figures and the report, and end the run; returns what `run.json` then says.

        `ended` says by stage why asking ended early.
        """

    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        """Return what the steps of the stages call; nothing, unless a subclass overrides it."""
        return {}

    def work(self, stages: Stages, store: ResponseStore, *, planned: bool) -> Work:
        """Return the work on some parts of the stages."""
        return Work(stages, self.spec.clients, store, self.resources(planned=planned))

    def finished(self, stage: str, numbers: Collection[int]) -> set[int]:
        """Return those of the parts that a stage need not make again."""
        return self.parts.marked("", numbers)

    def show(self, done: int, total: int, result: PartResult | None = None) -> None:
        """Show how many parts are made, before the first is and after each result."""
        self.progress(self.phase, done, total, "")

    def run_all(self) -> dict[str, Any]:
        """Do all that is not done yet; returns what `run.json` then says.

        The status of the run is "incomplete" after transient failures; run the job again to resume it.
        """
        self.prepare(planned=False)
        with self.timed(self.phase):
            ended = self._make()
        return self.publish(ended)

    def plan(self) -> list[PlanRow]:
        """Return what would be asked of whom, without asking: the built-in rules answer in place of the models."""
        return add_up(self.planned_parts(), self.spec.models)

    def planned_parts(self) -> Iterator[list[PlanRow]]:
        """Return each request that the job would send, part by part, without sending any."""
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
        """Note the seconds that the block takes, once it has ended well."""
        return timed(self.timings, phase)

    def asked(self) -> list[dict[str, Any]]:
        """Return what was asked so far, one entry per task and endpoint, for `run.json`."""
        return ledger(store_of(self.run), self.spec.models)

    def end(self, summary: Mapping[str, Any], *, complete: bool) -> dict[str, Any]:
        """Write the summary into `run.json`, with the status of the run; returns what it then says."""
        if complete:
            self.run.finish(dict(summary))
        else:
            self.run.stop("incomplete", dict(summary))
        return self.run.info()

    def publish_parts(
        self, ended: Mapping[str, str], about: Mapping[str, Any], write: Callable[[Mapping[str, Any]], None]
    ) -> dict[str, Any]:
        """Publish a job of one stage; returns what `run.json` then says.

        Args:
            ended: As in `publish`.
            about: What `run.json` says of this job beside what it says of all.
            write: Writes figures and the report, given what `run.json` will say.
        """
        self.progress("publish", 0, 1, "")
        undone = len(self.numbers) - len(self.finished(self.phase, self.numbers))
        why = next(iter(ended.values()), f"{undone} parts have requests that failed for now" if undone else "")
        summary = {
            "code_version": self.code_version,
            **about,
            "ended": why,
            "timings": self.timings,
            "asked": self.asked(),
        }
        with self.timed("publish"):
            write({**self.run.info(), **summary})
        return self.end(summary, complete=not why)

    def _make(self) -> dict[str, str]:
        """Make the parts that are not made yet; returns by stage why asking ended early."""
        stages = self.stages(planned=False)
        left = []
        for stage, parts in stages:
            finished = self.finished(stage.name, [part.number for part in parts])
            left.append((stage, [part for part in parts if part.number not in finished]))
        total = sum(len(parts) for _, parts in stages)
        done = total - sum(len(parts) for _, parts in left)
        self.show(done, total)
        ended: dict[str, str] = {}
        if done < total:
            store = store_of(self.run, self.reuse)
            store.index()
            for result in self.executor.run(self.work(left, store, planned=False)):
                done += result.part is not None
                if result.ended:
                    ended.setdefault(result.stage, result.ended)
                self.show(done, total, result)
        return ended


@contextmanager
def timed(timings: dict[str, float], phase: str) -> Iterator[None]:
    """Note the seconds that the block takes, once it has ended well."""
    start = time.perf_counter()
    yield
    timings[phase] = round(time.perf_counter() - start, 2)


def store_of(run: RunDirectory, reuse: Iterable[RunDirectory] = ()) -> ResponseStore:
    """Return the run's responses, with those of other runs among them."""
    store = ResponseStore(run.file("responses"))
    for other in reuse:
        store.take_over(ResponseStore(other.file("responses")))
    return store


def check_inputs(run: RunDirectory, digest: str, what: str) -> None:
    """Check that all parts of a run come from the same inputs, by a digest that the first start writes.

    Raises RunConflict; `what` names in its message the inputs that differ.
    """
    note = run.file("input.json")
    if not (run.resumed and note.exists()):
        note.write_text(json.dumps({"digest": digest}) + "\n")
    elif json.loads(note.read_text())["digest"] != digest:
        raise RunConflict(
            f"{run.root} was begun with {what} than those found now; choose another --out, or restore the first ones"
        )
