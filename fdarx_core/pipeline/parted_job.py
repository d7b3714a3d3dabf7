"""The frame of jobs of one stage: rows cut into parts, the parts made, then figures, tables and the report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fdarx_core.llm import Baseline, ModelConfig, ResponseStore
from fdarx_core.pipeline.executor import Work
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.planning import Planned
from fdarx_core.pipeline.steps import Part, Resource, Stage


@dataclass(slots=True, kw_only=True)
class PartedJob(PipelineJob):
    """A job of one stage; see `PipelineJob`. A subclass names the phase in which its parts are made.

    `spec` is the specification of the job; it has `models`, by name, and `clients`.
    """

    phase: ClassVar[str]

    spec: Any
    seed: int = 0
    resamples: int = 2000

    @property
    @abstractmethod
    def parts(self) -> PartFiles: ...

    @property
    def models(self) -> Mapping[str, ModelConfig]:
        models: Mapping[str, ModelConfig] = self.spec.models
        return models

    @property
    @abstractmethod
    def rules(self) -> Baseline:
        """The built-in rules for the tasks of the job."""

    @abstractmethod
    def cut(self) -> range:
        """Write down the rows and the rejects; returns the numbers of the parts."""

    def prepare(self, numbers: Sequence[int]) -> None:
        """Do what comes between cutting and asking; nothing, unless a subclass overrides it."""
        return

    @abstractmethod
    def stage(self, *, planned: bool) -> Stage[Any]:
        """Return the stage that makes a part; of a plan, with the steps that lead to requests."""

    @abstractmethod
    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        """Return what the steps of that stage call."""

    @abstractmethod
    def about(self, numbers: Sequence[int]) -> Mapping[str, Any]:
        """Return what `run.json` says of this job beside what it says of all."""

    @abstractmethod
    def publish(self, numbers: Sequence[int], info: Mapping[str, Any]) -> None:
        """Write figures and the report; `info` is what `run.json` will say."""

    def run_all(self) -> dict[str, Any]:
        """Make all parts and publish them.

        The status of the run is "incomplete" where something failed for now, and running again goes on.
        """
        numbers = self.cut()
        self.prepare(numbers)
        with self.timed(self.phase):
            ended = self._make(numbers)
        return self._finish(numbers, ended)

    def planned_parts(self) -> Iterator[list[Planned]]:
        """See `PipelineJob`."""
        numbers = self.cut()
        store = ResponseStore(self.run.file("responses"))
        yield from self.plan_work(self._work(numbers, store, planned=True), len(numbers))
        self.run.stop("planned")

    def _work(self, numbers: Sequence[int], store: ResponseStore, *, planned: bool = False) -> Work:
        stage = self.stage(planned=planned)
        resources = self.resources(planned=planned)
        return Work([(stage, [Part(number) for number in numbers])], self.spec.clients, self.rules, store, resources)

    def _make(self, numbers: Sequence[int]) -> str:
        """Return what ended asking, or ""."""
        waiting = self.parts.undone(numbers)
        done = len(numbers) - len(waiting)
        self.progress(self.phase, done, len(numbers), "")
        ended = ""
        if waiting:
            for result in self.executor.run(self._work(waiting, self.store())):
                ended = ended or result.ended
                done += result.part is not None
                self.progress(self.phase, done, len(numbers), "")
        return ended

    def _finish(self, numbers: Sequence[int], ended: str) -> dict[str, Any]:
        self.progress("publish", 0, 1, "")
        undone = self.parts.undone(numbers)
        why = ended or (f"{len(undone)} parts have requests that failed for now" if undone else "")
        summary: dict[str, Any] = {
            "code_version": self.parts.code_version,
            **self.about(numbers),
            "ended": why,
            "timings": self.timings,
            "asked": self.asked(),
        }
        with self.timed("publish"):
            self.publish(numbers, {**self.run.info(), **summary})
        if why:
            self.run.stop("incomplete", summary)
        else:
            self.run.finish(summary)
        return self.run.info()
