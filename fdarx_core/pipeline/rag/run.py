"""A whole comparison: questions, every way of answering them, then tables and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

import ray

from fdarx_core.llm import ResponseStore
from fdarx_core.llm.ledger import ledger
from fdarx_core.pipeline.control import Control, beside_driver, start_control
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.pipeline.rag.parts import UNDERSTOOD_BY, RagParts
from fdarx_core.pipeline.rag.results import publish
from fdarx_core.pipeline.rag.similarity import SimilarityHolder
from fdarx_core.pipeline.rag.talks import Talks
from fdarx_core.pipeline.rag.tools import Holders, IndexHolder, RerankerHolder
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.pipeline.sweep.windows import cluster_has, in_windows
from fdarx_core.records import RagQuestion, Reject
from fdarx_core.storage import RunDirectory, write_records

_PARTS_IN_TALK = 8

Progress = Callable[[str, int, int, str], None]
"""Called with a phase, how much of it is done, of how much, and what is worth saying of it."""


@dataclass(slots=True)
class RagEvaluation:
    """One comparison into a run directory; it may be interrupted anywhere and run again in a new process."""

    run: RunDirectory
    sweep: RagSweep
    questions: Sequence[RagQuestion]
    rejects: Sequence[Reject]
    progress: Progress
    seed: int = 0
    resamples: int = 2000
    reuse: Sequence[RunDirectory] = ()
    control: Control | None = None
    timings: dict[str, float] = field(default_factory=dict)
    holders: list[Any] = field(default_factory=list)

    def run_all(self) -> dict[str, Any]:
        """Answer, judge and compare; returns what `run.json` then says.

        Its status is "incomplete" where something failed for now, and running again goes on.
        """
        parts = RagParts(self.run)
        numbers = parts.split(self.questions)
        write_records(self.run.part("rejects", 0), self.rejects, Reject)
        with self._timed("answer"):
            ended = self._answer(parts, numbers)
        return self._publish(parts, numbers, ended)

    def plan(self) -> list[PlanRow]:
        """What the comparison would ask of whom, without asking: the built-in rules stand in for the models."""
        parts = RagParts(self.run)
        numbers = parts.split(self.questions)
        talks = self._talks(parts)
        found: list[list[Planned]] = []
        for part in in_windows(talks.plan.remote, numbers, _PARTS_IN_TALK):
            found.append(part)
            self.progress("plan", len(found), len(numbers), "")
        self.run.stop("planned")
        return add_up(found, self.sweep.models)

    def _answer(self, parts: RagParts, numbers: Sequence[int]) -> str:
        """What ended asking, or ""."""
        open_parts = parts.undone(numbers)
        if not open_parts:
            return ""
        store = ResponseStore(self.run.file("responses"))
        for other in self.reuse:
            store.take_over(ResponseStore(other.file("responses")))
        talks = self._talks(parts)
        ended = ""
        before = len(numbers) - len(open_parts)
        self.progress("answer", before, len(numbers), "")
        for done, why in enumerate(in_windows(talks.hold.remote, open_parts, _PARTS_IN_TALK), before + 1):
            ended = ended or why
            self.progress("answer", done, len(numbers), "")
        ray.get(talks.close.remote())
        return ended

    def _talks(self, parts: RagParts) -> Any:
        self.control = start_control()
        sweep = self.sweep
        holders = Holders(
            self._held(IndexHolder),
            self._held(RerankerHolder) if "rerank" in sweep.postprocessors else "",
            self._held(SimilarityHolder) if sweep.bertscore or sweep.encoder else "",
        )
        talks: Any = ray.remote(Talks)
        bounds = {"max_restarts": 4, "max_task_retries": 4, "max_concurrency": _PARTS_IN_TALK}
        made = talks.options(num_cpus=0, label_selector=beside_driver(), **bounds)
        return made.remote(parts, sweep, self.run.file("responses"), self.control.name, holders)

    def _publish(self, parts: RagParts, numbers: Sequence[int], ended: str) -> dict[str, Any]:
        self.progress("publish", 0, 1, "")
        store = ResponseStore(self.run.file("responses"))
        still_open = parts.undone(numbers)
        why = ended or (f"{len(still_open)} parts have requests that failed for now" if still_open else "")
        summary: dict[str, Any] = {
            "understood_by": UNDERSTOOD_BY,
            "index": {"place": str(self.sweep.place), "version": self.sweep.version},
            "questions": len(self.questions),
            "rejects": len(self.rejects),
            "ended": why,
            "timings": self.timings,
            "asked": [asdict(row) for row in ledger(store, self.sweep.models)],
        }
        with self._timed("publish"):
            publish(parts, numbers, self.sweep, summary, seed=self.seed, resamples=self.resamples)
        if why:
            self.run.stop("incomplete", summary)
        else:
            self.run.finish(summary)
        return self.run.info()

    def _held(self, holder: type) -> str:
        """The name of an actor that shares a GPU with the other holders, where there is one; it lasts as this does."""
        name = f"fdarx-{holder.__name__}-{uuid4().hex}"
        actor: Any = ray.remote(holder)
        shared = {"num_cpus": 0.25, "num_gpus": 0.33 if cluster_has("GPU") else 0}
        made = actor.options(name=name, max_restarts=4, max_task_retries=4, **shared)
        self.holders.append(made.remote(self.sweep))
        return name

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[phase] = round(time.perf_counter() - start, 2)
