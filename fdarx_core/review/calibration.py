"""Accuracies of an evaluation, calibrated by the grades that people gave to a sample of its answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.metrics import Mask, ScoreColumns, answerable_questions, graded
from fdarx_core.evaluation.paper_tables import TYPE_NAMES
from fdarx_core.evaluation.tables import Column, ResultTable
from fdarx_core.records import Estimate, Figure, Prediction, SettingProgress
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.agreement_metrics import AnnotatedItem, collect_votes, consensus
from fdarx_core.review.items import shown_answer
from fdarx_core.review.prediction_powered import (
    MIN_LABELS,
    PEOPLE_ALONE,
    TOO_FEW,
    CalibratedEstimate,
    LabelingRound,
    calibrated_share,
    people_share,
)
from fdarx_core.review.review_set import Review, open_review
from fdarx_core.review.sampling import SampleUnit
from fdarx_core.review.tasks import GRADE_TASK, REVIEW_TASKS
from fdarx_core.storage import RunDirectory, StorageError, read_records, read_table, read_where

CORRECT = REVIEW_TASKS[GRADE_TASK].positive
ALL_CELLS = "all together"
GROUPS = {
    "answerable": ("answerable", tuple(TYPE_NAMES)),
    "factual": ("factual", ("factual",)),
    "multihop": ("multi-hop", ("multihop",)),
}
"""For each group of the evaluation's figures, its name in a title and the types of its questions."""
_COLUMNS: list[Column] = [
    *(("Accuracy", name) for name in ("judge alone", "calibrated", "people alone")),
    ("A label", "is worth"),
]
_NOTES = (
    "Calibrated: the judge's accuracy, corrected by people's grades of the labeled answers (prediction-powered "
    "inference, PPI++).",
    "Intervals at 95 %: the judge's is by bootstrap over labels and assumes that its verdicts are right; the others "
    "are for what people would say of all these answers.",
    "People's verdict is that of the majority; a tie counts as the share of people who found the answer correct.",
    "A label is worth as many labels as people alone would need for an interval of the same width.",
)
_MIN_EXPECTED = 5
"""Annotated items that a class must lead one to expect, by its size, to have a share of its own. The number that was in
fact annotated must not decide: only classes with many annotated items would then be weighted by themselves."""
_CLASSES: tuple[Callable[[ReviewItem], str], ...] = (lambda item: item.stratum, lambda item: item.decision)
_COLUMNS_READ = ["prediction_id", "question_id", "set_id", "setting", "retriever", "type", "outcome", "grade"]


CalibratedAccuracy: TypeAlias = tuple[Estimate, CalibratedEstimate, CalibratedEstimate]
"""The accuracy of a cell on a group of questions: by the judge, calibrated, and by people alone."""


def calibrated_tables(review: Review, run: RunDirectory, *, blind: bool = False) -> list[ResultTable]:
    """Return a table for all answerable questions and one for each type, where a cell has enough labels.

    Args:
        review: the last review of the run; earlier ones that it continues count as well.
        run: the evaluation that the reviews were drawn from.
        blind: leave out votes that were given with the judge's decision in view.

    Raises:
        ValueError: for votes that contradict each other.
        StorageError: where the run is no evaluation, or another one.
    """
    reviews = review_history(review)
    answers = read_graded_answers(run, reviews[0])
    rounds = labeling_rounds(answers, reviews, blind=blind)
    figures = list(read_records(run.file("metrics.parquet"), Figure))
    tables = [_table(group, calibrated_cells(answers, rounds, figures, group)) for group in GROUPS]
    tables = [table for table in tables if any(entries[1] for _, entries in table.rows)]
    if tables:
        people = sorted({one.annotator for review in reviews for one in review.annotations()})
        ids = ", ".join(review.digest for review in reviews)
        source = f"Labels: by {', '.join(people)}, of {'reviews' if len(reviews) > 1 else 'review'} {ids}."
        tables[0].notes[:0] = [*_NOTES, source]
    return tables


def calibrated_cells(
    answers: Sequence[SampleUnit], rounds: Sequence[LabelingRound], figures: Iterable[Figure], group: str
) -> dict[str, CalibratedAccuracy]:
    """Return the accuracies of each cell with answers in the group, and of all cells together where several."""
    judged = {
        CellKey(*(one.keys[name] for name in CellKey._fields)): one
        for one in figures
        if (one.metric, one.keys["group_by"], one.keys["group"]) == ("accuracy", "type", group)
    }
    in_group = np.array([answer.type in GROUPS[group][1] for answer in answers], dtype=np.bool_)
    cells = list(dict.fromkeys(answer.cell for answer in answers))
    masks = {
        str(cell): (in_group & np.array([answer.cell == cell for answer in answers], dtype=np.bool_), judged.get(cell))
        for cell in cells
    }
    if len(cells) > 1:
        masks[ALL_CELLS] = in_group, None
    verdicts = np.array([float(answer.verdict == CORRECT) for answer in answers])
    found: dict[str, CalibratedAccuracy] = {}
    for name, (mask, figure) in masks.items():
        if mask.any():
            judge, within = verdicts[mask], restrict_rounds(rounds, mask)
            by_judge = Estimate(float(judge.mean()), *((figure.low, figure.high) if figure else ()))
            found[name] = by_judge, calibrated_share(judge, within), people_share(len(judge), within)
    return found


def read_graded_answers(run: RunDirectory, review: Review) -> list[SampleUnit]:
    """Read the answers of the models and settings that a review was drawn from, in the order of the cells.

    Raises StorageError where the run is no evaluation, or not the one that the review was drawn from.
    """
    if run.info()["job"] != "evaluate":
        raise StorageError(f"{run.root} is a run of {run.info()['job']}, not of evaluate: it has no graded answers")
    _check_same_answers(review, run)
    models, settings = review.info["models"], review.info["settings"]
    cells = [
        CellKey(one.model, one.setting, one.retriever)
        for one in read_records(run.file("cells.parquet"), SettingProgress)
    ]
    cells = [one for one in cells if (not models or one.model in models) and (not settings or one.setting in settings)]
    order = {cell: position for position, cell in enumerate(cells)}
    answers = (answer for model in dict.fromkeys(cell.model for cell in cells) for answer in _model_answers(run, model))
    return sorted((answer for answer in answers if answer.cell in order), key=lambda answer: order[answer.cell])


def _model_answers(run: RunDirectory, model: str) -> Iterator[SampleUnit]:
    for part in run.parts(f"scores/{model}"):
        table = read_table(part, _COLUMNS_READ)
        columns = ScoreColumns(table.append_column("model", pa.array([model] * len(table), pa.string())))
        names = ("prediction_id", "question_id", "model", "setting", "retriever", "type", "grade")
        rows = zip(*(columns.strings(name).tolist() for name in names), strict=True)
        for (id_, question, *cell, type_, verdict), counts in zip(
            rows, graded(columns) & answerable_questions(columns), strict=True
        ):
            if counts:
                yield SampleUnit(id_, question, (verdict, type_), part.name, CellKey(*cell))


def _check_same_answers(review: Review, run: RunDirectory) -> None:
    """Raise StorageError unless the run has the answers that annotators saw. Their grades may have changed."""
    items = {item.subject: item for item in review.items() if item.task == GRADE_TASK}
    if not items:
        raise StorageError(f"{review.root} is a review of {review.info['run']}, whose tasks are not about answers")
    parts = (
        part for model in sorted({item.model for item in items.values()}) for part in run.parts(f"predictions/{model}")
    )
    answers = {row.id: shown_answer(row) for part in parts for row in read_where(part, "id", items, Prediction)}
    if different := sum(answers.get(name) != item.answer for name, item in items.items()):
        raise StorageError(
            f"{review.root} was drawn from {review.info['run']} as it was then: {different} of its {len(items)} "
            f"answers are not in {run.root}, or differ there; give the evaluation that it was drawn from"
        )


def review_history(review: Review) -> list[Review]:
    """Return the review and those that it continues, the oldest first."""
    reviews = [review]
    while earlier := reviews[0].info.get("of"):
        reviews.insert(0, open_review(earlier))
    return reviews


def labeling_rounds(
    answers: Sequence[SampleUnit], reviews: Sequence[Review], *, blind: bool = False
) -> list[LabelingRound]:
    """Return people's verdicts on the answers, one round a review. Rows are positions in `answers`.

    `blind` leaves out votes that were given with the judge's decision in view. Raises ValueError as `collect_votes`.
    """
    row = {answer.id: position for position, answer in enumerate(answers)}
    rounds: list[LabelingRound] = []
    for review in reviews:
        items = {item.id: item for item in review.items() if item.task == GRADE_TASK}
        votes = [vote for vote in review.annotations() if vote.item_id in items]
        rounds.append(labeling_round(collect_votes(items.values(), votes, blind=blind), row))
    return rounds


def labeling_round(drawn: Iterable[AnnotatedItem], row: Mapping[str, int]) -> LabelingRound:
    """Return a round from the drawn items whose prediction has a `row`.

    An item's verdict is the consensus, or the share of people who found it correct where there is none. Its chance is
    the probability to be drawn times the share of items like it that were annotated: of its stratum; where that is too
    small, of all such items with the same verdict of the judge; else of all. The order of items is random, so those
    annotated are a random sample of those drawn, but some annotators skip what is hard, which is often of one kind.
    Source: weighting classes, Oh and Scheuren 1983; Little and Rubin 2019, §3.3.
    """
    items = [one for one in drawn if one.item.subject in row]
    shares = _annotated_shares(items)
    labeled = [one for one in items if one.values]
    return LabelingRound(
        rows=np.array([row[one.item.subject] for one in labeled], dtype=np.int64),
        people=np.array([_correct_share(one.values) for one in labeled], dtype=np.float64),
        chances=np.array([one.item.fraction * shares[one.item.id] for one in labeled], dtype=np.float64),
        unjudged=np.array([row[one.item.subject] for one in items if not one.values], dtype=np.int64),
    )


def _annotated_shares(items: Sequence[AnnotatedItem]) -> dict[str, float]:
    """Return, for each item, the share of annotated items in its class."""
    overall = _annotated_share(items)
    shares = dict.fromkeys((one.item.id for one in items), overall)
    left = list(items)
    for key in _CLASSES:
        classes: dict[str, list[AnnotatedItem]] = defaultdict(list)
        for one in left:
            classes[key(one.item)].append(one)
        left = []
        for members in classes.values():
            share = _annotated_share(members)
            if len(members) * overall >= _MIN_EXPECTED and share:
                shares |= dict.fromkeys((one.item.id for one in members), share)
            else:
                left += members
    return shares


def _annotated_share(items: Sequence[AnnotatedItem]) -> float:
    return sum(bool(one.values) for one in items) / max(len(items), 1)


def _correct_share(values: list[str]) -> float:
    verdict = consensus(values)
    return float(verdict == CORRECT) if verdict else values.count(CORRECT) / len(values)


def restrict_rounds(rounds: Sequence[LabelingRound], rows: Mask) -> list[LabelingRound]:
    """Return the rounds for the masked rows alone, which are numbered anew."""
    number = np.cumsum(rows) - 1
    masks = [(one, rows[one.rows], rows[one.unjudged]) for one in rounds]
    return [
        LabelingRound(number[one.rows[kept]], one.people[kept], one.chances[kept], number[one.unjudged[unjudged]])
        for one, kept, unjudged in masks
    ]


def _table(group: str, cells: Mapping[str, CalibratedAccuracy]) -> ResultTable:
    rows: list[tuple[str, list[Estimate | None]]] = []
    for name, (judge, both, people) in cells.items():
        worth = Estimate((people.width / both.width) ** 2) if both.value is not None and both.width else None
        rows.append((f"{name} ({both.labels} of {both.rows:,})", [judge, _entry(both), _entry(people), worth]))
    by = {name: both.by for name, (_, both, _) in cells.items()}
    notes = []
    if TOO_FEW in by.values():
        notes.append(f"Not calibrated: fewer than {MIN_LABELS} labels.")
    if alone := [name for name in by if by[name] == PEOPLE_ALONE]:
        notes.append(f"The judge said the same of all labeled answers, so people alone count: {'; '.join(alone)}.")
    title = f"Accuracy on {GROUPS[group][0]} questions, calibrated by people's labels"
    return ResultTable(title, "Answers (labeled of all)", list(_COLUMNS), rows, notes)


def _entry(one: CalibratedEstimate) -> Estimate | None:
    return None if one.value is None else Estimate(one.value, one.low, one.high)
