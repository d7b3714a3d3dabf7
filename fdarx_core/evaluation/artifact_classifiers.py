"""Questions in words with masked names, and classifiers that tell refusals from them alone.

The drugs are divided into two halves by a hash. A classifier is trained on questions on the drugs of one half and
tested on those of the other, in both directions, so that it cannot learn the questions of a drug. In each half equally
many refusals and other questions are drawn by a hash of their ids. The classifier is multinomial naive Bayes with
additive smoothing over n-grams, which has no random state and no iterations. Sources: Gururangan et al. 2018,
"Annotation Artifacts in Natural Language Inference Data", who classify hypotheses without their premises; Manning,
Raghavan and Schütze 2008, §13.2.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fdarx_core.evaluation.metrics import Codes, Mask, Numbers, divide
from fdarx_core.labels.drugs import Words, words_of
from fdarx_core.records import QuestionAnswer, content_id
from fdarx_core.records.question_types import QUESTION_TYPES

LEAST_QUESTIONS = 40
"""Questions of a class from which on a figure is measured."""
MOST_DRAWN = 5000
"""Questions of a class that are drawn in one half of the drugs at most; more make the figures no more exact."""
_SMOOTHING = 1.0
DRUG = "thedrug"
LABELER = "thelabeler"
"""The words that replace the names of a label's drug, and the name of its labeler."""

Features: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], int]
"""Occurrences of features: the text of each, its feature, and the number of different features. Twenty thousand
questions have millions of occurrences."""


@dataclass(frozen=True, slots=True)
class AuditedLabel:
    """The names in one label.

    `drug` is that of `Label`, the same for all labels of a drug; `names` are all names of the drug, and `labeler` the
    name of the company, "" if it is not known.
    """

    set_id: str
    drug: str
    names: Sequence[str]
    labeler: str = ""


@dataclass(slots=True)
class AuditedQuestion:
    """A question in words, without case and signs.

    `words` are those of the question; in `masked` the names of the drug and labeler are replaced; in `bare` the
    entities of refusal questions are left out too. `answer` has the words of the gold answer, masked like the question.
    """

    id: str
    is_refusal: bool
    set_id: str
    drug: str
    words: Words
    masked: Words
    answer: Words
    bare: Words = ()


class Phrases:
    """Phrases to look for in texts, each with the words that replace it."""

    def __init__(self, phrases: Iterable[tuple[str, Words]]) -> None:
        self._by_first: dict[str, list[tuple[Words, Words]]] = defaultdict(list)
        for words, put in {words_of(phrase): put for phrase, put in phrases}.items():
            if words:
                self._by_first[words[0]].append((words, put))
        for found in self._by_first.values():
            found.sort(key=lambda one: (-len(one[0]), one))

    def replaced(self, text: Words) -> Words:
        """Return the words of a text with all phrases replaced, of overlapping phrases the first, of these the longest.

        Neighbouring replacements that are equal become one.
        """
        made: list[str] = []
        at = 0
        last: Words = ()
        while at < len(text):
            fits = (one for one in self._by_first.get(text[at], ()) if text[at : at + len(one[0])] == one[0])
            words, put = next(fits, (text[at : at + 1], None))
            if put is None:
                made.extend(words)
            elif put != last:
                made.extend(put)
            last = put or ()
            at += len(words)
        return tuple(made)


def audited_questions(questions: Iterable[QuestionAnswer], labels: Iterable[AuditedLabel]) -> list[AuditedQuestion]:
    """Return the questions in words, in the order of a hash of their ids, which does not depend on the given order.

    Names of the drug are replaced by one word. Entities are left out and not replaced, because only refusal questions
    have an entity, so that a word in its place would tell them. For the same reason the entities of all questions are
    left out of every question. Questions are read once and not kept.

    Args:
        questions: the questions of a build.
        labels: the names in their labels. Where a label is not given, the question's own `drug_name` is the drug.
    """
    named = {one.set_id: one for one in labels}
    masks: dict[str, Phrases] = {}
    entities: set[str] = set()
    made = []
    for row in questions:
        label = named.setdefault(row.set_id, AuditedLabel(row.set_id, "", [row.drug_name]))
        if row.set_id not in masks:
            masks[row.set_id] = Phrases([(label.labeler, (LABELER,)), *((name, (DRUG,)) for name in label.names)])
        # equal words of all texts are one object, because a build has many questions
        words, answer = (tuple(map(sys.intern, words_of(text))) for text in (row.question, row.answer))
        question = AuditedQuestion(
            row.id,
            not QUESTION_TYPES[row.type].answerable,
            sys.intern(row.set_id),
            sys.intern(label.drug or row.drug_name.strip().casefold()),
            words,
            masks[row.set_id].replaced(words),
            masks[row.set_id].replaced(answer),
        )
        made.append(question)
        entities.add(row.entity)
    made.sort(key=lambda one: (content_id("audit", one.id), one.set_id, one.words, one.answer))
    left_out = Phrases((entity, ()) for entity in entities)
    for one in made:
        one.bare = left_out.replaced(one.masked)
    return made


def drug_halves(drugs: Sequence[str]) -> Codes:
    """Return the half of each drug of a list, 0 or 1, by a hash. The halves differ by one drug at most."""
    order = sorted(set(drugs), key=lambda drug: content_id("half", drug))
    half_of = {drug: at % 2 for at, drug in enumerate(order)}
    return np.array([half_of[drug] for drug in drugs], np.int64)


def drawn_questions(ids: Sequence[str], halves: Codes, refusals: Mask) -> tuple[Codes, str]:
    """Draw equally many refusals and other questions in each half, by a hash of their ids.

    The first in order would be of the first labels, and of a class with few questions of all labels: a classifier would
    then tell the labels apart, for example by their dosage forms, and not the classes.

    Returns:
        The numbers of the drawn questions in order, and why they are too few, "" where they are enough.
    """
    picked: list[Codes] = []
    order = np.array(sorted(range(len(ids)), key=lambda at: content_id("draw", ids[at])), np.int64)
    least, needed = len(halves), LEAST_QUESTIONS // 2
    for half in (0, 1):
        groups = [order[(halves[order] == half) & (refusals[order] == one)] for one in (False, True)]
        size = min(MOST_DRAWN, *map(len, groups))
        least = min(least, size)
        picked += [group[:size] for group in groups]
    reason = f"a half of the drugs has {least} questions of a class, and {needed} are needed" if least < needed else ""
    return np.sort(np.concatenate(picked)), reason


def area_under_curve(scores: Numbers, refusals: Mask, halves: Codes, weights: Numbers) -> Numbers:
    """Return the area under the ROC curve: the share of pairs of a refusal and another in which the refusal is higher.

    Pairs are of questions of the same half, because the other half is scored by another classifier. Equal scores count
    as half a pair. Source: Hanley and McNeil 1982.

    Args:
        scores: the score of each question.
        refusals: which questions are refusals.
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
        positive, negative = (
            np.add.reduceat(weighted * (refusals[order] == one), starts, axis=1) for one in (True, False)
        )
        below = np.cumsum(negative, axis=1) - negative
        higher = higher + (positive * (below + negative / 2)).sum(axis=1)
        pairs = pairs + positive.sum(axis=1) * negative.sum(axis=1)
    return divide(higher, pairs)


def ngrams(texts: Sequence[Sequence[str]], lengths: Sequence[int]) -> Features:
    """Return the n-grams of texts: runs of words, where a text is a tuple of words, or of characters of a string."""
    numbers: dict[Sequence[str], int] = {}
    rows, columns = array("i"), array("i")
    for length in lengths:
        for row, text in enumerate(texts):
            grams = [text[at : at + length] for at in range(len(text) - length + 1)]
            columns.extend([numbers.setdefault(gram, len(numbers)) for gram in grams])
            rows.extend(repeat(row, len(grams)))
    return np.array(rows, np.int32), np.array(columns, np.int32), len(numbers)


def cross_fitted_scores(features: Features, halves: Codes, refusals: Mask) -> Numbers:
    """Return the log-odds of each text to be a refusal, by the model of the texts of the other half.

    Args:
        features: the features of the texts.
        halves: the half of each text, 0 or 1. Both halves must have texts of both classes.
        refusals: which texts are refusals.

    Returns:
        Natural logarithms, shape (texts,). Features that the training texts do not have are ignored.
    """
    rows, columns, size = features
    classes, scores = refusals.astype(np.int64), np.zeros((len(halves), 2))
    for half in (0, 1):
        trained, tested = halves != half, halves == half
        learned = trained[rows]
        cells = columns[learned] * 2 + classes[rows[learned]]
        counts = np.bincount(cells, minlength=size * 2).reshape(-1, 2).astype(np.float64)
        known = counts.sum(axis=1) > 0
        smoothed = counts + _SMOOTHING
        weights = np.log(smoothed) - np.log(smoothed[known].sum(axis=0))
        weights[~known] = 0.0
        priors = np.bincount(classes[trained], minlength=2) / np.count_nonzero(trained)
        sums = [np.bincount(rows, weights=weights[columns, at], minlength=len(classes)) for at in (0, 1)]
        scores[tested] = (np.column_stack(sums) + np.log(priors))[tested]
    return scores[:, 1] - scores[:, 0]
