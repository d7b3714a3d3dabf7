"""A whole evaluation: what is evaluated, retrieval, every model in its lane, then figures and the report."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import ray

from fdarx_core.evaluation.metrics.overlap import meteor_name
from fdarx_core.evaluation.settings import needs_whole_label
from fdarx_core.llm import ResponseStore
from fdarx_core.llm.ledger import ledger
from fdarx_core.pipeline.control import Control, start_control
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.pipeline.running import Progress, store_of, timed
from fdarx_core.pipeline.sweep.fleet import Fleet, Standing
from fdarx_core.pipeline.sweep.intake import Taken, take_in
from fdarx_core.pipeline.sweep.lanes import Hall, Lane, plan_sittings
from fdarx_core.pipeline.sweep.parts import UNDERSTOOD_BY, Given, Parts
from fdarx_core.pipeline.sweep.results import in_all, results_of, write_results
from fdarx_core.pipeline.sweep.retrieving import retrieve
from fdarx_core.pipeline.sweep.semantic import score_semantics
from fdarx_core.pipeline.sweep.what import Sweep
from fdarx_core.pipeline.sweep.windows import Tell, in_windows
from fdarx_core.records import Cell, Reject, content_id
from fdarx_core.report.evaluation import build_evaluation_report
from fdarx_core.storage import RunDirectory, write_records
from fdarx_core.storage.benchmark import Benchmark, Examined


@dataclass(slots=True)
class Evaluation:
    """One evaluation into a run directory; it may be interrupted anywhere and run again in a new process."""

    run: RunDirectory
    benchmark: Benchmark
    sweep: Sweep
    progress: Progress
    given: Given = field(default_factory=dict)
    sample: int | None = None
    seed: int = 0
    resamples: int = 2000
    reuse: Sequence[RunDirectory] = ()
    fleet: Fleet = field(default_factory=Standing)
    control: Control | None = None
    timings: dict[str, float] = field(default_factory=dict)

    def run_all(self) -> dict[str, Any]:
        """Evaluate, write metrics and the report; returns what `run.json` then says.

        The run is complete where every cell is done or was skipped; else its status is "incomplete", and running again
        goes on. The run must have passed `check_input`.
        """
        parts, taken = self._prepare()
        with timed(self.timings, "sit"):
            cells = self._sit(parts, range(taken.parts), taken)
        if self.sweep.bertscore:
            with timed(self.timings, "bert_scores"):
                score_semantics(parts, self.sweep, range(taken.parts), self._tell("bert_scores"))
        return self._publish(cells, taken)

    def plan(self) -> list[PlanRow]:
        """What the sweep would ask of whom, without asking: the built-in rules stand in for the models.

        What it reads and ranks for that stays in the run.
        """
        return add_up(self.planned_parts(), self.sweep.models)

    def planned_parts(self) -> Iterator[list[Planned]]:
        """The same, each request, by model and part."""
        parts, taken = self._prepare()
        lanes = [(model, number) for model in self.sweep.answerers for number in range(taken.parts)]
        planned = ray.remote(plan_sittings)
        landed = in_windows(lambda lane: planned.remote(parts, self.sweep, *lane), lanes)
        for done, part in enumerate(landed, 1):
            self.progress("plan", done, len(lanes), "")
            yield part
        self.run.stop("planned")

    def _prepare(self) -> tuple[Parts, Taken]:
        """Everything that comes before asking."""
        parts = Parts(self.run)
        with timed(self.timings, "intake"):
            taken = take_in(parts, self._chosen(), self.sweep, lambda done: self.progress("intake", done, 0, ""))
        if taken.whole:
            with timed(self.timings, "retrieve"):
                retrieve(parts, self.sweep, range(taken.parts), self._tell("retrieve"))
        return parts, taken

    def _tell(self, phase: str) -> Tell:
        return lambda done, of: self.progress(phase, done, of, "")

    def _chosen(self) -> Iterator[Examined]:
        """The labels, or a sample of them, in order of set id."""
        if self.sample is None:
            return self.benchmark.examined()
        ids = [label.subject.set_id for label in self.benchmark.examined()]
        chosen = set(sorted(ids, key=lambda one: content_id(str(self.seed), one))[: self.sample])
        return (label for label in self.benchmark.examined() if label.subject.set_id in chosen)

    def _sit(self, parts: Parts, numbers: Sequence[int], taken: Taken) -> list[Cell]:
        store = store_of(self.run, self.reuse)
        store.index()
        lanes = [self._lane(parts, model, numbers) for model in self.sweep.sitters]
        self._run_lanes(lanes, parts, store, len(lanes) * len(numbers))
        return [cell for lane in lanes for cell in self._cells(parts, lane, numbers, taken)]

    def _run_lanes(self, lanes: Sequence[Lane], parts: Parts, store: ResponseStore, of: int) -> None:
        left = sum(len(lane.parts) for lane in lanes)
        done = of - left
        self.progress("sit", done, of, "")
        if not left:
            return
        sweep = replace(self.sweep, models=self.fleet.located(self.sweep.models))
        hall = Hall(parts, sweep, store, self.given, self.fleet)
        if sweep.used:
            self.control = start_control()
            hall.open(self.control, len(lanes))
        for lane in hall.run(lanes):
            done += lane is not None
            ended = f"{lane.model} ended" if lane is not None and lane.ended else ""
            self.progress("sit", done, of, ended or self.fleet.state())

    def _lane(self, parts: Parts, model: str, numbers: Sequence[int]) -> Lane:
        """Without the parts that it has sat to the end."""
        sat = parts.marked(f"sat/{model}", numbers)
        done = {one for one in sat if all(cell.status == "done" for cell in parts.sat(model, one))}
        return Lane(model, deque(number for number in numbers if number not in done))

    def _cells(self, parts: Parts, lane: Lane, numbers: Sequence[int], taken: Taken) -> list[Cell]:
        wanted = self.sweep.cells(lane.model)
        sat = parts.marked(f"sat/{lane.model}", numbers)
        cells = in_all((parts.sat(lane.model, part) for part in sorted(sat)), wanted)
        if lane.ended:
            cells = [replace(cell, status="incomplete", reason=lane.ended) for cell in cells]
        if lane.model not in self.sweep.answerers:
            return cells
        return [self._with_due(cell, taken) for cell in cells]

    def _with_due(self, cell: Cell, taken: Taken) -> Cell:
        due = taken.due[cell.setting]
        if due:
            return replace(cell, due=due)
        why = "no whole label text is at hand" if needs_whole_label(cell.setting) else "no question is due"
        return replace(cell, due=0, status="skipped", reason=f"{why} in this benchmark")

    def _publish(self, cells: Sequence[Cell], taken: Taken) -> dict[str, Any]:
        with timed(self.timings, "publish"):
            self.progress("publish", 0, 1, "")
            results = results_of(self.run, cells, self.sweep.retrievers, seed=self.seed, resamples=self.resamples)
            write_records(self.run.part("rejects", 0), [*self.benchmark.rejects, *self._unknown(taken)], Reject)
            write_results(self.run, results)
        summary: dict[str, Any] = {
            "understood_by": UNDERSTOOD_BY,
            "benchmark": self.benchmark.about,
            "labels": taken.labels,
            "whole_labels": taken.whole,
            "questions": dict(taken.questions),
            "cells": [asdict(cell) for cell in results.cells],
            "timings": self.timings,
            "notes": [f"Overlap of answers is the mean over questions of BLEU, {meteor_name()}, and ROUGE-L."],
            "asked": [asdict(row) for row in ledger(store_of(self.run), self.sweep.models)],
        }
        with timed(self.timings, "report"):
            self.run.file("report.html").write_text(build_evaluation_report(self.run, summary))
        if all(cell.status != "incomplete" for cell in results.cells):
            self.run.finish(summary)
        else:
            self.run.stop("incomplete", summary)
        return self.run.info()

    def _unknown(self, taken: Taken) -> list[Reject]:
        """Answers to questions that this benchmark does not have; in a sample of it, those left out."""
        detail = "no question of the benchmark has this id" if self.sample is None else "not in the sample, or unknown"
        return [
            Reject(question_id, "intake", "unknown_question", f"{cell}: {detail}")
            for question_id, cell in self.given
            if question_id not in taken.ids
        ]
