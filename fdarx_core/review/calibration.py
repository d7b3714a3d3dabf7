"""Figures of an evaluation or a factuality run, calibrated by people's annotations of a sample of answers or claims.

Support@k and Contra@k are here the shares of the claims that are supported and contradicted. A claim that the engine
left undecided is neither. FAS is that of the paper with each answer counted once per claim, so that it is linear in the
verdicts of claims: its terms of support and contradiction are one value between 0 and 1 for each claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.metrics import Mask, Numbers, ScoreColumns, answerable_questions, graded
from fdarx_core.evaluation.tables import TYPE_NAMES, Column, ResultTable
from fdarx_core.factuality.scores import CONTRADICTED, SUPPORTED, Weights
from fdarx_core.records import Estimate, FactualityScore, Figure, Prediction, SettingProgress
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
from fdarx_core.review.sampling import SampleUnit, factuality_units
from fdarx_core.review.tasks import CLAIM_TASK, FACTUALITY, GRADE_TASK, REVIEW_TASKS
from fdarx_core.storage import RunDirectory, StorageError, read_records, read_table, read_where

CORRECT = REVIEW_TASKS[GRADE_TASK].positive
ALL_CELLS = "all together"
GROUPS = {
    "answerable": ("answerable", tuple(TYPE_NAMES)),
    "factual": ("factual", ("factual",)),
    "multihop": ("multi-hop", ("multihop",)),
}
"""For each group of the evaluation's figures, its name in a title and the types of its questions."""
_NOTES = (
    "Calibrated: the judge's figure, corrected by people's annotations of a sample (prediction-powered "
    "inference, PPI++).",
    "The 95 % intervals are for the verdicts that people would give on all these answers or claims; that of the judge "
    "is by bootstrap over labels and assumes that its verdicts are correct.",
    "People's verdict is the adjudicated one, or that of the majority; a tie counts as the mean of its votes. “Unsure” "
    "is not a verdict.",
    "An annotation is worth as many annotations as people alone would need for an interval of the same width.",
)
_MIN_EXPECTED = 5
"""Annotated items that a class must lead one to expect, by its size, to have a share of its own. The number that was in
fact annotated must not decide: only classes with many annotated items would then be weighted by themselves."""
_CLASSES: tuple[Callable[[ReviewItem], str], ...] = (lambda item: item.stratum, lambda item: item.decision)
_COLUMNS_READ = ["prediction_id", "question_id", "cluster", "setting", "retriever", "type", "outcome", "grade"]


CalibratedAccuracy: TypeAlias = tuple[Estimate, CalibratedEstimate, CalibratedEstimate]
"""The accuracy of a cell on a group of questions: by the judge, calibrated, and by people alone."""


def calibrated_tables(review: Review, run: RunDirectory, *, blind: bool = False) -> list[ResultTable]:
    """Return the tables that have a cell with enough labels.

    They are of an evaluation the accuracy on all answerable questions and on each type; of a factuality run Support@k,
    Contra@k and FAS, by model and setting.

    Args:
        review: the last review of the run; earlier ones that it continues count as well.
        run: the evaluation that the reviews were drawn from.
        blind: leave out votes that were given with the judge's decision in view.

    Raises:
        ValueError: for votes that contradict each other.
        StorageError: where the run is no evaluation or factuality run, or another one than that of the review.
    """
    reviews = review_history(review)
    if run.info()["job"] == FACTUALITY:
        tables = _claim_tables(run, review, blind=blind)
    else:
        answers = read_graded_answers(run, reviews[0])
        rounds = labeling_rounds(answers, reviews, blind=blind)
        figures = list(read_records(run.file("metrics.parquet"), Figure))
        tables = [
            _table(f"Accuracy on {name} questions", "Accuracy", calibrated_cells(answers, rounds, figures, group))
            for group, (name, _) in GROUPS.items()
        ]
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
        str(CellKey(*(one.keys[name] for name in CellKey._fields))): one
        for one in figures
        if (one.metric, one.keys["group_by"], one.keys["group"]) == ("accuracy", "type", group)
    }
    in_group = np.array([answer.type in GROUPS[group][1] for answer in answers], dtype=np.bool_)
    verdicts = np.array([float(answer.verdict == CORRECT) for answer in answers])
    return _masked_cells(verdicts, rounds, _cell_masks(answers, in_group), judged)


def _cell_masks(units: Sequence[SampleUnit], counted: Mask) -> dict[str, Mask]:
    """Return the counted answers or claims of each cell, and all of them where there are several cells."""
    cells = dict.fromkeys(one.cell for one in units)
    masks = {str(cell): counted & np.array([one.cell == cell for one in units], dtype=np.bool_) for cell in cells}
    return masks | ({ALL_CELLS: counted} if len(masks) > 1 else {})


def _masked_cells(
    verdicts: Numbers, rounds: Sequence[LabelingRound], masks: Mapping[str, Mask], judged: Mapping[str, Figure]
) -> dict[str, CalibratedAccuracy]:
    found: dict[str, CalibratedAccuracy] = {}
    for name, mask in masks.items():
        if mask.any():
            judge, within = verdicts[mask], restrict_rounds(rounds, mask)
            figure = judged.get(name)
            by_judge = Estimate(float(judge.mean()), *((figure.low, figure.high) if figure else ()))
            found[name] = by_judge, calibrated_share(judge, within), people_share(len(judge), within)
    return found


def _claim_tables(run: RunDirectory, review: Review, *, blind: bool) -> list[ResultTable]:
    method, info = run.info()["method"], review.info
    claims = factuality_units(run, [CLAIM_TASK], info["models"], info["settings"])
    texts = {claim.id: claim.text for claim in claims}
    _check_same(
        review, run, {item.subject: item.statement for item in review.items() if item.task == CLAIM_TASK}, texts
    )
    weights, k = Weights(**method["weights"]), method["k"]
    by_claims = weights.support + weights.contra
    values: dict[str, dict[str, float]] = {
        f"Support@{k}": {SUPPORTED: 1.0},
        f"Contra@{k}": {CONTRADICTED: 1.0},
        f"FAS[{method['similarity']}]": {
            SUPPORTED: 1.0, CONTRADICTED: 0.0, "": weights.contra / by_claims if by_claims else 0.0,
        },
    }  # fmt: skip
    similarities = _similarities(run, claims)
    tables: list[ResultTable] = []
    for name, value in values.items():
        of_fas = "" in value
        counted = ~np.isnan(similarities) if of_fas and weights.similarity else np.ones(len(claims), dtype=np.bool_)
        masks = _cell_masks(claims, counted)
        credit = _credit(value)
        rounds = labeling_rounds(claims, [review], blind=blind, task=CLAIM_TASK, credit=credit)
        verdicts = np.array([credit(claim.verdict) for claim in claims])
        found = _masked_cells(verdicts, rounds, masks, {})
        if of_fas:
            means = {cell: float(similarities[masks[cell]].mean()) if weights.similarity else 0.0 for cell in found}
            found = {cell: _scaled(one, weights.similarity * means[cell], by_claims) for cell, one in found.items()}
        tables.append(_table(f"{name} over claims", name, found, "Claims"))
    tables[-1].notes.append(
        "Shares are of all claims; undecided and unscored ones are neither supported nor contradicted. FAS counts each "
        "answer once for each of its claims. Tables 1 and 2 have the mean over answers, of decided claims."
    )
    return tables


def _credit(values: Mapping[str, float]) -> Callable[[str], float]:
    """Return the function from a verdict to its value between 0 and 1; "" stands for every other verdict."""
    return lambda verdict: values.get(verdict, values.get("", 0.0))


def _similarities(run: RunDirectory, claims: Sequence[SampleUnit]) -> Numbers:
    """Return the similarity of each claim's answer to its references, NaN for none."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(claim.part for claim in claims):
        answer_of = {row["id"]: row["answer_id"] for row in read_table(run.file(f"claims/{name}")).to_pylist()}
        scores: Iterator[FactualityScore] = read_records(run.file(f"scores/{name}"), FactualityScore)
        similarity = {row.answer_id: np.nan if row.similarity is None else row.similarity for row in scores}
        found |= {claim: similarity[answer] for claim, answer in answer_of.items()}
    return np.array([found[claim.id] for claim in claims], dtype=np.float64)


def _scaled(cell: CalibratedAccuracy, base: float, factor: float) -> CalibratedAccuracy:
    """Return estimates of base + factor × value."""

    def moved(value: float | None) -> float | None:
        return None if value is None else base + factor * value

    judge, *others = cell
    both, people = (replace(one, value=moved(one.value), low=moved(one.low), high=moved(one.high)) for one in others)
    return replace(judge, value=moved(judge.value)), both, people


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
    _check_same(review, run, {name: item.answer for name, item in items.items()}, answers)


def _check_same(review: Review, run: RunDirectory, seen: Mapping[str, str], there: Mapping[str, str]) -> None:
    if different := sum(there.get(name) != text for name, text in seen.items()):
        job, kind = ("factuality run", "claims") if run.info()["job"] == FACTUALITY else ("evaluation", "answers")
        raise StorageError(
            f"{review.root} was drawn from {review.info['run']} as it was then: {different} of its {len(seen)} "
            f"{kind} are not in {run.root}, or differ there; give the {job} that it was drawn from"
        )


def review_history(review: Review) -> list[Review]:
    """Return the review and those that it continues, the oldest first."""
    reviews = [review]
    while earlier := reviews[0].info.get("of"):
        reviews.insert(0, open_review(earlier))
    return reviews


def is_correct(verdict: str) -> float:
    """Return 1 for a correct answer, else 0."""
    return float(verdict == CORRECT)


def labeling_rounds(
    answers: Sequence[SampleUnit],
    reviews: Sequence[Review],
    *,
    blind: bool = False,
    task: str = GRADE_TASK,
    credit: Callable[[str], float] = is_correct,
) -> list[LabelingRound]:
    """Return the value that people give to the answers or claims, one round a review. Rows are positions in `answers`.

    `credit` is the value of a verdict, 0 to 1. `blind` leaves out votes that were given with the judge's decision in
    view. Raises ValueError as `collect_votes`.
    """
    row = {answer.id: position for position, answer in enumerate(answers)}
    rounds: list[LabelingRound] = []
    for review in reviews:
        items = {item.id: item for item in review.items() if item.task == task}
        votes = [vote for vote in review.annotations() if vote.item_id in items]
        rounds.append(labeling_round(collect_votes(items.values(), votes, blind=blind), row, credit))
    return rounds


def labeling_round(
    drawn: Iterable[AnnotatedItem], row: Mapping[str, int], credit: Callable[[str], float] = is_correct
) -> LabelingRound:
    """Return a round from the drawn items whose prediction or claim has a `row`.

    An item's value is that of the consensus, or the mean over the marks where there is none. Its chance is
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
        people=np.array([_mean_credit(one.values, credit) for one in labeled], dtype=np.float64),
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


def _mean_credit(values: list[str], credit: Callable[[str], float]) -> float:
    verdict = consensus(values)
    return credit(verdict) if verdict else sum(map(credit, values)) / len(values)


def restrict_rounds(rounds: Sequence[LabelingRound], rows: Mask) -> list[LabelingRound]:
    """Return the rounds for the masked rows alone, which are numbered anew."""
    number = np.cumsum(rows) - 1
    masks = [(one, rows[one.rows], rows[one.unjudged]) for one in rounds]
    return [
        LabelingRound(number[one.rows[kept]], one.people[kept], one.chances[kept], number[one.unjudged[unjudged]])
        for one, kept, unjudged in masks
    ]


def _table(title: str, metric: str, cells: Mapping[str, CalibratedAccuracy], noun: str = "Answers") -> ResultTable:
    rows: list[tuple[str, list[Estimate | None]]] = []
    for name, (judge, both, people) in cells.items():
        worth = Estimate((people.width / both.width) ** 2) if both.value is not None and both.width else None
        rows.append((f"{name} ({both.labels} of {both.rows:,})", [judge, _entry(both), _entry(people), worth]))
    by = {name: both.by for name, (_, both, _) in cells.items()}
    notes = []
    if TOO_FEW in by.values():
        notes.append(f"Not calibrated: fewer than {MIN_LABELS} annotations.")
    if alone := [name for name in by if by[name] == PEOPLE_ALONE]:
        notes.append(
            f"The judge's verdict on all annotated answers is equal, so people alone count: {'; '.join(alone)}."
        )
    columns: list[Column] = [(metric, name) for name in ("judge alone", "calibrated", "people alone")]
    title = f"{title}, calibrated by people's annotations"
    return ResultTable(title, f"{noun} (annotated of all)", [*columns, ("An annotation", "is worth")], rows, notes)


def _entry(one: CalibratedEstimate) -> Estimate | None:
    return None if one.value is None else Estimate(one.value, one.low, one.high)
