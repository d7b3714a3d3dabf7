"""The sampling frame of a review, and stratified sampling. Source: FDARxBench §B.4, "Sampling for human review"."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from operator import itemgetter
from typing import Any, TypeAlias

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.records import SettingProgress, content_id
from fdarx_core.review.tasks import REVIEW_TASKS, TASKS_BY_JOB
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records, read_table

STRATIFY_BY = ("verdict", "type", "relevance", "category")
"""The keys of a `SampleUnit`, the most important first."""
NO_CELL = CellKey("", "", "")
"""The cell of a question of a build."""


@dataclass(frozen=True, slots=True)
class SampleUnit:
    """A question of a build, or a prediction of an evaluation, that can be drawn.

    `keys` are its values of `STRATIFY_BY`, or the first of them; `part` names the file of its row. `cell` is that of a
    prediction, and `predictions` counts the predictions on the same question, of which one is drawn at random.
    """

    id: str
    question_id: str
    keys: tuple[str, ...]
    part: str = ""
    cell: CellKey = NO_CELL
    predictions: int = 1

    @property
    def verdict(self) -> str:
        return self.keys[0]

    @property
    def type(self) -> str:
        """The type of the question."""
        return self.keys[1]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Units with equal keys: `size` of them, of which `drawn` are in the sample."""

    name: str
    size: int
    drawn: int

    @property
    def fraction(self) -> float:
        """The share of the stratum that is drawn, 0 to 1."""
        return self.drawn / self.size


StratifiedSample: TypeAlias = tuple[list[tuple[SampleUnit, Stratum]], list[Stratum], int]
"""Drawn units, each with its stratum, in an order that is independent of the strata; the strata; and the number of keys
by which strata are told apart."""


def open_reviewable_run(address: str) -> RunDirectory:
    """Open a finished build or evaluation. Raises StorageError for any other run."""
    run = RunDirectory.open(address)
    info = run.info()
    if info["job"] not in TASKS_BY_JOB:
        raise StorageError(f"{address} is a run of {info['job']}; give a run of `fdarx build` or `fdarx evaluate`")
    if not run.complete:
        raise StorageError(f"{address} is {info['status']}; finish it with the command that began it")
    return run


def question_units(run: RunDirectory, tasks: Collection[str]) -> list[SampleUnit]:
    """Return the questions of a build, kept or not, that the judge of at least one of the tasks was asked about."""
    stages = {REVIEW_TASKS[task].stage for task in tasks}
    units: dict[str, SampleUnit] = {}
    for part in run.parts("verdicts"):
        for unit in _judged_units(run, part, stages):
            units.setdefault(unit.id, unit)
    return list(units.values())


def _judged_units(run: RunDirectory, part: Location, stages: set[str]) -> Iterator[SampleUnit]:
    candidates = {row["id"]: row for row in _columns(run.file(f"candidates/{part.name}"), "id", "type", "category")}
    kept = {row["id"] for row in _columns(run.file(f"questions/{part.name}"), "id")}
    verdicts = defaultdict(list)
    for row in _columns(part, "question_id", "stage", "outcome", "category", "relevance"):
        verdicts[row["question_id"]].append(row)
    for question_id, rows in verdicts.items():
        if question_id in candidates and stages & {row["stage"] for row in rows}:
            first, last, candidate = rows[0], rows[-1], candidates[question_id]
            verdict = "kept" if question_id in kept else f"{last['outcome']} at {last['stage']}"
            keys = (verdict, candidate["type"], first["relevance"], first["category"] or candidate["category"])
            yield SampleUnit(question_id, question_id, keys, part.name)


def prediction_units(
    run: RunDirectory, models: Collection[str], settings: Collection[str], seed: int
) -> list[SampleUnit]:
    """Return one graded prediction of each question, chosen by a hash of seed and id.

    `models` and `settings` narrow the predictions; an empty collection stands for all. Raises StorageError for a name
    that the evaluation does not have.
    """
    questions = {
        row["id"]: (row["type"], row["relevance"], row["category"])
        for part in run.parts("questions")
        for row in _columns(part, "id", "type", "relevance", "category")
    }
    counts = Counter[str]()
    chosen: dict[str, tuple[str, SampleUnit]] = {}
    for model in _checked_models(run, models, settings):
        for part in run.parts(f"predictions/{model}"):
            for prediction, outcome in _graded_predictions(run, model, part):
                if settings and prediction["setting"] not in settings:
                    continue
                name, question_id = prediction["id"], prediction["question_id"]
                cell = CellKey(model, prediction["setting"], prediction["retriever"])
                unit = SampleUnit(name, question_id, (outcome, *questions[question_id]), part.name, cell)
                ranked = content_id(str(seed), "alike", name), unit
                chosen[question_id] = min(chosen.get(question_id, ranked), ranked, key=itemgetter(0))
                counts[question_id] += 1
    return [replace(unit, predictions=counts[question_id]) for question_id, (_, unit) in chosen.items()]


def _checked_models(run: RunDirectory, models: Collection[str], settings: Collection[str]) -> list[str]:
    cells = list(read_records(run.file("cells.parquet"), SettingProgress))
    known = {"model": {cell.model for cell in cells}, "setting": {cell.setting for cell in cells}}
    for kind, given in (("model", models), ("setting", settings)):
        if unknown := sorted({*given} - known[kind]):
            listed = ", ".join(sorted(known[kind]))
            raise StorageError(f"{run.root} has no {kind} {unknown[0]}; known are {listed}")
    return sorted(known["model"] & {*models} if models else known["model"])


def _graded_predictions(run: RunDirectory, model: str, part: Location) -> Iterator[tuple[dict[str, Any], str]]:
    file = run.file(f"grades/{model}/{part.name}")
    grades = _columns(file, "prediction_id", "outcome") if file.exists() else []
    outcomes = {row["prediction_id"]: row["outcome"] for row in grades}
    for row in _columns(part, "id", "question_id", "setting", "retriever"):
        if row["id"] in outcomes:
            yield row, outcomes[row["id"]]


def _columns(location: Location, *names: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(location, list(names)).to_pylist()
    return rows


def draw_stratified(units: Sequence[SampleUnit], n: int, seed: int) -> StratifiedSample:
    """Draw a stratified sample of `n` units, or all of them where there are fewer.

    Keys are dropped from the last until there are at most `n` strata, so that each stratum has a unit in the sample.
    Within a stratum, units are drawn by a hash of seed and id, so the order of `units` does not matter.
    """
    depth = max((len(unit.keys) for unit in units), default=0)
    while depth and len({unit.keys[:depth] for unit in units}) > n:
        depth -= 1
    groups: dict[str, list[SampleUnit]] = defaultdict(list)
    for unit in units:
        groups[" · ".join(filter(None, unit.keys[:depth])) or "all"].append(unit)
    counts = allocate_sample({name: len(group) for name, group in groups.items()}, n)
    strata = [Stratum(name, len(groups[name]), counts[name]) for name in sorted(groups)]
    rows = [
        (unit, stratum)
        for stratum in strata
        for unit in sorted(groups[stratum.name], key=lambda unit: content_id(str(seed), unit.id))[: stratum.drawn]
    ]
    return sorted(rows, key=lambda row: content_id(str(seed), "order", row[0].id)), strata, depth


def allocate_sample(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Allocate `n` units to strata in proportion to their sizes: at least one to each, at most its size.

    `n` must be at least the number of strata, unless there are fewer units than `n`. Source: the divisor method of
    Sainte-Laguë (Webster): each unit goes to the stratum with the largest size / (units + 1/2).
    """
    counts = dict.fromkeys(sorted(sizes), 1)
    queue = [(-size / 1.5, name) for name, size in sorted(sizes.items())]
    heapify(queue)
    for _ in range(min(n, sum(sizes.values())) - len(counts)):
        name = queue[0][1]
        counts[name] += 1
        full = counts[name] == sizes[name]
        heapreplace(queue, (0.0 if full else -sizes[name] / (counts[name] + 0.5), name))
    return counts
