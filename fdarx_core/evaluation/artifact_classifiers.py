"""How well classifiers that read nothing but the question tell refusal questions, and the types of questions.

The drugs are divided into two halves by a hash. A classifier is trained on questions on the drugs of one half and
tested on those of the other, in both directions, so that it cannot learn the questions of a drug. In each half equally
many questions of each class are drawn by a hash of their ids. Source of the method: Gururangan et al. 2018, "Annotation
Artifacts in Natural Language Inference Data", who classify hypotheses without their premises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fdarx_core.evaluation.audit_figures import LEAST_DRUGS, LEAST_QUESTIONS, AuditFigure, DrugBootstrap
from fdarx_core.evaluation.audit_questions import AuditedQuestion
from fdarx_core.evaluation.metrics import Codes, Numbers
from fdarx_core.evaluation.naive_bayes import (
    FeatureOccurrences,
    character_features,
    cross_fitted_scores,
    word_features,
)
from fdarx_core.records import Estimate, content_id
from fdarx_core.storage.published import QUESTION_TYPES

MOST_DRAWN = 5000
"""Questions of a class that are drawn in one half of the drugs at most; more make the figures no more exact."""
REFUSAL_AUC_BOUNDS = (0.40, 0.60)
"""The AUC of telling refusals from the question alone with which an audit passes; 0.38 is 0.62 if it is flipped."""

BALANCED_DRUGS = 20
"""The drugs from which these bounds hold: the questions of fewer drugs cannot be balanced by topic."""

MASKS = {"drug": "drug names masked", "drug_entity": "drug names masked, entities left out"}
FEATURES = {"words": "words and word pairs", "characters": "n-grams of 3 to 5 characters"}
_TYPE_NAMES = "factual, multi-hop or refusal"
_REFUSAL_METRICS = {
    "refusal_f1": "F1 of refusals",
    "refusal_accuracy": "Accuracy of telling refusals",
    "refusal_auc": "AUC of telling refusals",
}
_CELLS = 2**22
"""Cells of a matrix of weighted questions in memory (32 MB)."""


def drug_halves(drugs: Sequence[str]) -> Codes:
    """Return the half of each drug of a list, 0 or 1, by a hash. The halves differ by one drug at most."""
    order = sorted(set(drugs), key=lambda drug: content_id("half", drug))
    half_of = {drug: at % 2 for at, drug in enumerate(order)}
    return np.array([half_of[drug] for drug in drugs], np.int64)


def drawn_questions(halves: Codes, classes: Codes, number: int) -> tuple[Codes, str]:
    """Draw equally many questions of each class in each half, the first in order.

    Returns:
        The numbers of the drawn questions in order, and why they are too few, "" where they are enough.
    """
    picked: list[Codes] = []
    least = len(halves)
    for half in (0, 1):
        groups = [np.flatnonzero((halves == half) & (classes == one)) for one in range(number)]
        size = min(MOST_DRAWN, *map(len, groups))
        least = min(least, size)
        picked += [group[:size] for group in groups]
    needed = LEAST_QUESTIONS // 2
    reason = f"a half of the drugs has {least} questions of a class, and {needed} are needed" if least < needed else ""
    return np.sort(np.concatenate(picked)), reason


def classifier_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> list[AuditFigure]:
    """Return F1, accuracy and AUC of classifiers of refusals, and macro-F1 of classifiers of the three types."""
    halves = drug_halves([one.drug for one in questions])
    refusals = np.array([one.is_refusal for one in questions], np.int64)
    types = np.array([QUESTION_TYPES.index(one.type) for one in questions], np.int64)
    return [
        *_of_classes(questions, bootstrap, halves, refusals, 2),
        *_of_classes(questions, bootstrap, halves, types, len(QUESTION_TYPES)),
    ]


def _of_classes(
    questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap, halves: Codes, classes: Codes, number: int
) -> list[AuditFigure]:
    drawn, reason = drawn_questions(halves, classes, number)
    if bootstrap.drugs < LEAST_DRUGS:
        reason = f"the build has {bootstrap.drugs} drugs, and {LEAST_DRUGS} are needed"
    figures = []
    for mask in MASKS:
        for kind in FEATURES:
            if reason:
                measured: list[Estimate] = [Estimate(None)] * (3 if number == 2 else 1)
            else:
                features = _features([questions[at] for at in drawn], mask, kind)
                scores = cross_fitted_scores(features, halves[drawn], classes[drawn], number)
                measured = _measured(scores, halves[drawn], classes[drawn], drawn, bootstrap)
            figures += _named(measured, number, mask, kind, reason, bootstrap.drugs)
    return figures


def _features(questions: Sequence[AuditedQuestion], mask: str, kind: str) -> FeatureOccurrences:
    texts = [one.masked if mask == "drug" else one.bare for one in questions]
    return word_features(texts) if kind == "words" else character_features([" ".join(text) for text in texts])


def _measured(scores: Numbers, halves: Codes, classes: Codes, drawn: Codes, bootstrap: DrugBootstrap) -> list[Estimate]:
    number = scores.shape[1]
    cells = classes * number + scores.argmax(axis=1)
    confusions = np.eye(number * number)[cells]
    if number > 2:
        return [bootstrap.of_sums(confusions, drawn, macro_f1)]
    f1, accuracy = (bootstrap.of_sums(confusions, drawn, combine) for combine in (refusal_f1, _accuracy))
    ranks = scores[:, 1] - scores[:, 0]
    value = area_under_curve(ranks, classes, halves, np.ones((1, len(drawn))))
    drug_of, weights = bootstrap.drug_of[drawn], bootstrap.weights()
    step = max(1, _CELLS // len(drawn))
    samples = [
        area_under_curve(ranks, classes, halves, weights[at : at + step][:, drug_of])
        for at in range(0, len(weights), step)
    ]
    return [f1, accuracy, bootstrap.estimate(float(value[0]), np.concatenate(samples), drawn)]


def _named(
    measured: Sequence[Estimate], number: int, mask: str, kind: str, reason: str, drugs: int
) -> list[AuditFigure]:
    low, high = REFUSAL_AUC_BOUNDS if drugs >= BALANCED_DRUGS else (None, None)
    keys = {"masked": mask, "features": kind}
    by = f"by {FEATURES[kind]} ({MASKS[mask]})"
    if number > 2:
        name = f"Macro-F1 of the type ({_TYPE_NAMES}) {by}"
        return [AuditFigure.of("type_macro_f1", keys, measured[0], name=name, chance=1 / number, reason=reason)]
    return [
        AuditFigure.of(
            metric,
            keys,
            one,
            name=f"{name} {by}",
            chance=0.5,
            bound=high if metric == "refusal_auc" else None,
            low_bound=low if metric == "refusal_auc" else None,
            reason=reason,
        )
        for (metric, name), one in zip(_REFUSAL_METRICS.items(), measured, strict=True)
    ]


def f1_scores(confusions: Numbers) -> Numbers:
    """Return the F1 of each class, 0 for a class that is never predicted and never right.

    Args:
        confusions: counts by true class and predicted class in the last axis, row by row; other axes are samples.
    """
    number = round(confusions.shape[-1] ** 0.5)
    table = confusions.reshape(*confusions.shape[:-1], number, number)
    right = np.diagonal(table, axis1=-2, axis2=-1)
    either = table.sum(axis=-1) + table.sum(axis=-2)
    return _divided(2 * right, either, 0.0)


def refusal_f1(confusions: Numbers) -> Numbers:
    """Return the F1 of the second of two classes."""
    return np.asarray(f1_scores(confusions)[..., 1])


def macro_f1(confusions: Numbers) -> Numbers:
    """Return the mean of the F1 of all classes."""
    return np.asarray(f1_scores(confusions).mean(axis=-1))


def _accuracy(confusions: Numbers) -> Numbers:
    number = round(confusions.shape[-1] ** 0.5)
    right = confusions[..., :: number + 1].sum(axis=-1)
    total = confusions.sum(axis=-1)
    return _divided(right, total, np.nan)


def area_under_curve(scores: Numbers, classes: Codes, halves: Codes, weights: Numbers) -> Numbers:
    """Return the area under the ROC curve: the share of pairs of a refusal and another in which the refusal is higher.

    Pairs are of questions of the same half, because the other half is scored by another classifier. Equal scores count
    as half a pair. Source: Hanley and McNeil 1982.

    Args:
        scores: the score of each question.
        classes: 1 for refusals, 0 for others.
        halves: the half of each question.
        weights: how often each question counts in each sample, shape (samples, questions).

    Returns:
        A value for each sample, NaN for one without pairs.
    """
    higher = pairs = np.zeros(len(weights))
    for half in (0, 1):
        here = np.flatnonzero(halves == half)
        order = here[np.argsort(scores[here], kind="stable")]
        starts = np.flatnonzero(np.diff(scores[order], prepend=-np.inf))
        weighted = weights[:, order]
        positive, negative = (np.add.reduceat(weighted * (classes[order] == one), starts, axis=1) for one in (1, 0))
        below = np.cumsum(negative, axis=1) - negative
        higher = higher + (positive * (below + negative / 2)).sum(axis=1)
        pairs = pairs + positive.sum(axis=1) * negative.sum(axis=1)
    return _divided(higher, pairs, np.nan)


def _divided(one: Numbers, other: Numbers, otherwise: float) -> Numbers:
    """Return the quotients of numbers of the same shape, `otherwise` where the divisor is 0."""
    quotients: Numbers = np.divide(one, other, out=np.full(np.shape(one), otherwise), where=other > 0)
    return quotients
