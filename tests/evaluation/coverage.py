"""The coverage of 95 % intervals by bootstrap over labels, on simulated data sets whose labels differ as real ones do.

The labels of a data set have very uneven sizes, each label has its own accuracy, and large labels are harder. The true
values follow from the distributions. The naive bootstrap treats each question as a label.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import estimate
from fdarx_core.evaluation.metrics import SCORE_METRICS, Codes, Numbers, ScoreColumns

METRICS = ("accuracy", "refusal_f1")
SIZES = np.array([3, 7, 10, 15, 24])
SHARES = np.array([0.1, 0.25, 0.35, 0.2, 0.1])
RIGHT = np.array([0.75, 0.65, 0.6, 0.5, 0.4])
FALSE_REFUSAL = np.array([0.05, 0.1, 0.1, 0.15, 0.25])
TRUE_REFUSAL = np.array([0.9, 0.85, 0.8, 0.75, 0.7])
"""By size of label: answerable questions; share of labels; mean probabilities of a right answer and of refusals."""
SPREAD = 4.0
"""Sum of the two parameters of the beta distributions: the smaller, the more labels of one size differ."""


def true_values() -> tuple[float, float]:
    """Return accuracy and refusal F1 over the whole distribution of labels."""
    answerable, refusal = SIZES, refusal_questions(SIZES)
    correct = np.sum(SHARES * answerable * (1 - FALSE_REFUSAL) * RIGHT)
    accuracy = correct / np.sum(SHARES * answerable)
    caught = np.sum(SHARES * refusal * TRUE_REFUSAL)
    missed = np.sum(SHARES * refusal * (1 - TRUE_REFUSAL))
    false = np.sum(SHARES * answerable * FALSE_REFUSAL)
    return float(accuracy), float(2 * caught / (2 * caught + missed + false))


def refusal_questions(answerable: Codes) -> Codes:
    """Return the numbers of refusal questions: a third of the answerable ones, at least one."""
    return np.asarray(np.maximum(1, answerable // 3))


def simulated_cell(random: np.random.Generator, labels: int) -> pa.Table:
    """Return the columns of Score that the two metrics need."""
    size = random.choice(len(SIZES), labels, p=SHARES)
    right, false, true = (drawn_for(random, means[size]) for means in (RIGHT, FALSE_REFUSAL, TRUE_REFUSAL))
    answerable = np.repeat(np.arange(labels), SIZES[size])
    refusal = np.repeat(np.arange(labels), refusal_questions(SIZES[size]))
    refused = random.random(len(answerable) + len(refusal)) < np.concatenate([false[answerable], true[refusal]])
    correct = random.random(len(refused)) < np.concatenate([right[answerable], np.zeros(len(refusal))])
    return pa.table(
        {
            "cluster": [f"label-{label:04d}" for label in np.concatenate([answerable, refusal])],
            "question_id": [f"question-{number:06d}" for number in range(len(refused))],
            "type": ["factual"] * len(answerable) + ["refusal"] * len(refusal),
            "outcome": np.where(refused, "refused", "answered"),
            "grade": np.where(refused, "not_attempted", np.where(correct, "correct", "incorrect")),
        }
    )


def drawn_for(random: np.random.Generator, means: Numbers) -> Numbers:
    """Draw a probability for each label around its mean."""
    return random.beta(SPREAD * means, SPREAD * (1 - means))


def contains_truth(table: pa.Table, seed: int, resamples: int) -> list[bool]:
    """Return for each metric whether its interval contains the true value."""
    columns = ScoreColumns(table)
    everywhere = np.ones(columns.rows, dtype=np.bool_)
    slices = [(SCORE_METRICS[name], everywhere) for name in METRICS]
    estimates = estimate(columns, slices, seed=seed, resamples=resamples)
    return [
        one.low is not None and one.high is not None and one.low <= truth <= one.high
        for one, truth in zip(estimates, true_values(), strict=True)
    ]


def coverage(datasets: int, labels: int, resamples: int, seed: int = 0) -> tuple[list[float], list[float]]:
    """Return the coverage of each metric by the bootstrap over labels, and by the naive one, on the same data sets."""
    by_label, naive = [], []
    for number in range(datasets):
        table = simulated_cell(np.random.default_rng([seed, number]), labels)
        by_label.append(contains_truth(table, number, resamples))
        each = table.set_column(0, "cluster", table["question_id"])
        naive.append(contains_truth(each, number, resamples))
    return np.mean(by_label, axis=0).tolist(), np.mean(naive, axis=0).tolist()
