"""All that can be drawn from a run: the questions that judges looked at, or one graded prediction a question."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from fdarx_core.records import Cell, content_id
from fdarx_core.review.tasks import BUILD_TASKS, EVALUATION_TASKS, REVIEW_TASKS
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records, read_table

BY = ("verdict", "type", "relevance", "category")
"""What is stratified by, in the order of `Unit.keys`. Source: FDARxBench §B.4, "Sampling for human review"."""

TASKS_OF: dict[str, tuple[str, ...]] = {"build_benchmark": BUILD_TASKS, "evaluate": EVALUATION_TASKS}
"""What can be asked about the runs of a job."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One question of a build or prediction of an evaluation, and where it stands.

    `folder` and `part` lead to its rows. `alike` predictions answer the same question; one of them is drawn at random.
    """

    id: str
    question_id: str
    keys: tuple[str, ...]
    folder: str
    part: str
    alike: int = 1


def reviewable(address: str) -> RunDirectory:
    """The run at an address. `StorageError` unless it is a finished build or evaluation."""
    run = RunDirectory.open(address)
    info = run.info()
    if info["job"] not in TASKS_OF:
        raise StorageError(f"{address} is a run of {info['job']}; give a run of `fdarx build` or `fdarx evaluate`")
    if not run.complete:
        raise StorageError(f"{address} is {info['status']}; finish it with the command that began it")
    return run


def build_units(run: RunDirectory, tasks: Collection[str]) -> list[Unit]:
    """The questions of a build that a judge of one of the tasks looked at, each once, kept or not."""
    stages = {REVIEW_TASKS[task].stage for task in tasks}
    found: dict[str, Unit] = {}
    for part in run.parts("verdicts"):
        for unit in _judged(run, part, stages):
            found.setdefault(unit.id, unit)
    return list(found.values())


def _judged(run: RunDirectory, part: Location, stages: set[str]) -> Iterator[Unit]:
    types = {row["id"]: row for row in _columns(run.file(f"candidates/{part.name}"), "id", "type", "category")}
    kept = {row["id"] for row in _columns(run.file(f"questions/{part.name}"), "id")}
    verdicts = defaultdict(list)
    for row in _columns(part, "question_id", "stage", "outcome", "category", "relevance"):
        verdicts[row["question_id"]].append(row)
    for question_id, rows in verdicts.items():
        if question_id in types and stages & {row["stage"] for row in rows}:
            first, last, one = rows[0], rows[-1], types[question_id]
            verdict = "kept" if question_id in kept else f"{last['outcome']} at {last['stage']}"
            keys = (verdict, one["type"], first["relevance"], first["category"] or one["category"])
            yield Unit(question_id, question_id, keys, "candidates", part.name)


def graded_units(run: RunDirectory, models: Collection[str], settings: Collection[str], seed: int) -> list[Unit]:
    """One graded prediction of each question, by a hash of seed and id, of these models and settings (none: all)."""
    questions = {
        row["id"]: (row["type"], row["relevance"], row["category"])
        for part in run.parts("questions")
        for row in _columns(part, "id", "type", "relevance", "category")
    }
    counts = Counter[str]()
    first: dict[str, tuple[str, Unit]] = {}
    for model in _models(run, models, settings):
        for part in run.parts(f"predictions/{model}"):
            for prediction, outcome in _graded(run, model, part):
                if not settings or prediction["setting"] in settings:
                    name, question_id = prediction["id"], prediction["question_id"]
                    keys = (outcome, *questions[question_id])
                    unit = Unit(name, question_id, keys, f"predictions/{model}", part.name)
                    turn = content_id(str(seed), "alike", name), unit
                    first[question_id] = min(first.get(question_id, turn), turn, key=itemgetter(0))
                    counts[question_id] += 1
    return [replace(unit, alike=counts[question_id]) for question_id, (_, unit) in first.items()]


def _models(run: RunDirectory, models: Collection[str], settings: Collection[str]) -> list[str]:
    cells = list(read_records(run.file("cells.parquet"), Cell))
    known = {"model": {cell.model for cell in cells}, "setting": {cell.setting for cell in cells}}
    for what, given in (("model", models), ("setting", settings)):
        if unknown := sorted({*given} - known[what]):
            listed = ", ".join(sorted(known[what]))
            raise StorageError(f"{run.root} has no {what} {unknown[0]}; known are {listed}")
    return sorted(known["model"] & {*models} if models else known["model"])


def _graded(run: RunDirectory, model: str, part: Location) -> Iterator[tuple[dict[str, Any], str]]:
    place = run.file(f"grades/{model}/{part.name}")
    grades = _columns(place, "prediction_id", "outcome") if place.exists() else []
    outcomes = {row["prediction_id"]: row["outcome"] for row in grades}
    for row in _columns(part, "id", "question_id", "setting"):
        if row["id"] in outcomes:
            yield row, outcomes[row["id"]]


def _columns(location: Location, *names: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(location, list(names)).to_pylist()
    return rows
