"""What all jobs that write a run share: progress, timings, the response store and the ledger of what was asked."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.llm.response_store import ledger
from fdarx_core.pipeline.executor import Executor, Work
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.storage import RunConflict, RunDirectory

Progress = Callable[[str, int, int, str], None]
"""Called with a phase, how much of it is done, of how much (0 where that is not known), and a note."""


@dataclass(slots=True, kw_only=True)
class PipelineJob(ABC):
    """Makes one run directory. It may be interrupted anywhere and run again, in a new process: what is done is kept.

    `reuse` are other runs whose responses are not asked for again.
    """

    run: RunDirectory
    executor: Executor
    progress: Progress
    reuse: Sequence[RunDirectory] = ()
    timings: dict[str, float] = field(default_factory=dict)

    @abstractmethod
    def run_all(self) -> dict[str, Any]:
        """Do all that is not done yet; returns what `run.json` then says."""

    @abstractmethod
    def planned_parts(self) -> Iterator[list[Planned]]:
        """Return each request that the job would send, part by part, without sending any."""

    @property
    @abstractmethod
    def models(self) -> Mapping[str, ModelConfig]:
        """The models that may be asked, by name."""

    def plan(self) -> list[PlanRow]:
        """Return what would be asked of whom, without asking: the built-in rules answer in place of the models."""
        return add_up(self.planned_parts(), self.models)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Note the seconds that the block takes, once it has ended well."""
        start = time.perf_counter()
        yield
        self.timings[phase] = round(time.perf_counter() - start, 2)

    def store(self) -> ResponseStore:
        """Return the run's response store, those of `reuse` included, with its index read."""
        store = store_of(self.run, self.reuse)
        store.index()
        return store

    def asked(self) -> list[dict[str, Any]]:
        """Return what was asked so far, one entry per task and endpoint, for `run.json`."""
        return [asdict(row) for row in ledger(store_of(self.run), self.models)]

    def plan_work(self, work: Work, parts: int) -> Iterator[list[Planned]]:
        """Plan some work, with progress."""
        self.progress("plan", 0, parts, "")
        for done, part in enumerate(self.executor.plan(work), 1):
            self.progress("plan", done, parts, "")
            yield part


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
            f"{run.root} was begun with {what} than those found now; choose another --out, or bring the first ones back"
        )
