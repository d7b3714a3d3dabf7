"""A whole evaluation: labels taken in, retrieval, every model in a stage of its own, then figures and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from fdarx_core.evaluation.equivalence import equivalences
from fdarx_core.evaluation.overlap import meteor_name
from fdarx_core.evaluation.settings import needs_whole_label
from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.pipeline.evaluation_models import retrieve, score_semantics
from fdarx_core.pipeline.evaluation_results import merge_cells, write_results
from fdarx_core.pipeline.evaluation_steps import (
    CODE_VERSION,
    LABELS_PER_PART,
    EvalSample,
    EvaluationParts,
    EvaluationSpec,
    GivenAnswers,
    baseline,
    evaluation_steps,
)
from fdarx_core.pipeline.executor import ModelFleet, PartResult, Work
from fdarx_core.pipeline.job import PipelineJob, check_inputs
from fdarx_core.pipeline.planning import Planned
from fdarx_core.pipeline.steps import Part, Stage
from fdarx_core.records import Reject, SettingProgress, content_id
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.storage import RunDirectory, write_records
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem


@dataclass(slots=True)
class IntakeSummary:
    """What was taken in: parts, labels, labels with all their text, questions by type.

    `due` counts the questions of each setting, `ids` are those of all questions.
    """

    parts: int = 0
    labels: int = 0
    whole: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    due: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)

    def add(self, group: Sequence[BenchmarkItem], spec: EvaluationSpec) -> None:
        """Count one part."""
        self.parts += 1
        for label in group:
            self.labels += 1
            self.whole += label.subject.whole
            self.questions.update(question.type for question in label.questions)
            self.ids.update(question.id for question in label.questions)
            for setting in spec.settings:
                self.due[setting] += sum(spec.is_due(setting, question, label.subject) for question in label.questions)


@dataclass(slots=True, kw_only=True)
class Evaluation(PipelineJob):
    """One evaluation into a run directory; see `PipelineJob`. The run must have passed `check_benchmark`.

    `given` are answers made elsewhere; `sample` bounds the labels; `fleet` brings models up.
    """

    benchmark: Benchmark
    spec: EvaluationSpec
    given: GivenAnswers = field(default_factory=dict)
    sample: int | None = None
    seed: int = 0
    resamples: int = 2000
    fleet: ModelFleet | None = None

    @property
    def models(self) -> Mapping[str, ModelConfig]:
        return self.spec.models

    def run_all(self) -> dict[str, Any]:
        """Evaluate, write metrics and the report.

        The run is complete where every cell is done or was skipped; else its status is "incomplete", and running again
        goes on.
        """
        parts, intake = self._prepare()
        numbers = range(intake.parts)
        with self.timed("answer"):
            cells = self._answer(parts, numbers, intake)
        if self.spec.bertscore:
            with self.timed("bert_scores"):
                score_semantics(self.executor, parts, self.spec, numbers, self._report("bert_scores"))
        return self._publish(cells, intake)

    def planned_parts(self) -> Iterator[list[Planned]]:
        """See `PipelineJob`. What is read and ranked for the plan stays in the run."""
        parts, intake = self._prepare()
        stages = [
            (self._stage(parts, self.spec, model), [Part(number) for number in range(intake.parts)])
            for model in self.spec.answerers
        ]
        work = self._work(stages, self.spec, ResponseStore(self.run.file("responses")))
        yield from self.plan_work(work, len(stages) * intake.parts)
        self.run.stop("planned")

    def _prepare(self) -> tuple[EvaluationParts, IntakeSummary]:
        """Do everything that comes before asking."""
        parts = EvaluationParts(self.run)
        with self.timed("intake"):
            intake = self._take_in(parts)
        if intake.whole:
            with self.timed("retrieve"):
                retrieve(self.executor, parts, self.spec, range(intake.parts), self._report("retrieve"))
        return parts, intake

    def _take_in(self, parts: EvaluationParts) -> IntakeSummary:
        """Copy the benchmark into the run part by part, so that the run stands alone, each part with the passages that
        are worth as much as its gold passages; parts that are there already are left alone."""
        intake = IntakeSummary()
        self.progress("intake", 0, 0, "")

        def waiting() -> Iterator[tuple[int, list[BenchmarkItem]]]:
            for number, group in enumerate(_grouped(self._labels())):
                intake.add(group, self.spec)
                self.progress("intake", intake.labels, 0, "")
                if not parts.marked("intake", [number]):
                    yield number, group

        for _ in self.executor.map(partial(_write_intake, parts), waiting()):
            pass
        return intake

    def _labels(self) -> Iterator[BenchmarkItem]:
        """Return the labels, or a sample of them, in order of set id."""
        if self.sample is None:
            return self.benchmark.items()
        ids = [label.subject.set_id for label in self.benchmark.items()]
        chosen = set(sorted(ids, key=lambda one: content_id(str(self.seed), one))[: self.sample])
        return (label for label in self.benchmark.items() if label.subject.set_id in chosen)

    def _report(self, phase: str) -> Callable[[int, int], None]:
        return lambda done, of: self.progress(phase, done, of, "")

    def _answer(self, parts: EvaluationParts, numbers: Sequence[int], intake: IntakeSummary) -> list[SettingProgress]:
        """Have the models answer, and the judge grade, all that is left; return the progress of each cell."""
        ended: dict[str, str] = {}
        total = len(self.spec.graded) * len(numbers)
        unfinished = {model: self._unfinished(parts, model, numbers) for model in self.spec.graded}
        done = total - sum(map(len, unfinished.values()))
        self.progress("answer", done, total, "")
        if done < total:
            spec = replace(self.spec, models=self.fleet.located(self.spec.models)) if self.fleet else self.spec
            stages = [
                (self._stage(parts, spec, model), [Part(number) for number in left])
                for model, left in unfinished.items()
            ]
            for result in self.executor.run(self._work(stages, spec, self.store())):
                done += result.part is not None
                if result.ended:
                    ended[result.stage] = result.ended
                self._count(result)
                state = self.fleet.state() if self.fleet else ""
                self.progress("answer", done, total, f"{result.stage} ended" if result.ended else state)
        return [cell for model in self.spec.graded for cell in self._cells(parts, model, numbers, intake, ended)]

    def _unfinished(self, parts: EvaluationParts, model: str, numbers: Sequence[int]) -> list[int]:
        marked = parts.marked(f"graded/{model}", numbers)
        done = {one for one in marked if all(cell.status == "done" for cell in parts.cells(model, one))}
        return [number for number in numbers if number not in done]

    def _stage(self, parts: EvaluationParts, spec: EvaluationSpec, model: str) -> Stage[EvalSample]:
        given = None
        if model not in spec.answerers:
            given = {key: answer for key, answer in self.given.items() if key[1].model == model}
        steps = evaluation_steps(spec, model, given)
        read, write = partial(_samples, parts, spec, model, given), partial(_write_part, parts, spec, model)
        return Stage(model, read, steps, write, window=4)

    def _work(
        self, stages: Sequence[tuple[Stage[Any], Sequence[Part]]], spec: EvaluationSpec, store: ResponseStore
    ) -> Work:
        return Work(stages, spec.clients, baseline(), store, fleet=self.fleet, isolated=True)

    def _count(self, result: PartResult) -> None:
        if result.account is None:
            return
        run, (labels, grades) = self.run.root.name, result.account
        self.executor.count("fdarx_run_labels", labels, {"run": run, "model": result.stage})
        for (cell, outcome), count in grades.items():
            self.executor.count("fdarx_run_grades", count, {"run": run, "cell": cell, "outcome": outcome})

    def _cells(
        self,
        parts: EvaluationParts,
        model: str,
        numbers: Sequence[int],
        intake: IntakeSummary,
        ended: Mapping[str, str],
    ) -> list[SettingProgress]:
        marked = parts.marked(f"graded/{model}", numbers)
        cells = merge_cells((parts.cells(model, part) for part in sorted(marked)), self.spec.cells(model))
        if model in ended:
            cells = [replace(cell, status="incomplete", reason=ended[model]) for cell in cells]
        if model not in self.spec.answerers:
            return cells
        return [_with_due(cell, intake) for cell in cells]

    def _publish(self, cells: Sequence[SettingProgress], intake: IntakeSummary) -> dict[str, Any]:
        with self.timed("publish"):
            self.progress("publish", 0, 1, "")
            write_records(self.run.part("rejects", 0), [*self.benchmark.rejects, *self._unknown(intake)], Reject)
            filled = write_results(self.run, cells, self.spec.retrievers, seed=self.seed, resamples=self.resamples)
        summary: dict[str, Any] = {
            "code_version": CODE_VERSION,
            "benchmark": self.benchmark.about,
            "labels": intake.labels,
            "whole_labels": intake.whole,
            "questions": dict(intake.questions),
            "cells": [asdict(cell) for cell in filled],
            "timings": self.timings,
            "notes": [f"Overlap of answers is the mean over questions of BLEU, {meteor_name()}, and ROUGE-L."],
            "asked": self.asked(),
        }
        with self.timed("report"):
            self.run.file("report.html").write_text(build_evaluation_report(self.run, summary))
        if all(cell.status != "incomplete" for cell in filled):
            self.run.finish(summary)
        else:
            self.run.stop("incomplete", summary)
        return self.run.info()

    def _unknown(self, intake: IntakeSummary) -> list[Reject]:
        """Return rejects for answers to questions that this benchmark, or the sample of it, does not have."""
        detail = "no question of the benchmark has this id" if self.sample is None else "not in the sample, or unknown"
        return [
            Reject(question_id, "intake", "unknown_question", f"{cell}: {detail}")
            for question_id, cell in self.given
            if question_id not in intake.ids
        ]


def check_benchmark(run: RunDirectory, benchmark: str, given: GivenAnswers) -> None:
    """Check that a run goes on with the benchmark of that digest, and the given answers, with which it began.

    Raises RunConflict.
    """
    answers = (f"{question_id}\x1e{cell}\x1e{one.text}\x1e{one.cited}" for (question_id, cell), one in given.items())
    check_inputs(run, content_id(benchmark, *sorted(answers)), "another benchmark, or other predictions,")


def _samples(
    parts: EvaluationParts, spec: EvaluationSpec, model: str, given: GivenAnswers | None, part: Part
) -> list[EvalSample]:
    return parts.samples(spec, model, part.number, given)


def _write_part(
    parts: EvaluationParts, spec: EvaluationSpec, model: str, part: int, samples: Sequence[EvalSample]
) -> tuple[int, Counter[tuple[str, str]]]:
    """Write what a model made of a part; returns the number of labels, and of grades by cell and outcome."""
    parts.write_samples(spec, model, part, samples)
    grades: Counter[tuple[str, str]] = Counter()
    for sample in samples:
        cells = {row.id: "/".join(filter(None, (row.model, row.setting, row.retriever))) for row in sample.predictions}
        grades.update((cells[grade.prediction_id], grade.outcome) for grade in sample.grades)
    return len(samples), grades


def _with_due(cell: SettingProgress, intake: IntakeSummary) -> SettingProgress:
    due = intake.due[cell.setting]
    if due:
        return replace(cell, due=due)
    why = "no whole label text is at hand" if needs_whole_label(cell.setting) else "no question is due"
    return replace(cell, due=0, status="skipped", reason=f"{why} in this benchmark")


def _grouped(labels: Iterable[BenchmarkItem]) -> Iterator[list[BenchmarkItem]]:
    group: list[BenchmarkItem] = []
    for label in labels:
        group.append(label)
        if len(group) == LABELS_PER_PART:
            yield group
            group = []
    if group:
        yield group


def _write_intake(parts: EvaluationParts, item: tuple[int, Sequence[BenchmarkItem]]) -> None:
    number, group = item
    equal = [row for label in group for row in equivalences(label.questions, label.passages)]
    parts.write_examined(number, group, equal)
