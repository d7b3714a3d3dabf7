"""A whole evaluation: labels taken in, retrieval, every model in a stage of its own, then figures and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.comparability import Barrier, barriers, excluded_metrics
from fdarx_core.evaluation.figures import (
    COMPARED,
    CellKey,
    alike_pairs,
    comparisons,
)
from fdarx_core.evaluation.gold import equivalences
from fdarx_core.evaluation.settings import needs_whole_label
from fdarx_core.evaluation.similarity import meteor_name
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.evaluation_models import retrieve, score_semantics, with_bert_scores
from fdarx_core.pipeline.evaluation_results import write_results
from fdarx_core.pipeline.evaluation_steps import (
    CODE_VERSION,
    GIVEN_ENGINE,
    LABELS_PER_PART,
    EvalSample,
    EvaluationSpec,
    GivenAnswers,
    evaluation_steps,
    read_cells,
    read_samples,
    write_items,
    write_samples,
)
from fdarx_core.pipeline.executor import ModelFleet, PartResult, Stages, Work
from fdarx_core.pipeline.job import PipelineJob, check_inputs
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.regrading import EarlierEvaluation
from fdarx_core.pipeline.steps import Part, Stage, batches
from fdarx_core.records import (
    Difference,
    Reject,
    Score,
    SettingProgress,
    arrow_schema,
    content_id,
)
from fdarx_core.report.answers_page import answers_page
from fdarx_core.report.evaluation_page import build_evaluation_report, row_name
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem


def _excluded(cells: Mapping[CellKey, SettingProgress]) -> Callable[[CellKey, CellKey], Collection[str]]:
    metrics = [name for name, _ in COMPARED]
    return lambda a, b: excluded_metrics(cells[a], cells[b], metrics)


def compare_runs(
    runs: Sequence[RunDirectory], names: Sequence[str], *, seed: int, resamples: int
) -> tuple[list[Difference], list[Barrier]]:
    """Compare cells of different runs in the same setting, on the questions that both have; of a single run, the cells
    of different models.

    `names` are the names of the runs; each model is called by `row_name`. Raises StorageError where a run has no cells.

    Returns:
        The differences, and what keeps pairs of cells from being compared.
    """
    tables: dict[CellKey, pa.Table] = {}
    cells: dict[CellKey, SettingProgress] = {}
    run_of: dict[str, str] = {}
    for run, name in zip(runs, names, strict=True):
        judge = str(run.info()["config"].get("judge", ""))
        for one in read_records(run.file("cells.parquet"), SettingProgress):
            table = _scores(run, one)
            model = row_name(name, one.model)
            run_of[model] = name
            if table is not None:
                key = CellKey(model, one.setting, one.retriever)
                tables[key], cells[key] = table, replace(one, model=model, judge=one.judge or judge)

    def wanted(a: CellKey, b: CellKey) -> bool:
        return a.model != b.model and (len(runs) == 1 or run_of[a.model] != run_of[b.model])

    pairs = [pair for pair in alike_pairs(cells) if wanted(*pair)]
    compared = comparisons(tables, seed=seed, resamples=resamples, wanted=wanted, excluded=_excluded(cells))
    return compared, barriers(cells, pairs)


def merge_cells(parts: Iterable[Sequence[SettingProgress]], wanted: Sequence[CellKey]) -> list[SettingProgress]:
    """Merge the cells of the parts of a model: done where every part is done, with the most frequent reason."""
    sums: dict[CellKey, SettingProgress] = {key: SettingProgress(*key, status="done") for key in wanted}
    reasons: dict[CellKey, Counter[str]] = {key: Counter() for key in wanted}
    for part in parts:
        for one in part:
            key = CellKey(one.model, one.setting, one.retriever)
            if one.status != sums[key].status and one.status == "incomplete":
                sums[key].status, reasons[key] = one.status, Counter()
            sums[key].due += one.due
            sums[key].answer_prompt = _both(sums[key].answer_prompt, one.answer_prompt)
            sums[key].judge_prompt = _both(sums[key].judge_prompt, one.judge_prompt)
            if one.reason and one.status == sums[key].status:
                reasons[key][one.reason] += 1
    for key, found in reasons.items():
        sums[key].reason = found.most_common(1)[0][0] if found else ""
    return list(sums.values())


def _both(listed: str, more: str) -> str:
    """Return the prompts of two parts, each once."""
    return ", ".join(sorted({*listed.split(", "), *more.split(", ")} - {""}))


def _scores(run: RunDirectory, cell: SettingProgress) -> pa.Table | None:
    """Return the rows of a cell; a column that an earlier version did not write is null."""
    schema = arrow_schema(Score)
    tables = [schema.empty_table(), *(read_table(place) for place in run.parts(f"scores/{cell.model}"))]
    table = pa.concat_tables(tables, promote_options="default").select(schema.names)
    mine = (pc.field("setting") == cell.setting) & (pc.field("retriever") == cell.retriever)
    found = with_bert_scores(run.parts(f"bert_scores/{cell.model}"), table.filter(mine))
    return found if found.num_rows else None


@dataclass(slots=True)
class IntakeSummary:
    """The rows that were read: parts, labels, labels with all their text, questions by type.

    `due` counts the questions of each setting, `due_elsewhere` those that other programs should have answered; `ids`
    are those of all questions.
    """

    parts: int = 0
    labels: int = 0
    whole: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    due: Counter[str] = field(default_factory=Counter)
    due_elsewhere: Counter[str] = field(default_factory=Counter)
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
            for setting in {cell.setting for cell in spec.given}:
                self.due_elsewhere[setting] += sum(spec.is_due_elsewhere(setting, one) for one in label.questions)


@dataclass(slots=True, kw_only=True)
class Evaluation(PipelineJob):
    """One evaluation into a run directory; see `PipelineJob`. The run must have passed `check_benchmark`.

    `given` are answers of other programs; `earlier` is the evaluation whose answers are graded again, in place of
    asking; `sample` bounds the labels; `fleet` deploys models.
    """

    phase: ClassVar[str] = "answer"
    code_version: ClassVar[str] = CODE_VERSION

    benchmark: Benchmark
    spec: EvaluationSpec
    given: GivenAnswers = field(default_factory=dict)
    earlier: EarlierEvaluation | None = None
    sample: int | None = None
    fleet: ModelFleet | None = None
    intake: IntakeSummary = field(default_factory=IntakeSummary, init=False)

    def prepare(self, *, planned: bool) -> None:
        """Copy the benchmark into the run, and rank passages."""
        with self.timed("intake"):
            self._take_in()
        self.numbers = range(self.intake.parts)
        if self.earlier is not None:
            self.earlier.copy_retrieval(self.parts, self.spec.retrievers)
        elif self.intake.whole:
            with self.timed("retrieve"):
                retrieve(self.executor, self.parts, self.spec, self.numbers, self._report("retrieve"))

    def stages(self, *, planned: bool) -> Stages:
        return [(self._stage(model), [Part(number) for number in self.numbers]) for model in self.spec.graded]

    def _stage(self, model: str) -> Stage[EvalSample]:
        spec, given = self.spec, None
        if model not in spec.answerers:
            given = {key: answer for key, answer in self.given.items() if key[1].model == model}
        read = partial(read_samples, self.parts, spec, model, given)
        write = partial(write_samples, self.parts, spec, model)
        return Stage(model, read, evaluation_steps(spec, model, given), write, window=4)

    def work(self, stages: Stages, store: ResponseStore, *, planned: bool) -> Work:
        clients = self.spec.clients
        if self.fleet and not planned:
            clients = replace(clients, models=self.fleet.located(clients.models))
        return Work(stages, clients, store, fleet=self.fleet, isolated=True)

    def finished(self, stage: str, numbers: Collection[int]) -> set[int]:
        marked = sorted(self.parts.marked(f"graded/{stage}", numbers))
        made = zip(marked, read_cells(self.parts, stage, marked), strict=True)
        return {number for number, cells in made if all(cell.status == "done" for cell in cells)}

    def show(self, done: int, total: int, result: PartResult | None = None) -> None:
        note = ""
        if result is not None:
            self._count(result)
            note = f"{result.stage} ended" if result.ended else self.fleet.state() if self.fleet else ""
        self.progress("answer", done, total, note)

    def _take_in(self) -> None:
        """Copy the benchmark into the run part by part, so that the run stands alone, each part with the passages that
        are worth as much as its gold passages; parts that are there already are left alone."""
        self.intake = IntakeSummary()
        self.progress("intake", 0, 0, "")

        def waiting() -> Iterator[tuple[int, list[BenchmarkItem]]]:
            for number, group in enumerate(self._groups()):
                self.intake.add(group, self.spec)
                self.progress("intake", self.intake.labels, 0, "")
                if not self.parts.marked("intake", [number]):
                    yield number, group

        for _ in self.executor.map(partial(_write_intake, self.parts), waiting()):
            pass

    def _groups(self) -> Iterator[list[BenchmarkItem]]:
        return batches(self._labels(), LABELS_PER_PART) if self.earlier is None else self.earlier.groups()

    def _labels(self) -> Iterator[BenchmarkItem]:
        """Return the labels, or a sample of them, in order of set id."""
        if self.sample is None:
            return self.benchmark.items()
        ids = [label.subject.set_id for label in self.benchmark.items()]
        chosen = set(sorted(ids, key=lambda one: content_id(str(self.seed), one))[: self.sample])
        return (label for label in self.benchmark.items() if label.subject.set_id in chosen)

    def _report(self, phase: str) -> Callable[[int, int], None]:
        return lambda done, of: self.progress(phase, done, of, "")

    def _count(self, result: PartResult) -> None:
        if result.account is None:
            return
        run, (labels, grades) = self.run.root.name, result.account
        self.executor.count("fdarx_run_labels", labels, {"run": run, "model": result.stage})
        for (cell, outcome), count in grades.items():
            self.executor.count("fdarx_run_grades", count, {"run": run, "cell": cell, "outcome": outcome})

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Score answers by BERTScore, write metrics and the report, and end the run.

        The run is complete where every cell is done or was skipped.
        """
        cells = [cell for model in self.spec.graded for cell in self._cells(model, ended.get(model, ""))]
        if self.spec.bertscore:
            with self.timed("bert_scores"):
                score_semantics(self.executor, self.parts, self.spec, self.numbers, self._report("bert_scores"))
        intake = self.intake
        with self.timed("publish"):
            self.progress("publish", 0, 1, "")
            write_records(self.run.part("rejects", 0), [*self.benchmark.rejects, *self._unknown(intake.ids)], Reject)
            filled = write_results(
                self.executor, self.run, cells, self.spec.retrievers, seed=self.seed, resamples=self.resamples
            )
        summary: dict[str, Any] = {
            "code_version": CODE_VERSION,
            "benchmark": self.benchmark.about,
            "labels": intake.labels,
            "whole_labels": intake.whole,
            "questions": dict(intake.questions),
            "cells": [asdict(cell) for cell in filled],
            "timings": self.timings,
            "notes": [f"Overlap of answers is the mean over questions of BLEU, {meteor_name()}, and ROUGE-L."],
            "asked": self.request_counts(),
        }
        with self.timed("report"):
            self.run.file("answers.html").write_text(answers_page(self.run, summary))
            self.run.file("report.html").write_text(build_evaluation_report(self.run, summary))
        return self.end(summary, complete=all(cell.status != "incomplete" for cell in filled))

    def _cells(self, model: str, ended: str) -> list[SettingProgress]:
        marked = self.parts.marked(f"graded/{model}", self.numbers)
        cells = merge_cells(read_cells(self.parts, model, sorted(marked)), self.spec.cells(model))
        if ended:
            cells = [replace(cell, status="incomplete", reason=ended) for cell in cells]
        judge, judge_engine = self.spec.judge, self.spec.engine(self.spec.judge)
        cells = [replace(cell, judge=judge, judge_engine=judge_engine) for cell in cells]
        if model in self.spec.answerers:
            engine = self.spec.engine(model)
            return [_with_due(replace(cell, engine=engine), self.intake.due[cell.setting]) for cell in cells]
        if self.earlier is not None:
            known = self.earlier.cells
            return [_as_before(cell, known[CellKey(cell.model, cell.setting, cell.retriever)]) for cell in cells]
        due = self.intake.due_elsewhere
        return [_with_due_elsewhere(replace(cell, engine=GIVEN_ENGINE), due[cell.setting]) for cell in cells]

    def _unknown(self, ids: Collection[str]) -> list[Reject]:
        """Return rejects for given answers to questions that have none of these ids, those of the run."""
        split, sampled = self.benchmark.about["split"], "" if self.sample is None else " in the sample"
        asked = "benchmark" if split == "all" else f"{split} split"
        detail = f"no question of the {asked}{sampled} has this id"
        return [
            Reject(question_id, "intake", "unknown_question", f"{cell}: {detail}")
            for question_id, cell in self.given
            if question_id not in ids
        ]


def check_benchmark(run: RunDirectory, benchmark: str, given: GivenAnswers) -> None:
    """Check that a run goes on with the benchmark of that digest, and the given answers, with which it began.

    Raises RunConflict.
    """
    answers = (f"{question_id}\x1e{cell}\x1e{one.text}\x1e{one.cited}" for (question_id, cell), one in given.items())
    check_inputs(run, content_id(benchmark, *sorted(answers)), "another benchmark, or other predictions,")


def _with_due(cell: SettingProgress, due: int) -> SettingProgress:
    if due:
        return replace(cell, due=due)
    why = "no label has its complete text" if needs_whole_label(cell.setting) else "no question is due"
    return replace(cell, due=0, status="skipped", reason=f"{why} in this benchmark")


def _as_before(cell: SettingProgress, earlier: SettingProgress) -> SettingProgress:
    """Return a cell that was graded again with the engine and the questions due of the earlier evaluation."""
    cell = replace(cell, engine=earlier.engine, due=earlier.due)
    lacking = cell.status == "done" and earlier.status != "done"
    return replace(cell, status="partial", reason=earlier.reason) if lacking else cell


def _with_due_elsewhere(cell: SettingProgress, due: int) -> SettingProgress:
    """Return the cell of another program's answers with the questions due; it is partial if some have no answer."""
    missing = due - cell.due
    if missing <= 0 or cell.status != "done":
        return replace(cell, due=max(due, cell.due))
    reason = f"{missing:,} of {due:,} questions have no answer in --predictions"
    return replace(cell, due=due, status="partial", reason=reason)


def _write_intake(parts: PartFiles, item: tuple[int, Sequence[BenchmarkItem]]) -> None:
    number, group = item
    equal = [row for label in group for row in equivalences(label.questions, label.passages)]
    write_items(parts, number, group, equal)
