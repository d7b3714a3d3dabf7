"""Active sampling: the next answers that people grade are those whose grades are least certain so far.

An answer is drawn with a probability in proportion to the standard deviation of people's verdict on it, estimated from
people's verdicts on answers like it. Cells (model, setting, retriever) get labels in proportion to the mean of these,
so that the sum of the variances of their accuracies falls most (Neyman 1934). A share of the probabilities is uniform,
so that none is 0 and no weight is very large. Source: Zrnic and Candès 2024, "Active statistical inference".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fdarx_core.evaluation.metrics import Codes, Mask, Numbers
from fdarx_core.records import content_id
from fdarx_core.review.calibration import labeling_rounds, read_graded_answers, review_history
from fdarx_core.review.items import ReviewSample, grade_items, item_texts, strata_info
from fdarx_core.review.prediction_powered import LabelingRound, drawn_rows
from fdarx_core.review.review_set import Review
from fdarx_core.review.sampling import SampleUnit, Stratum
from fdarx_core.review.tasks import GRADE_TASK
from fdarx_core.storage import RunDirectory, StorageError

_UNIFORM_SHARE = 0.2
"""The share of the probabilities that is uniform."""
_PRIOR_LABELS = 4.0
"""The number of labels that the estimate for the wider group counts as in the estimate for a group."""
_STRATIFIED_BY = ("model, setting and retriever", "type", "verdict")


AnswerPool: TypeAlias = tuple[Codes, Codes, Codes]
"""The cell, the group and the judge's verdict of each answer that may be drawn, as codes from 0.

Answers of one group are alike; answers with the same verdict, over all cells, are the wider group.
"""


def draw_next(run: RunDirectory, earlier: Review, n: int, seed: int = 0) -> ReviewSample:
    """Draw `n` answers that no review drew so far, with probabilities that narrow the calibrated accuracies most.

    `earlier` is the last review of the run; models and settings are those of the first. The `fraction` of an item is
    its probability among the answers left. Raises StorageError where there are no annotations, no answers are left, or
    the run is another one, and ValueError as `labeling_rounds` does.
    """
    reviews = review_history(earlier)
    answers = read_graded_answers(run, reviews[0])
    rounds = labeling_rounds(answers, reviews)
    if not any(len(one.rows) for one in rounds):
        raise StorageError(f"{earlier.root} has no grades yet; import the annotators' files with `fdarx review import`")
    groups = [(answer.cell, answer.type, answer.verdict) for answer in answers]
    pool = _codes([cell for cell, _, _ in groups]), _codes(groups), _codes([verdict for _, _, verdict in groups])
    probabilities = inclusion_probabilities(pool, rounds, n)
    if not probabilities.any():
        raise StorageError(f"{earlier.root} leaves no answer to draw: reviews hold all that have a verdict")
    rows = pareto_sample(probabilities, _uniforms(answers, earlier, seed), round(float(probabilities.sum()))).tolist()
    drawn_before = set(drawn_rows(rounds).tolist())
    sizes = Counter(_stratum(answer) for row, answer in enumerate(answers) if row not in drawn_before)
    counts = Counter(_stratum(answers[row]) for row in rows)
    strata = {name: Stratum(name, sizes[name], counts[name]) for name in sorted(counts)}
    rows.sort(key=lambda row: content_id(str(seed), "order", answers[row].id))
    items = grade_items(run, [(answers[row], strata[_stratum(answers[row])]) for row in rows])
    items = [replace(item, fraction=float(probabilities[row])) for item, row in zip(items, rows, strict=True)]
    info = {
        **earlier.info,
        "digest": content_id(earlier.digest, *item_texts(items)),
        "of": earlier.root.address if earlier.root.is_remote else str(Path(earlier.root.address).absolute()),
        "seed": seed,
        "n": n,
        "tasks": [GRADE_TASK],
        "annotators": [],
        "by": list(_STRATIFIED_BY),
        "population": int((probabilities > 0).sum()),
        "subjects": len(items),
        "items": len(items),
        "strata": strata_info(strata.values()),
    }
    return ReviewSample(items, info)


def inclusion_probabilities(pool: AnswerPool, rounds: Sequence[LabelingRound], n: int) -> Numbers:
    """Return the probability of each answer to be among the next `n`, 0 for answers that a round drew.

    The probabilities sum to `n`, or to the number of answers left where these are fewer.
    """
    labeled = np.concatenate([np.zeros(0, dtype=np.int64), *(one.rows for one in rounds)])
    people = np.concatenate([np.zeros(0), *(one.people for one in rounds)])
    cell, group, verdict = pool
    left = np.ones(len(cell), dtype=np.bool_)
    left[drawn_rows(rounds)] = False
    if not left.any():
        return np.zeros(len(left))
    # The standard deviation of people's verdict on each answer, estimated from those on answers like it.
    prior = _shrunk_shares(verdict, np.full(len(cell), 0.5), labeled, people)
    share = _shrunk_shares(group, prior, labeled, people)
    desired = _desired_labels(cell, np.sqrt(share * (1 - share)), labeled, left, n)
    uniform = left / left.sum()
    mixed = _UNIFORM_SHARE * uniform + (1 - _UNIFORM_SHARE) * desired / desired.sum() if desired.any() else uniform
    return _capped(mixed, n)


def pareto_sample(probabilities: Numbers, uniforms: Numbers, n: int) -> Codes:
    """Draw `n` rows with these inclusion probabilities, which sum to `n`. Source: Rosén 1997, Pareto sampling.

    `uniforms` holds a uniform random number a row. The rows with the least ratio of their odds are drawn.
    """
    rows = np.flatnonzero(probabilities)
    uniforms, probabilities = uniforms[rows], probabilities[rows]
    odds = uniforms / (1 - uniforms) * (1 - probabilities) / probabilities
    return np.sort(rows[np.argsort(odds, kind="stable")[:n]])


def _shrunk_shares(group: Codes, prior: Numbers, labeled: Codes, people: Numbers) -> Numbers:
    """Estimate for each answer how often people find those of its group correct, shrunk towards the prior."""
    size = int(group.max(initial=0)) + 1
    labels = np.bincount(group[labeled], minlength=size)[group]
    correct = np.bincount(group[labeled], people, minlength=size)[group]
    return np.asarray((correct + _PRIOR_LABELS * prior) / (labels + _PRIOR_LABELS))


def _desired_labels(cell: Codes, deviations: Numbers, labeled: Codes, left: Mask, n: int) -> Numbers:
    """Return how much of the next `n` labels each answer should get, in any unit."""
    size = int(cell.max(initial=0)) + 1
    sizes = np.bincount(cell, minlength=size)
    labels = np.bincount(cell[labeled], minlength=size)
    mean = np.bincount(cell, deviations, minlength=size) / np.maximum(sizes, 1)
    due = np.maximum(mean / mean.sum() * (len(labeled) + n) - labels, 0)
    among = np.bincount(cell, deviations * left, minlength=size)
    return np.asarray(left * deviations * np.divide(due, among, out=np.zeros(size), where=among > 0)[cell])


def _capped(weights: Numbers, n: int) -> Numbers:
    """Scale weights to probabilities that sum to `n`, none above 1."""
    if n >= np.count_nonzero(weights):
        return (weights > 0).astype(np.float64)
    probabilities = weights * 0.0
    free = weights > 0
    for _ in range(len(weights)):
        scale = n - np.count_nonzero(probabilities >= 1)
        probabilities[free] = weights[free] * scale / max(weights[free].sum(), 1e-300)
        over = free & (probabilities >= 1)
        if not over.any():
            break
        probabilities[over], free = 1.0, free & ~over
    return probabilities


def _codes(values: Sequence[object]) -> Codes:
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.array([codes[value] for value in values], dtype=np.int64)


def _uniforms(answers: Sequence[SampleUnit], earlier: Review, seed: int) -> Numbers:
    """Return a number between 0 and 1 for each answer, by a hash of seed, earlier review and id.

    Without the earlier review in it, answers left over from a round would all have high numbers.
    """
    hashes = (int(content_id(str(seed), earlier.digest, answer.id), 16) for answer in answers)
    return np.array([(number + 0.5) / 2.0**64 for number in hashes])


def _stratum(answer: SampleUnit) -> str:
    return f"{answer.cell} · {answer.type} · {answer.verdict}"
