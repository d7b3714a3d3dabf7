"""A whole scoring: answers, the checks of each, then figures, tables and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import ray

from fdarx_core.llm import ResponseStore
from fdarx_core.llm.ledger import ledger
from fdarx_core.pipeline.control import Control, beside_driver, start_control
from fdarx_core.pipeline.factuality.checks import Checks, Holders
from fdarx_core.pipeline.factuality.flagging import make_table
from fdarx_core.pipeline.factuality.holding import holders_of
from fdarx_core.pipeline.factuality.naming import ingredients
from fdarx_core.pipeline.factuality.parts import UNDERSTOOD_BY, FactualityParts
from fdarx_core.pipeline.factuality.pool import Hired
from fdarx_core.pipeline.factuality.results import publish
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.pipeline.sweep.windows import in_windows
from fdarx_core.records import CheckedAnswer, Reject
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark import open_build

_PARTS_IN_HAND = 8

Progress = Callable[[str, int, int, str], None]
"""Called with a phase, how much of it is done, of how much, and what is worth saying of it."""
Rows = Callable[[], Iterator[CheckedAnswer | Reject]]


@dataclass(slots=True)
class FactualityEvaluation:
    """One scoring into a run directory; it may be interrupted anywhere and run again in a new process.

    `rows` gives the answers to be checked, and the rows that are none; `told` is what run.json says of them.
    """

    run: RunDirectory
    checking: Checking
    rows: Rows
    told: dict[str, Any]
    progress: Progress
    seed: int = 0
    resamples: int = 10_000
    reuse: Sequence[RunDirectory] = ()
    control: Control | None = None
    timings: dict[str, float] = field(default_factory=dict)
    hired: Hired = field(default_factory=Hired)

    def run_all(self) -> dict[str, Any]:
        """Check, score and compare; returns what `run.json` then says.

        Its status is "incomplete" where something failed for now, and running again goes on.
        """
        parts = FactualityParts(self.run)
        with self._timed("intake"):
            numbers = parts.split(self.rows())
        forbidden = 0
        if self.checking.safety:
            with self._timed("contraindications"):
                forbidden = make_table(self.run, open_build(self.checking.safety), self._telling("contraindications"))
        with self._timed("rxnav"):
            found = ingredients(self.run, self.checking, (one for part in numbers for one in parts.answers(part)))
        self.told["rxnav"] = found.notice
        with self._timed("check"):
            ended = self._check(parts, numbers, found.names)
        return self._publish(parts, numbers, ended, forbidden)

    def plan(self) -> list[PlanRow]:
        """What the scoring would ask of whom, without asking: the built-in rules stand in for the models."""
        parts = FactualityParts(self.run)
        numbers = parts.split(self.rows())
        checks = self._checks(parts, planned=True)
        found: list[list[Planned]] = []
        for part in in_windows(checks.plan.remote, numbers, _PARTS_IN_HAND):
            found.append(part)
            self.progress("plan", len(found), len(numbers), "")
        self.run.stop("planned")
        return add_up(found, self.checking.models)

    def _check(self, parts: FactualityParts, numbers: Sequence[int], synonyms: Mapping[str, Sequence[str]]) -> str:
        """What ended asking, or ""."""
        open_parts = parts.undone(numbers)
        if not open_parts:
            return ""
        store = ResponseStore(self.run.file("responses"))
        for other in self.reuse:
            store.take_over(ResponseStore(other.file("responses")))
        checks = self._checks(parts, synonyms)
        ended = ""
        before = len(numbers) - len(open_parts)
        self.progress("check", before, len(numbers), "")
        for done, why in enumerate(in_windows(checks.hold.remote, open_parts, _PARTS_IN_HAND), before + 1):
            ended = ended or why
            self.progress("check", done, len(numbers), "")
        ray.get(checks.close.remote())
        return ended

    def _checks(
        self, parts: FactualityParts, synonyms: Mapping[str, Sequence[str]] | None = None, *, planned: bool = False
    ) -> Any:
        self.control = start_control()
        holders: Holders = holders_of(self.hired, self.checking, synonyms, planned=planned)
        checks: Any = ray.remote(Checks)
        bounds = {"max_restarts": 4, "max_task_retries": 4, "max_concurrency": _PARTS_IN_HAND}
        made = checks.options(num_cpus=0, label_selector=beside_driver(), **bounds)
        return made.remote(parts, self.checking, self.run.file("responses"), self.control.name, holders)

    def _publish(self, parts: FactualityParts, numbers: Sequence[int], ended: str, forbidden: int) -> dict[str, Any]:
        self.progress("publish", 0, 1, "")
        still_open = parts.undone(numbers)
        why = ended or (f"{len(still_open)} parts have requests that failed for now" if still_open else "")
        summary = self._summary(len(numbers), why, forbidden)
        with self._timed("publish"):
            publish(self.run, {**self.run.info(), **summary}, seed=self.seed, resamples=self.resamples)
        if why:
            self.run.stop("incomplete", summary)
        else:
            self.run.finish(summary)
        return self.run.info()

    def _summary(self, parts: int, why: str, forbidden: int) -> dict[str, Any]:
        checking = self.checking
        return {
            "understood_by": UNDERSTOOD_BY,
            **self.told,
            "parts": parts,
            "method": asdict(checking.method),
            "safety": checking.safety,
            "contraindications": forbidden,
            "ended": why,
            "timings": self.timings,
            "asked": [asdict(row) for row in ledger(ResponseStore(self.run.file("responses")), checking.models)],
        }

    def _telling(self, phase: str) -> Callable[[int, int], None]:
        return lambda done, of: self.progress(phase, done, of, "")

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[phase] = round(time.perf_counter() - start, 2)
