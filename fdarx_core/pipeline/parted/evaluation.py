"""The driver: rows cut into parts, one process that takes them in hand, then figures, tables and the report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import ray

from fdarx_core.llm.ledger import ledger
from fdarx_core.pipeline.control import Control, beside_driver, start_control
from fdarx_core.pipeline.parted.files import PartFiles
from fdarx_core.pipeline.parted.pool import Hired
from fdarx_core.pipeline.parted.worker import PartWorker, What
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.pipeline.running import Progress, store_of, timed
from fdarx_core.pipeline.sweep.windows import in_windows
from fdarx_core.storage import RunDirectory

_PARTS_IN_HAND = 8


@dataclass(slots=True, kw_only=True)
class PartedEvaluation(ABC):
    """One evaluation into a run directory; it may be interrupted anywhere and run again in a new process.

    A subclass names the phase in which parts are made and the worker that makes them.
    """

    phase: ClassVar[str]
    worker: ClassVar[type[PartWorker[Any]]]

    run: RunDirectory
    what: What
    progress: Progress
    seed: int
    resamples: int
    reuse: Sequence[RunDirectory] = ()
    control: Control | None = None
    timings: dict[str, float] = field(default_factory=dict)
    hired: Hired = field(default_factory=Hired)

    @property
    @abstractmethod
    def parts(self) -> PartFiles: ...

    @abstractmethod
    def cut(self) -> range:
        """Write down the rows and the rejects; returns the parts' numbers."""

    def prepare(self, numbers: Sequence[int]) -> None:
        """What is to be done between cutting and asking; nothing, where a subclass does not say what."""
        return

    @abstractmethod
    def holders(self, *, planned: bool) -> Any:
        """What the worker gets of the actors that hold what is heavy; of a plan, those that it needs."""

    @abstractmethod
    def about(self, numbers: Sequence[int]) -> Mapping[str, Any]:
        """What `run.json` says of this evaluation beside what it says of all."""

    @abstractmethod
    def publish(self, numbers: Sequence[int], info: Mapping[str, Any]) -> None:
        """Write figures and the report; `info` is what `run.json` will say."""

    def run_all(self) -> dict[str, Any]:
        """Make all parts and publish them; returns what `run.json` then says.

        Its status is "incomplete" where something failed for now, and running again goes on.
        """
        numbers = self.cut()
        self.prepare(numbers)
        with timed(self.timings, self.phase):
            ended = self._make(numbers)
        return self._end(numbers, ended)

    def plan(self) -> list[PlanRow]:
        """What would be asked of whom, without asking: the built-in rules stand in for the models."""
        numbers = self.cut()
        worker = self._hire(planned=True)
        found: list[list[Planned]] = []
        for part in in_windows(worker.plan.remote, numbers, _PARTS_IN_HAND):
            found.append(part)
            self.progress("plan", len(found), len(numbers), "")
        self.run.stop("planned")
        return add_up(found, self.what.models)

    def _make(self, numbers: Sequence[int]) -> str:
        """What ended asking, or ""."""
        waiting = self.parts.undone(numbers)
        if not waiting:
            return ""
        store_of(self.run, self.reuse)
        worker = self._hire(planned=False)
        ended = ""
        before = len(numbers) - len(waiting)
        self.progress(self.phase, before, len(numbers), "")
        for done, why in enumerate(in_windows(worker.hold.remote, waiting, _PARTS_IN_HAND), before + 1):
            ended = ended or why
            self.progress(self.phase, done, len(numbers), "")
        ray.get(worker.close.remote())
        return ended

    def _hire(self, *, planned: bool) -> Any:
        self.control = start_control()
        worker: Any = ray.remote(self.worker)
        bounds = {"max_restarts": 4, "max_task_retries": 4, "max_concurrency": _PARTS_IN_HAND}
        made = worker.options(num_cpus=0, label_selector=beside_driver(), **bounds)
        return made.remote(self.parts, self.what, self.control.name, self.holders(planned=planned))

    def _end(self, numbers: Sequence[int], ended: str) -> dict[str, Any]:
        self.progress("publish", 0, 1, "")
        still_open = self.parts.undone(numbers)
        why = ended or (f"{len(still_open)} parts have requests that failed for now" if still_open else "")
        summary: dict[str, Any] = {
            "understood_by": self.parts.understood_by,
            **self.about(numbers),
            "ended": why,
            "timings": self.timings,
            "asked": [asdict(row) for row in ledger(store_of(self.run), self.what.models)],
        }
        with timed(self.timings, "publish"):
            self.publish(numbers, {**self.run.info(), **summary})
        if why:
            self.run.stop("incomplete", summary)
        else:
            self.run.finish(summary)
        return self.run.info()
