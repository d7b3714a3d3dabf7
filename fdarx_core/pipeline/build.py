"""A whole build: the flow over what is not done yet, then the benchmark, the report and the accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fdarx_core.filters.judges import JUDGES, Judge
from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import Identity, Selection
from fdarx_core.labels.sources import Inputs
from fdarx_core.llm import ResponseStore
from fdarx_core.llm.ledger import ledger
from fdarx_core.pipeline.accounts import check_accounts
from fdarx_core.pipeline.control import Control
from fdarx_core.pipeline.corpus import Corpus, Progress, choose_labels
from fdarx_core.pipeline.dossier import total
from fdarx_core.pipeline.flow import Flow, numbered_parts
from fdarx_core.pipeline.meters import tell_stages
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.plan import Roles, build_steps
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.pipeline.running import store_of, timed
from fdarx_core.pipeline.sink import ACCOUNTS, Sink
from fdarx_core.records import Reject, StageCount
from fdarx_core.report import build_report
from fdarx_core.storage import RunConflict, RunDirectory, read_records, write_records
from fdarx_core.storage.benchmark import write_benchmark


@dataclass(frozen=True, slots=True)
class What:
    """What a build is: which labels, how much to ask of each, who judges by what, and how much asking may take."""

    inputs: Inputs
    selection: Selection = field(default_factory=Selection)
    amounts: Amounts = field(default_factory=Amounts)
    roles: Roles = field(default_factory=Roles)
    max_requests: int | None = None
    max_cost: float | None = None
    reuse: Sequence[RunDirectory] = ()
    judges: Sequence[Judge] = JUDGES

    def flow(self, store: ResponseStore) -> Flow:
        outside = Outside(self.roles.used, self.max_requests, self.max_cost)
        return Flow(build_steps(self.amounts, self.roles, self.judges), store, outside)


def plan_build(what: What, store: ResponseStore, progress: Progress) -> list[PlanRow]:
    """What the build would ask of whom, without asking; `store` stays empty. Raises EmptySelection."""
    return add_up(planned_parts(what, store, progress), what.roles.models)


def planned_parts(what: What, store: ResponseStore, progress: Progress) -> Iterator[list[Planned]]:
    """The same, each request, part by part."""
    corpus = choose_labels(what.inputs, what.selection, progress)
    parts = numbered_parts(corpus.labels)
    for done, part in enumerate(what.flow(store).plan_parts(parts), 1):
        progress("plan", done, len(parts), [])
        yield part


@dataclass(slots=True)
class Build:
    """One build into a run directory; it may be interrupted anywhere and run again in a new process."""

    run: RunDirectory
    what: What
    progress: Progress
    flow: Flow | None = None
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def control(self) -> Control | None:
        """The line to the conversation, once there is one."""
        return self.flow.control if self.flow else None

    def run_all(self) -> dict[str, Any]:
        """Build, write the benchmark and the report, and mark the run complete; returns what `run.json` then says.

        Raises EmptySelection, RunConflict when the input changed since the run began, and what ended asking.
        """
        with timed(self.timings, "identify"):
            corpus = choose_labels(self.what.inputs, self.what.selection, self.progress)
        self._check_input(corpus.digest)
        with timed(self.timings, "build"):
            counts = self._build(corpus)
        return self._publish(corpus, total([*corpus.counts, *counts]))

    def _check_input(self, digest: str) -> None:
        """Parts of a run must all come from the same labels; the first start notes which, a later one compares."""
        note = self.run.file("input.json")
        if self.run.resumed and note.exists():
            if json.loads(note.read_text())["digest"] != digest:
                raise RunConflict(
                    f"{self.run.root} was begun with other labels than those found now; choose another --out, "
                    "or bring the first ones back"
                )
        else:
            note.write_text(json.dumps({"digest": digest}) + "\n")

    def _build(self, corpus: Corpus) -> list[StageCount]:
        parts = numbered_parts(corpus.labels)
        write_records(self.run.part("rejects", len(parts)), corpus.rejects, Reject)
        counts, waiting = self._standing(parts)
        self.flow = self.what.flow(self._store())
        for made in self.flow.build_parts(waiting, Sink(self.run)):
            tell_stages(self.run.root.name, made)
            counts = total([*counts, *made])
            done = next(count.rows_in for count in counts if count.stage == "passages")
            self.progress("build", done, len(corpus.labels), counts)
        return counts

    def _standing(
        self, parts: Sequence[tuple[int, Sequence[Identity]]]
    ) -> tuple[list[StageCount], list[tuple[int, Sequence[Identity]]]]:
        """The accounts of parts that an earlier start made, and the parts that are still to make."""
        standing = {location.name for location in self.run.parts(ACCOUNTS)}
        waiting = [part for part in parts if self.run.part(ACCOUNTS, part[0]).name not in standing]
        done = [self.run.part(ACCOUNTS, number) for number, _ in parts]
        made = (read_records(location, StageCount) for location in done if location.name in standing)
        return total(count for rows in made for count in rows), waiting

    def _store(self) -> ResponseStore:
        """The run's store, its index read once, here, for all workers."""
        store = store_of(self.run, self.what.reuse)
        store.index()
        return store

    def _publish(self, corpus: Corpus, stages: list[StageCount]) -> dict[str, Any]:
        check_accounts(stages)
        inputs = self.what.inputs
        read = {"digest": corpus.digest, "files": len(inputs.sources), "ignored": inputs.ignored}
        summary: dict[str, Any] = {
            "input": {**read, "set_ids_not_found": corpus.not_found},
            "stages": [asdict(stage) for stage in stages],
            "timings": self.timings,
            "asked": [asdict(row) for row in ledger(store_of(self.run), self.what.roles.models)],
        }
        with timed(self.timings, "publish"):
            self.progress("publish", 0, 1, stages)
            summary["questions"] = write_benchmark(self.run, about={**self.run.info(), **summary})
            self.run.file("report.html").write_text(build_report(self.run, summary))
        self.run.finish(summary)
        return self.run.info()
