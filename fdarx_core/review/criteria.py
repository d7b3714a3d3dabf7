"""The trial of proposed criteria: a judge is asked again about held-out items, by the old and by the new criteria.

    REVIEW/criteria.table.csv      disagreements and remarks by kind, with columns to fill in
    REVIEW/criteria.proposed.yaml  the criteria with the proposed changes
    REVIEW/criteria.diff           the changes
    REVIEW/criteria.txt            both agreements with people, and the items that are decided differently
    REVIEW/criteria.json           the same as data; written last
    REVIEW/responses/              responses of the proposer and of the judge

A new proposal replaces an earlier one; annotations and items are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import FEW_CLUSTERS, contrast, estimate
from fdarx_core.evaluation.metrics import ScoreColumns
from fdarx_core.evaluation.tables import ResultTable, build_table
from fdarx_core.filters.judges import KEPT_AS, read_criteria
from fdarx_core.llm import Criteria, ResponseStore
from fdarx_core.records import Estimate
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.agreement_metrics import WEIGHT, AnnotatedItem, consensus, pair_metrics
from fdarx_core.review.criteria_proposals import (
    PROPOSED_FILE,
    CriterionChange,
    criteria_diff,
    criteria_yaml,
    group_disagreements,
    groups_csv,
    guiding_task,
    is_filled_in,
    read_changes,
)
from fdarx_core.review.review_set import Review
from fdarx_core.review.tasks import REVIEW_TASKS, Scale, task_scales
from fdarx_core.storage import Location, RunDirectory, StorageError

TABLE_FILE, DIFF_FILE, TEXT_FILE = "criteria.table.csv", "criteria.diff", "criteria.txt"
DATA_FILE = "criteria.json"
OLD, NEW, PEOPLE = "old", "new", "people"
_METRIC_NAMES = {"accuracy": "Acc.", "f1": "F1", "macro_f1": "Macro F1", "precision": "Prec.", "recall": "Rec."}


@dataclass(frozen=True, slots=True)
class RejudgedItem:
    """A held-out item: people's consensus, and the judge's decisions by the old and the new criteria, "" for none.

    `because` is the judge's reason by the new criteria.
    """

    item: ReviewItem
    people: str
    old: str
    new: str
    because: str = ""

    @property
    def scored(self) -> bool:
        """Whether the judge decided both times."""
        return bool(self.old and self.new)

    @property
    def effect(self) -> str:
        """Whether the new criteria fixed or broke the decision, changed it otherwise, or left it unscored."""
        if not self.scored:
            return "unscored"
        return "fixed" if self.new == self.people else "broken" if self.old == self.people else "changed"


@dataclass(frozen=True, slots=True)
class CriteriaComparison:
    """A coefficient of agreement with people by the old and the new criteria, and the difference, new minus old.

    All three are of the items that the judge decided both times; `unscored` counts the others.
    """

    task: str
    metric: str
    old: Estimate
    new: Estimate
    difference: Estimate
    unscored: int


@dataclass(frozen=True, slots=True)
class CriteriaTrial:
    """Changes proposed by `proposer`, and their trial by `judge` on the held-out items, where there was one.

    `sent` counts the requests that were sent to the judge; all other responses were stored before.
    """

    proposer: str
    changes: Sequence[CriterionChange]
    proposed: Criteria
    judge: str = ""
    items: Sequence[RejudgedItem] = ()
    comparisons: Sequence[CriteriaComparison] = ()
    sent: int = 0

    def changed_items(self) -> list[RejudgedItem]:
        """Return the items on which the judge decided differently, or reached a decision once only."""
        return [one for one in self.items if one.old != one.new]


@dataclass(frozen=True, slots=True)
class ReviewCriteria:
    """A review, the criteria of its run, and its annotated items: those to learn from, and those held out.

    Proposals are made from the former alone.
    """

    review: Review
    run: RunDirectory
    criteria: Criteria
    learned: list[AnnotatedItem]
    held_out: list[AnnotatedItem]
    seed: int

    @classmethod
    def of(cls, review: Review, annotated: Sequence[AnnotatedItem], *, share: float, seed: int) -> ReviewCriteria:
        """Hold out a share of the questions. Raises StorageError where the run of the review is gone."""
        run = RunDirectory.open(str(review.info["run"]))
        learned, held_out = split_held_out([one for one in annotated if one.annotations], share=share, seed=seed)
        return cls(review, run, run_criteria(run), learned, held_out, seed)

    def write_table(self) -> Location:
        """Write the table to fill in, and return its location. Raises StorageError where one has been filled in."""
        file = self.review.root / TABLE_FILE
        if file.exists() and is_filled_in(file.read_bytes().decode("utf-8", "replace")):
            raise StorageError(f"{file} has been filled in; give it with --table, or move it away for a new one")
        file.write_text(groups_csv(group_disagreements(self.learned, self.criteria)))
        return file

    def filled_in(self, table: Location) -> list[CriterionChange]:
        """Read the changes of a filled-in table. Raises ValueError, also for a table that shows held-out items."""
        try:
            text = table.read_text()
        except UnicodeDecodeError as error:
            raise ValueError(f"{table}: not UTF-8 text; save it as CSV in UTF-8") from error
        if any(f"[{one.item.id}]" in text for one in self.held_out):
            raise ValueError(f"{table}: made with another --seed or --held-out, it shows items that are now held out")
        return read_changes(text, str(table))

    def measured_items(self) -> list[AnnotatedItem]:
        """Return the held-out items that a judge with criteria decides and on which people have a majority."""
        return [one for one in self.held_out if guiding_task(one.item) and consensus(one.values)]

    def write_trial(self, trial: CriteriaTrial, text: str) -> None:
        """Write the files of a trial; `text` is that of criteria.txt."""
        new, root = trial.proposed, self.review.root
        (root / PROPOSED_FILE).write_text(criteria_yaml(new))
        (root / DIFF_FILE).write_text(criteria_diff(self.criteria, new))
        (root / TEXT_FILE).write_text(text)
        data = {
            "review": self.review.digest,
            "seed": self.seed,
            "learned": len(self.learned),
            "held": len(self.held_out),
            **trial_json(trial),
        }
        (root / DATA_FILE).write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n")

    @property
    def store(self) -> ResponseStore:
        """The responses of the proposer and of the judge."""
        return ResponseStore(self.review.root / "responses")

    @staticmethod
    def accept(review: Review, file: Location) -> None:
        """Write the proposal of a review to a new file, with its figures on top.

        Raises StorageError where there is none, or where the file exists; PromptError where it was edited wrongly.
        """
        if not (review.root / DATA_FILE).exists():
            raise StorageError(f"{review.root} has no proposal; make one with --proposer or --table")
        if file.exists():
            raise StorageError(f"{file} exists already; choose another file, accepted criteria are not overwritten")
        data = json.loads((review.root / DATA_FILE).read_text())
        criteria = read_criteria(str(review.root / PROPOSED_FILE))
        if criteria.model_dump() != data["proposed"]:
            notes = ["Edited after it was proposed; never measured as it is."]
        else:
            notes = data["in_short"] or ["Never measured."]
        header = "".join(f"# {line}\n" for line in (f"Accepted from review {data['review']}.", *notes))
        file.write_text(header + criteria_yaml(criteria))


def run_criteria(run: RunDirectory) -> Criteria:
    """Return the criteria of a build: the file it was given, else the project's own. Raises PromptError."""
    given = "criteria" in run.info()["config"]
    return read_criteria(str(run.file(KEPT_AS))) if given else Criteria.load()


def split_held_out(
    annotated: Sequence[AnnotatedItem], *, share: float, seed: int
) -> tuple[list[AnnotatedItem], list[AnnotatedItem]]:
    """Split items into those to learn from and those held out, about `share` (0 to 1) of the questions.

    The split is by a hash of seed and the question's words: all items on a question, and equal questions on other
    labels, are on the same side.
    """
    learned: list[AnnotatedItem] = []
    held_out: list[AnnotatedItem] = []
    for one in annotated:
        words = " ".join(one.item.question.casefold().split())
        digest = blake2b(f"{seed}\x1f{words}".encode(), digest_size=8).digest()
        (held_out if int.from_bytes(digest, "big") / 2**64 < share else learned).append(one)
    return learned, held_out


def compare_criteria(items: Sequence[RejudgedItem], *, seed: int, resamples: int) -> list[CriteriaComparison]:
    """Compare both criteria task by task, with 95 % intervals by bootstrap over labels.

    Relevance counts as relevant or not. Each item has weight 1.
    """
    comparisons: list[CriteriaComparison] = []
    for task in dict.fromkeys(one.item.task for one in items):
        of_task = [one for one in items if one.item.task == task]
        scored = [one for one in of_task if one.scored]
        if scored:
            scale = task_scales(REVIEW_TASKS[task])[0]
            comparisons += _compare_task(scored, scale, len(of_task) - len(scored), seed, resamples)
    return comparisons


def _compare_task(
    scored: Sequence[RejudgedItem], scale: Scale, unscored: int, seed: int, resamples: int
) -> list[CriteriaComparison]:
    columns = ScoreColumns(_table(scored, scale))
    rows = np.ones(columns.rows, dtype=np.bool_)
    old, new = ([(one, rows) for one in pair_metrics(PEOPLE, by, scale).values()] for by in (OLD, NEW))
    values = estimate(columns, [*old, *new], seed=seed, resamples=resamples)
    differences = contrast(columns, list(zip(new, old, strict=True)), seed=seed, resamples=resamples)
    results = zip(pair_metrics(PEOPLE, NEW, scale), values[: len(old)], values[len(old) :], differences, strict=True)
    return [CriteriaComparison(scale.task, metric, a, b, difference, unscored) for metric, a, b, difference in results]


def _table(scored: Sequence[RejudgedItem], scale: Scale) -> pa.Table:
    def codes(values: Sequence[str]) -> pa.Array:
        return pa.array([scale.code(scale.read(value)) for value in values], pa.float64())

    return pa.table(
        {
            "question_id": pa.array([one.item.id for one in scored], pa.string()),
            "cluster": pa.array([one.item.set_id for one in scored], pa.string()),
            WEIGHT: pa.array([1.0] * len(scored), pa.float64()),
            PEOPLE: codes([one.people for one in scored]),
            OLD: codes([one.old for one in scored]),
            NEW: codes([one.new for one in scored]),
        }
    )


def trial_json(trial: CriteriaTrial) -> dict[str, Any]:
    """Return a trial as JSON values, with the proposed criteria."""
    return {
        "proposer": trial.proposer,
        "judge": trial.judge,
        "changes": [one.model_dump() for one in trial.changes],
        "proposed": trial.proposed.model_dump(),
        "measured": [asdict(one) for one in trial.comparisons],
        "moved": [_changed_row(one) for one in trial.changed_items()],
        "in_short": [
            f"{REVIEW_TASKS[one.task].title}: accuracy {_number(one.old)} by the old criteria, {_number(one.new)} by "
            f"the new, difference {_signed(one.difference)}, {one.old.rows} held-out items judged by {trial.judge}"
            for one in trial.comparisons
            if one.metric == "accuracy"
        ],
    }


def _changed_row(one: RejudgedItem) -> Mapping[str, str]:
    said = {"people": one.people, "old": one.old, "new": one.new, "because": one.because}
    return {"item": one.item.id, "task": one.item.task, "subject": one.item.subject, **said, "effect": one.effect}


def comparison_table(trial: CriteriaTrial) -> ResultTable:
    """Return both agreements with people, and their differences."""
    metrics = list(dict.fromkeys(one.metric for one in trial.comparisons if one.metric in _METRIC_NAMES))
    comparisons = {(one.task, one.metric): one for one in trial.comparisons}
    tasks = list(dict.fromkeys(one.task for one in trial.comparisons))
    accuracies = [comparisons[task, "accuracy"] for task in tasks]
    notes = [
        f"{REVIEW_TASKS[one.task].title}: {one.old.rows} items of {one.old.clusters} labels"
        + (f", {one.unscored} more unscored by the old or the new criteria" if one.unscored else "")
        for one in accuracies
    ]
    notes.append("95 % intervals by bootstrap over labels; those of differences are from the same resamples.")
    if any(one.old.clusters < FEW_CLUSTERS for one in accuracies):
        notes.append(f"With fewer than {FEW_CLUSTERS} labels intervals are too narrow.")
    table = build_table(
        f"{trial.judge} against people, on items that the proposal did not see",
        "Task",
        [("", name, metric) for metric, name in _METRIC_NAMES.items()],
        [
            (f"{REVIEW_TASKS[task].title}, {name}", metric, getattr(comparisons[task, metric], part))
            for task in tasks
            for name, part in (("old", "old"), ("new", "new"), ("new − old", "difference"))
            for metric in metrics
            if (task, metric) in comparisons
        ],
    )
    table.notes += notes
    return table


def _number(one: Estimate) -> str:
    return "–" if one.value is None else f"{one.value:.3f}"


def _signed(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "–" if one.value is None else f"{one.value:+.3f}"
    return f"{one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
