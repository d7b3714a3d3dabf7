"""The sampling frame of a review, and stratified sampling. Source: FDARxBench §B.4, "Sampling for human review"."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from operator import itemgetter
from typing import Any

from fdarx_core.filters.judges import majorities
from fdarx_core.records import JudgeVerdict, SafetyFlag, SettingProgress, content_id, from_table
from fdarx_core.review.tasks import CLAIM_TASK, EVALUATE, FACTUALITY, FLAG_TASK, REVIEW_TASKS, TASKS_BY_JOB
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records, read_table

STRATIFY_BY = ("verdict", "type", "relevance", "category")
"""The keys of a `SampleUnit`, the most important first."""
STRATIFY_ANSWERS_BY = ("verdict", "type", "model", "setting")
"""The keys of claims and flags; the verdict of a flag is its kind."""
_VOTE_COLUMNS = ["question_id", "set_id", "stage", "outcome", "reason", "category", "relevance"]
"""The columns of verdicts that the sampling frame needs."""


@dataclass(frozen=True, slots=True)
class SampleUnit:
    """A question of a build, a prediction of an evaluation, or a claim or flag, that can be drawn for a task.

    `keys` are its values of `STRATIFY_BY` or `STRATIFY_ANSWERS_BY`, or the first of them; `part` names the file of its
    row. `model` is that of its prediction, and `predictions` counts the predictions on the same question, of which one
    is drawn at random.
    """

    id: str
    question_id: str
    keys: tuple[str, ...]
    part: str = ""
    model: str = ""
    predictions: int = 1
    task: str = ""


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


def open_reviewable_run(address: str) -> RunDirectory:
    """Open a finished build, evaluation or factuality run. Raises StorageError for any other run."""
    run = RunDirectory.open(address)
    info = run.info()
    if info["job"] not in TASKS_BY_JOB:
        raise StorageError(
            f"{address} is a run of {info['job']}; give a run of `fdarx build`, `fdarx evaluate` or `fdarx factuality`"
        )
    if not run.complete:
        raise StorageError(f"{address} is {info['status']}; finish it with the command that began it")
    return run


def sampling_frame(
    run: RunDirectory, tasks: Collection[str], models: Collection[str], settings: Collection[str], seed: int
) -> list[SampleUnit]:
    """Return what can be drawn from a run for these tasks, of the models and settings where any are given.

    Raises StorageError where the run lacks a model or setting, and where no judge was asked about anything.
    """
    job = run.info()["job"]
    if job == EVALUATE:
        units = prediction_units(run, models, settings, seed)
    elif job == FACTUALITY:
        units = factuality_units(run, tasks, models, settings)
    elif models or settings:
        raise StorageError(f"{run.root} is a build: it has no answers of models; leave --models and --settings out")
    else:
        units = question_units(run, tasks)
    if not units:
        raise StorageError(
            f"{run.root} has nothing that a judge was asked about; was it built or evaluated with a judge?"
        )
    return units


def question_units(run: RunDirectory, tasks: Collection[str]) -> list[SampleUnit]:
    """Return the questions of a build, kept or not, that the judge of at least one of the tasks was asked about.

    Questions that nobody judged at any stage are returned too.
    """
    stages = {REVIEW_TASKS[task].stage for task in tasks}
    units: dict[str, SampleUnit] = {}
    for part in run.parts("verdicts"):
        candidates = {row["id"]: row for row in _columns(run.file(f"candidates/{part.name}"), "id", "type", "category")}
        kept = {row["id"] for row in _columns(run.file(f"questions/{part.name}"), "id")}
        verdicts: dict[str, list[JudgeVerdict]] = defaultdict(list)
        votes = from_table(read_table(part, _VOTE_COLUMNS), JudgeVerdict)
        for (question_id, _), verdict in majorities(votes).items():
            verdicts[question_id].append(verdict)
        for question_id in (*verdicts, *sorted(kept - verdicts.keys())):
            rows, candidate = verdicts.get(question_id, []), candidates.get(question_id)
            if candidate is None or (rows and not stages & {row.stage for row in rows}):
                continue
            outcome = "kept" if question_id in kept else f"{rows[-1].outcome} at {rows[-1].stage}"
            relevance, category = (rows[0].relevance, rows[0].category) if rows else ("", "")
            keys = outcome, candidate["type"], relevance, category or candidate["category"]
            units.setdefault(question_id, SampleUnit(question_id, question_id, keys, part.name))
    return list(units.values())


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
    cells = read_records(run.file("cells.parquet"), SettingProgress)
    for model in _checked_models(run, {(cell.model, cell.setting) for cell in cells}, models, settings):
        for part in run.parts(f"predictions/{model}"):
            file = run.file(f"grades/{model}/{part.name}")
            grades = _columns(file, "prediction_id", "outcome") if file.exists() else []
            outcomes = {row["prediction_id"]: row["outcome"] for row in grades}
            for prediction in _columns(part, "id", "question_id", "setting"):
                name, question_id = prediction["id"], prediction["question_id"]
                if name not in outcomes or (settings and prediction["setting"] not in settings):
                    continue
                unit = SampleUnit(name, question_id, (outcomes[name], *questions[question_id]), part.name, model)
                ranked = content_id(str(seed), "alike", name), unit
                chosen[question_id] = min(chosen.get(question_id, ranked), ranked, key=itemgetter(0))
                counts[question_id] += 1
    return [replace(unit, predictions=counts[question_id]) for question_id, (_, unit) in chosen.items()]


def factuality_units(
    run: RunDirectory, tasks: Collection[str], models: Collection[str], settings: Collection[str]
) -> list[SampleUnit]:
    """Return the claims and the flags of a factuality run, of the models and settings where any are given.

    Raises StorageError as `prediction_units` does.
    """
    parts = [
        (part.name, {row["id"]: row for row in _columns(part, "id", "question_id", "type", "model", "setting")})
        for part in run.parts("answers")
    ]
    cells = {(row["model"], row["setting"]) for _, answers in parts for row in answers.values()}
    kept = set(_checked_models(run, cells, models, settings))
    units: list[SampleUnit] = []
    for name, answers in parts:
        if not run.file(f"verdicts/{name}").exists():
            continue
        rows: list[tuple[str, str, str, str]] = []
        if CLAIM_TASK in tasks:
            judged = _columns(run.file(f"verdicts/{name}"), "claim_id", "verdict")
            verdicts = {row["claim_id"]: row["verdict"] for row in judged}
            for row in _columns(run.file(f"claims/{name}"), "id", "answer_id"):
                rows.append((CLAIM_TASK, row["id"], row["answer_id"], verdicts[row["id"]]))
        if FLAG_TASK in tasks:
            for flag in read_records(run.file(f"flags/{name}"), SafetyFlag):
                rows.append((FLAG_TASK, flag_id(flag), flag.answer_id, flag.kind))
        for task, id_, answer_id, verdict in rows:
            answer = answers[answer_id]
            model, setting = answer["model"], answer["setting"]
            if model in kept and (not settings or setting in settings):
                keys = (verdict, answer["type"], model, setting)
                units.append(SampleUnit(id_, answer["question_id"], keys, name, task=task))
    return units


def flag_id(flag: SafetyFlag) -> str:
    """Return the id of a flag, by its place in the answer and what it is about."""
    return content_id(flag.answer_id, flag.kind, str(flag.start), str(flag.end), flag.subject, flag.set_id, flag.marker)


def _checked_models(
    run: RunDirectory, cells: Collection[tuple[str, str]], models: Collection[str], settings: Collection[str]
) -> list[str]:
    known = {"model": {model for model, _ in cells}, "setting": {setting for _, setting in cells}}
    for kind, wanted in (("model", models), ("setting", settings)):
        if unknown := sorted({*wanted} - known[kind]):
            listed = ", ".join(sorted(known[kind]))
            raise StorageError(f"{run.root} has no {kind} {unknown[0]}; known are {listed}")
    return sorted(known["model"] & {*models} if models else known["model"])


def _columns(location: Location, *names: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(location, list(names)).to_pylist()
    return rows


def draw_stratified(
    units: Sequence[SampleUnit], n: int, seed: int
) -> tuple[list[tuple[SampleUnit, Stratum]], list[Stratum], int]:
    """Draw `n` units, or all where there are fewer; return them with their strata, the strata, and the keys in use.

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
    return rows, strata, depth


def allocate_sample(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Allocate `n` units to strata in proportion to their sizes: at least one to each, at most its size.

    `n` must be at least the number of strata, unless there are fewer units than `n`. Source: the divisor method of
    Sainte-Laguë (Webster): each unit goes to the stratum with the largest size / (units + 1/2).
    """
    places = ((-size / (number + 0.5), name) for name, size in sizes.items() for number in range(1, size))
    more = Counter(name for _, name in nsmallest(min(n, sum(sizes.values())) - len(sizes), places))
    return {name: 1 + more[name] for name in sorted(sizes)}
