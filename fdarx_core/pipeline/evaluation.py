"""A whole evaluation: labels taken in, retrieval, every model in a stage of its own, then figures and the report."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa

from fdarx_core.evaluation.figures import CellKey, Mismatch, comparable_metrics, compare_pairs, mismatch, related_pairs
from fdarx_core.evaluation.metrics import SCORE_METRICS
from fdarx_core.evaluation.scoring import MARKED
from fdarx_core.evaluation.settings import GIVEN_CONTEXT, REFERENCE, SETTINGS, is_due, needs_whole_label
from fdarx_core.evaluation.similarity import meteor_name
from fdarx_core.extras import require
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.evaluation_models import retrieve, score_semantics
from fdarx_core.pipeline.evaluation_results import answer_scores, write_results
from fdarx_core.pipeline.evaluation_steps import (
    CODE_VERSION,
    LABELS_PER_PART,
    EvaluationSetup,
    GivenAnswers,
    evaluation_steps,
    read_cells,
    read_items,
    read_samples,
    write_items,
    write_samples,
)
from fdarx_core.pipeline.executor import ModelFleet, PartResult, Stages, Work
from fdarx_core.pipeline.job import PipelineJob, check_inputs
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Part, Stage, batches
from fdarx_core.records import Difference, Passage, Ranking, Reject, RetrievalScore, SettingProgress, content_id
from fdarx_core.report.answers_page import answers_page
from fdarx_core.report.evaluation_figures import read_evaluation_tables
from fdarx_core.report.evaluation_page import build_evaluation_report, row_name
from fdarx_core.report.result_sentences import result_sentence
from fdarx_core.storage import RunDirectory, StorageError, read_records, write_records
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem
from fdarx_core.storage.imported_predictions import GIVEN_ENGINE

_RETRIEVAL = {"rankings": Ranking, "elsewhere": Passage, "retrieval_scores": RetrievalScore}
"""The rows of each retriever that are taken over."""
ADOPTED = ("benchmark", "split", "settings", "retrievers", "retrieval_scope", "top_k", "label_chars", "sample", "limit")
"""The options of the earlier evaluation that also describe the new run."""


def merge_cells(parts: Iterable[Sequence[SettingProgress]], wanted: Sequence[CellKey]) -> list[SettingProgress]:
    """Merge the cells of the parts of a model: done where every part is done, with the most frequent reason."""
    found: dict[CellKey, list[SettingProgress]] = {key: [] for key in wanted}
    for cell in chain.from_iterable(parts):
        found[CellKey(cell.model, cell.setting, cell.retriever)].append(cell)
    merged = []
    for key, cells in found.items():
        incomplete = [cell for cell in cells if cell.status == "incomplete"]
        [(reason, _)] = Counter(cell.reason for cell in incomplete or cells if cell.reason).most_common(1) or [("", 0)]
        status = "incomplete" if incomplete else "done"
        row = SettingProgress(*key, status=status, reason=reason, due=sum(cell.due for cell in cells))
        for name in ("answer_prompt", "judge_prompt"):
            prompts = {prompt for cell in cells for prompt in getattr(cell, name).split(", ")} - {""}
            setattr(row, name, ", ".join(sorted(prompts)))
        merged.append(row)
    return merged


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

    def add(self, group: Sequence[BenchmarkItem], spec: EvaluationSetup) -> None:
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
                # Other programs may have had passages that the benchmark lacks; other settings have all questions due,
                # but for those of a graded file without a reference or a context.
                has = {REFERENCE: any(one.answer for one in label.questions), GIVEN_CONTEXT: bool(label.passages)}
                own = (setting not in SETTINGS or is_due(setting, question) for question in label.questions)
                self.due_elsewhere[setting] += sum(own) * has.get(setting, True)


class EarlierEvaluation:
    """A finished evaluation whose answers are graded again; `cells` are those with answers."""

    def __init__(self, address: str) -> None:
        """Open an evaluation. Raises StorageError for any other run, and for one without metrics."""
        self.run = RunDirectory.open(address)
        job = self.run.info()["job"]
        if job != "evaluate":
            raise StorageError(f"--predictions: {address} is a run of {job}, not of evaluate; --regrade needs one")
        if not self.run.file("cells.parquet").exists():
            raise StorageError(f"--predictions: {address} is not finished; finish it with the command that began it")
        self.cells: dict[CellKey, SettingProgress] = {}
        for cell in read_records(self.run.file("cells.parquet"), SettingProgress):
            if cell.status != "skipped" and self.run.parts(f"predictions/{cell.model}"):
                self.cells[CellKey(cell.model, cell.setting, cell.retriever)] = cell
        self._numbers = range(len(self.run.parts("subjects")))
        self._files = PartFiles(self.run, "")

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the evaluation, as it was copied into the run."""
        return Benchmark(self.run.info()["benchmark"], lambda: chain.from_iterable(self.groups()))

    def groups(self) -> Iterator[list[BenchmarkItem]]:
        """Yield the labels of each part; the new run has the same parts."""
        return (read_items(self._files, number) for number in self._numbers)

    @property
    def citing(self) -> frozenset[str]:
        """The settings in which answers were expected to cite, beside those of FDARxBench."""
        models = {key.model for key in self.cells if key.setting not in SETTINGS}
        rows = (row for model in models for row in self.run.rows(f"scores/{model}", "setting", "cited"))
        return frozenset(setting for setting, cited in rows if cited is not None) - MARKED - set(SETTINGS)

    def copy_retrieval(self, into: PartFiles, retrievers: Sequence[str]) -> None:
        """Copy rankings and their scores into a run, so that nothing is searched again."""
        files = self._files
        for name in retrievers:
            complete = into.complete_parts(f"ranked/{name}", self._numbers)
            for number in sorted(files.existing(f"rankings/{name}", self._numbers) - complete):
                for kind, record in _RETRIEVAL.items():
                    if files.existing(f"{kind}/{name}", [number]):
                        into.write(f"{kind}/{name}", number, files.read(f"{kind}/{name}", number, record), record)
                into.mark_complete(f"ranked/{name}", number)


@dataclass(slots=True, kw_only=True)
class Evaluation(PipelineJob):
    """One evaluation into a run directory; see `PipelineJob`. The run must have passed `check_benchmark`.

    `given` are answers of other programs; `earlier` is the evaluation whose answers are graded again, in place of
    asking; `sample` bounds the labels, `limit` the questions; `fleet` deploys models.
    """

    phase: ClassVar[str] = "answer"
    code_version: ClassVar[str] = CODE_VERSION

    benchmark: Benchmark
    spec: EvaluationSetup
    given: GivenAnswers = field(default_factory=dict)
    earlier: EarlierEvaluation | None = None
    sample: int | None = None
    limit: int | None = None
    labels_per_part: int = LABELS_PER_PART
    fleet: ModelFleet | None = None
    intake: IntakeSummary = field(default_factory=IntakeSummary, init=False)

    def prepare(self, *, planned: bool) -> None:
        """Copy the benchmark into the run, and rank passages."""
        require("eval")
        with self.timed("intake"):
            self.progress("intake", 0, 0, "")
            self.intake = IntakeSummary()
            for _ in self.executor.map(partial(write_items, self.parts), self._take_in()):
                pass
        self.numbers = range(self.intake.parts)
        if self.earlier is not None:
            self.earlier.copy_retrieval(self.parts, self.spec.retrievers)
        elif self.intake.whole:
            with self.timed("retrieve"):
                retrieve(self.executor, self.parts, self.spec, self.numbers, partial(self.progress, "retrieve"))

    def stages(self, *, planned: bool) -> Stages:
        spec, stages = self.spec, []
        for model in spec.graded:
            given = None
            if model not in spec.answerers:
                given = {key: answer for key, answer in self.given.items() if key[1].model == model}
            read = partial(read_samples, self.parts, spec, model, given)
            write = partial(write_samples, self.parts, spec, model)
            stage = Stage(model, read, evaluation_steps(spec, model, given, planned=planned), write, window=4)
            stages.append((stage, [Part(number) for number in self.numbers]))
        return stages

    def work(self, stages: Stages, store: ResponseStore, *, planned: bool) -> Work:
        clients = self.clients
        if self.fleet and not planned:
            clients = replace(clients, models=self.fleet.located(clients.models))
        return Work(stages, clients, store, fleet=self.fleet, isolated=True)

    def finished(self, stage: str, numbers: Collection[int]) -> set[int]:
        marked = sorted(self.parts.complete_parts(f"graded/{stage}", numbers))
        made = zip(marked, read_cells(self.parts, stage, marked), strict=True)
        return {number for number, cells in made if all(cell.status == "done" for cell in cells)}

    def show(self, done: int, total: int, result: PartResult | None = None) -> None:
        note = ""
        if result is not None:
            labels, grades = result.account or (0, {})
            run = self.run.root.name
            self.executor.count("fdarx_run_labels", labels, {"run": run, "model": result.stage})
            for (cell, outcome), count in grades.items():
                self.executor.count("fdarx_run_grades", count, {"run": run, "cell": cell, "outcome": outcome})
            note = f"{result.stage} ended" if result.ended else self.fleet.state() if self.fleet else ""
        self.progress("answer", done, total, note)

    def _take_in(self) -> Iterator[tuple[int, list[BenchmarkItem]]]:
        """Count the parts of the benchmark, and yield those to copy into the run, so that it stands alone: parts that
        it has already are left alone."""
        for number, group in enumerate(self._groups()):
            self.intake.add(group, self.spec)
            self.progress("intake", self.intake.labels, 0, "")
            if not self.parts.complete_parts("intake", [number]):
                yield number, group

    def _groups(self) -> Iterator[list[BenchmarkItem]]:
        """Return the labels, or a sample of them, in order of set id, part by part; of their questions the first
        `limit` in the order of a hash of the seed and their ids, and no label without one of these."""
        if self.earlier is not None:
            return self.earlier.groups()
        labels = self.benchmark.items
        if (sample := self.sample) is not None:
            drawn = first_ids((label.subject.set_id for label in self.benchmark.items()), sample, self.seed)
            labels = lambda: (label for label in self.benchmark.items() if label.subject.set_id in drawn)  # noqa: E731
        if self.limit is None:
            return batches(labels(), self.labels_per_part)
        chosen = first_ids((row.id for label in labels() for row in label.questions), self.limit, self.seed)
        limited = (replace(label, questions=[row for row in label.questions if row.id in chosen]) for label in labels())
        return batches((label for label in limited if label.questions), self.labels_per_part)

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Score answers by BERTScore, write metrics and the report, and end the run.

        The run is complete where every cell is done or was skipped.
        """
        cells = [cell for model in self.spec.graded for cell in self._cells(model, ended.get(model, ""))]
        if self.spec.bertscore:
            with self.timed("bert_scores"):
                score_semantics(
                    self.executor, self.parts, self.spec, self.numbers, partial(self.progress, "bert_scores")
                )
        intake = self.intake
        with self.timed("publish"):
            self.progress("publish", 0, 1, "")
            split, beyond = self.benchmark.about["split"], [key for key in self.given if key[0] not in intake.ids]
            detail = f"no question of the {'benchmark' if split == 'all' else f'{split} split'} has this id"
            known = {row.id for label in self.benchmark.items() for row in label.questions} if beyond else set[str]()
            unknown = [
                Reject(question_id, "intake", "unknown_question", f"{cell}: {detail}")
                for question_id, cell in beyond
                if question_id not in known
            ]
            not_taken = len(beyond) - len(unknown)
            write_records(self.run.part("rejects", 0), [*self.benchmark.rejects, *unknown], Reject)
            options = {"seed": self.seed, "resamples": self.resamples}
            filled = write_results(self.run, cells, self.spec.retrievers, **options, added=self.spec.metrics)
        summary: dict[str, Any] = {
            "code_version": CODE_VERSION,
            "benchmark": self.benchmark.about,
            "labels": intake.labels,
            "whole_labels": intake.whole,
            "questions": dict(intake.questions),
            "cells": [asdict(cell) for cell in filled],
            "timings": self.timings,
            "overlap": f"Overlap of answers is the mean over questions of BLEU, {meteor_name()}, and ROUGE-L.",
            "notes": [f"{not_taken:,} of the given answers are to questions that were not taken."] if not_taken else [],
            "asked": self.request_counts(),
        }
        with self.timed("report"):
            summary["result"] = result_sentence(read_evaluation_tables(self.run, summary))
            self.run.file("answers.html").write_text(answers_page(self.run, summary))
            self.run.file("report.html").write_text(build_evaluation_report(self.run, summary))
        return self.end(summary, complete=all(cell.status != "incomplete" for cell in filled))

    def _cells(self, model: str, ended: str) -> list[SettingProgress]:
        marked = self.parts.complete_parts(f"graded/{model}", self.numbers)
        known: dict[str, Any] = {"judge": self.spec.judge, "judge_engine": self.spec.engine(self.spec.judge)}
        if ended:
            known |= {"status": "incomplete", "reason": ended}
        merged = merge_cells(read_cells(self.parts, model, sorted(marked)), self.spec.cells(model))
        cells = [replace(cell, **known) for cell in merged]
        for cell in cells:
            if model in self.spec.answerers:
                cell.engine, cell.due = self.spec.engine(model), self.intake.due[cell.setting]
                if not cell.due:
                    lacking = (
                        "no label has its complete text" if needs_whole_label(cell.setting) else "no question is due"
                    )
                    cell.status, cell.reason = "skipped", f"{lacking} in this benchmark"
            elif self.earlier is not None:  # the engine and the questions due are those of the earlier evaluation
                earlier = self.earlier.cells[CellKey(cell.model, cell.setting, cell.retriever)]
                cell.engine, cell.due = earlier.engine, earlier.due
                if cell.status == "done" and earlier.status != "done":
                    cell.status, cell.reason = "partial", earlier.reason
            else:  # a cell of another program is partial if some questions have no answer
                answered, due = cell.due, self.intake.due_elsewhere[cell.setting]
                cell.engine, cell.due = GIVEN_ENGINE, max(due, answered)
                if due > answered and cell.status == "done":
                    reason = f"{due - answered:,} of {due:,} questions have no answer among those given"
                    cell.status, cell.reason = "partial", reason
        return cells


def first_ids(ids: Iterable[str], number: int, seed: int) -> set[str]:
    """Return the first ids in the order of their hashes with the seed."""
    return set(heapq.nsmallest(number, ids, key=lambda id: content_id(str(seed), id)))


def check_benchmark(run: RunDirectory, benchmark: str, given: GivenAnswers) -> None:
    """Check that a run goes on with the benchmark of that digest, and the given answers, with which it began.

    Raises RunConflict.
    """
    answers = (
        f"{question_id}\x1e{cell}\x1e{answer.text}\x1e{answer.cited}" for (question_id, cell), answer in given.items()
    )
    check_inputs(run, content_id(benchmark, *sorted(answers)), "another benchmark, or other answers,")


def compare_runs(
    runs: Sequence[RunDirectory], names: Sequence[str], *, seed: int, resamples: int
) -> tuple[list[Difference], list[Mismatch]]:
    """Compare cells of different runs in the same setting, on the questions that both have; of a single run, the cells
    of different models.

    `names` are the names of the runs; each model is called by `row_name`. Raises StorageError where a run has no cells.

    Returns:
        The differences, and what keeps pairs of cells from being compared.
    """
    tables: dict[CellKey, pa.Table] = {}
    cells: dict[CellKey, SettingProgress] = {}
    side_of: dict[str, str] = {}  # what is compared with the others: a run, or a model of a single run
    for run, name in zip(runs, names, strict=True):
        made = list(read_records(run.file("cells.parquet"), SettingProgress))
        scored = answer_scores(run, made)
        for cell in made:
            model = row_name(name, cell.model)
            side_of[model] = name if len(runs) > 1 else model
            if (table := scored.get(CellKey(cell.model, cell.setting, cell.retriever))) is not None:
                key = CellKey(model, cell.setting, cell.retriever)
                tables[key], cells[key] = table, replace(cell, model=model)
    pairs = [(a, b) for a, b in related_pairs(cells) if side_of[a.model] != side_of[b.model]]
    metrics_of_pairs = comparable_metrics(pairs, cells)
    compared = compare_pairs(tables, metrics_of_pairs, SCORE_METRICS, seed=seed, resamples=resamples)
    found = (mismatch(cells[a], cells[b]) for a, b in pairs)
    return compared, [kept for kept in found if kept is not None]
