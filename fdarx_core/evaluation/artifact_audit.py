"""The artifact audit of a build: whether its questions can be answered without reading the labels.

The audit measures two artifacts and compares them with bounds: how well a classifier tells refusals from other
questions by their wording, and how many questions recur on other labels. The order of the questions has no effect.

The drugs are divided into two halves by a hash. A classifier that is trained on the questions on one half scores those
on the other, so that it cannot learn the questions of a drug. In each half equally many refusals and other questions
are drawn by a hash of their ids. The classifier is multinomial naive Bayes with additive smoothing over n-grams.
Sources: Gururangan et al. 2018, "Annotation Artifacts in Natural Language Inference Data"; Manning, Raghavan and
Schütze 2008, §13.2.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product, repeat
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fdarx_core.evaluation.bootstrap import estimate_weighted
from fdarx_core.evaluation.metrics import Codes, Mask, Numbers, divide
from fdarx_core.labels.drugs import Words, words_of
from fdarx_core.records import Estimate, Figure, QuestionAnswer, content_id
from fdarx_core.records.question_types import QUESTION_TYPES

MIN_DRUGS, MIN_QUESTIONS = 4, 40
"""The fewest drugs, and questions of a class, on which a figure is measured."""
MAX_DRAWN = 5000
"""The most questions of a class that are drawn in one half of the drugs; more do not make the figures more exact."""
RESAMPLES = 1000
REFUSAL_AUC_BOUNDS = (0.40, 0.60)
"""The AUC of the classifiers with which an audit passes. There is a lower bound, since an AUC of 0.38 gives away as
much as one of 0.62."""
BALANCED_DRUGS = 20
"""The fewest drugs for which these bounds apply: the questions on fewer drugs cannot be balanced by topic."""
RECURRING_BOUND = 0.05
"""The largest share of questions that recur on another label with another gold answer with which an audit passes. A
search over all labels cannot answer such a question, because it does not say which label is meant."""

MASKS = {"drug": "drug names masked", "drug_entity": "drug names masked, entities left out"}
FEATURES = {"words": "words and word pairs", "characters": "n-grams of 3 to 5 characters"}
LENGTHS = {"words": (1, 2), "characters": (3, 4, 5)}
"""The numbers of words, or of characters, in a feature."""
DRUG = "thedrug"
LABELER = "thelabeler"
"""The words that replace the names of a label's drug, and the name of its labeler."""

Features: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], int]
"""Occurrences of features: the index of the text of each, the index of its feature, and the number of features."""
Bootstrap: TypeAlias = Callable[[Callable[[Numbers], Numbers], Codes], Estimate]
"""Returns a figure over some questions with its interval. It takes a function that returns the value for each sample
from the weights of the questions, shape (samples, questions), and the numbers of the questions."""


@dataclass(slots=True)
class AuditFigure(Figure):
    """A figure of an audit.

    `name` is its title; `rows` are questions, `clusters` drugs. `bound` is the highest value with which the audit
    passes, `low_bound` the lowest, `chance` the value of a guess; None where there is none. `reason` says why it is not
    measured, "" for a measured figure. `failed` is true if the value makes the audit fail.
    """

    name: str = ""
    bound: float | None = None
    chance: float | None = None
    reason: str = ""
    failed: bool = False
    low_bound: float | None = None


@dataclass(slots=True)
class ArtifactAudit:
    """The result of an audit; `failed` has a message for each figure that makes it fail."""

    figures: list[AuditFigure] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, object]:
        """Return the audit as JSON values, for run.json, the dataset card and the pages."""
        return {"failed": self.failed, "figures": [asdict(figure) for figure in self.figures]}


@dataclass(frozen=True, slots=True)
class AuditedLabel:
    """The names in one label: `drug` is `Label.drug`, `names` are all names of the drug, `labeler` is "" if unknown."""

    set_id: str
    drug: str
    names: Sequence[str]
    labeler: str = ""


@dataclass(slots=True)
class AuditedQuestion:
    """A question as words, without case and punctuation.

    `words` are those of the question. In `masked` the names of the drug and labeler are replaced; `without_entities`
    also lacks the entities of refusal questions. `answer` has the words of the gold answer, masked in the same way.
    """

    id: str
    is_refusal: bool
    set_id: str
    drug: str
    words: Words
    masked: Words
    answer: Words
    without_entities: Words = ()


def audit_artifacts(
    questions: Iterable[QuestionAnswer], labels: Iterable[AuditedLabel] = (), *, resamples: int = RESAMPLES
) -> ArtifactAudit:
    """Audit the questions of a build.

    A figure on too few drugs or questions is not measured; its `reason` says why, and the audit does not fail by it.

    Args:
        questions: factual, multi-hop and refusal questions.
        labels: the drug of each label and the names to mask. Without them, `drug_name` of a question is its drug.
        resamples: bootstrap samples of the 95 % intervals, which are over drugs.
    """
    rows = audited_questions(questions, labels)
    if not rows:
        return ArtifactAudit()
    names, codes = np.unique(np.array([question.drug for question in rows], dtype=object), return_inverse=True)
    drug_of, drugs = codes.astype(np.int64), len(names)

    def bootstrap(statistic: Callable[[Numbers], Numbers], chosen: Codes) -> Estimate:
        every = [np.ones(len(chosen), dtype=np.bool_)]
        return estimate_weighted(
            lambda weights: statistic(weights)[:, None], drug_of[chosen], drugs, every, seed=0, resamples=resamples
        )[0]

    few = f"the build has {drugs} drugs, and {MIN_DRUGS} are needed" if drugs < MIN_DRUGS else ""
    figures = [*classifier_figures(rows, bootstrap, drugs, few), *recurrence_figures(rows, bootstrap, few)]
    for figure in figures:
        figure.failed = fails(figure)
    return ArtifactAudit(figures, [_message(figure) for figure in figures if figure.failed])


def fails(figure: AuditFigure) -> bool:
    """Return whether a figure is above its bound, or below its low bound.

    With few drugs any AUC is possible by chance, so the interval of an AUC that fails must also exclude 0.5.
    """
    if figure.value is None or figure.bound is None or (figure.low_bound or 0) <= figure.value <= figure.bound:
        return False
    low, high = figure.low, figure.high
    return figure.low_bound is None or (low is not None and high is not None and not low <= 0.5 <= high)


def _message(figure: AuditFigure) -> str:
    low, high = figure.low, figure.high
    between = "" if low is None or high is None else f" (95 % interval [{low:.2f}, {high:.2f}])"
    lower = "" if figure.low_bound is None else f"{figure.low_bound:.2f} and "
    bounds = f"{'bounds are' if lower else 'bound is'} {lower}{figure.bound:.2f}"
    return f"{figure.name}: {figure.value:.2f}{between} over {figure.rows:,} questions; the {bounds}"


def classifier_figures(
    questions: Sequence[AuditedQuestion], bootstrap: Bootstrap, drugs: int, few: str
) -> Iterator[AuditFigure]:
    """Yield the AUC of classifiers of refusals. `few` says why nothing is measured on too few drugs, "" for enough."""
    all_halves = drug_halves([question.drug for question in questions])
    all_refusals = np.array([question.is_refusal for question in questions], np.bool_)
    drawn, reason = drawn_questions([question.id for question in questions], all_halves, all_refusals)
    reason = few or reason
    halves, refusals = all_halves[drawn], all_refusals[drawn]
    low, high = REFUSAL_AUC_BOUNDS if drugs >= BALANCED_DRUGS else (None, None)
    for mask, features in product(MASKS, FEATURES):
        estimate = Estimate(None)
        if not reason:
            wordings = [questions[at].masked if mask == "drug" else questions[at].without_entities for at in drawn]
            texts = wordings if features == "words" else [" ".join(words) for words in wordings]
            scores = cross_fitted_scores(ngrams(texts, LENGTHS[features]), halves, refusals)
            estimate = bootstrap(partial(area_under_curve, scores, refusals, halves), drawn)
        name = f"AUC of telling refusals by {FEATURES[features]} ({MASKS[mask]})"
        keys = {"masked": mask, "features": features}
        yield AuditFigure.of(
            "refusal_auc", keys, estimate, name=name, chance=0.5, low_bound=low, bound=high, reason=reason
        )


def recurrence_figures(questions: Sequence[AuditedQuestion], bootstrap: Bootstrap, few: str) -> Iterator[AuditFigure]:
    """Yield the shares of questions that another label has word for word: all, and those with another gold answer.

    Case and punctuation are ignored. The name of the drug is masked only in answers.
    """
    answers: dict[Words, set[tuple[str, Words]]] = defaultdict(set)
    for question in questions:
        answers[question.words].add((question.set_id, question.answer))
    others = [[gold for set_id, gold in answers[question.words] if set_id != question.set_id] for question in questions]
    recurs = np.array([bool(golds) for golds in others], np.bool_)
    differs = np.array([any(map(row.answer.__ne__, golds)) for row, golds in zip(questions, others, strict=True)])
    other_gold = "Questions that recur on another label with another gold answer"
    parts = (
        ("recurring", "Questions that recur word for word on another label", recurs, None),
        ("recurring_other_gold", other_gold, differs, RECURRING_BOUND),
    )
    too_few = f"there are {len(questions)} questions, and {MIN_QUESTIONS} are needed"
    reason = few or (too_few if len(questions) < MIN_QUESTIONS else "")
    for metric, name, holds, bound in parts:
        estimate = Estimate(None) if reason else bootstrap(partial(_share, holds), np.arange(len(questions)))
        yield AuditFigure.of(metric, {}, estimate, name=name, bound=bound, reason=reason)


def _share(holds: Mask, weights: Numbers) -> Numbers:
    """Return the weighted share of the questions for which `holds` is true, for each sample of weights."""
    return divide(weights @ holds.astype(np.float64), weights.sum(axis=1))


class Phrases:
    """Phrases and the words that replace each of them in texts."""

    def __init__(self, phrases: Iterable[tuple[str, Words]]) -> None:
        self._by_first: dict[str, list[tuple[Words, Words]]] = defaultdict(list)
        for words, replacement in {words_of(phrase): replacement for phrase, replacement in phrases}.items():
            if words:
                self._by_first[words[0]].append((words, replacement))
        for found in self._by_first.values():
            found.sort(key=lambda phrase: (-len(phrase[0]), phrase))

    def replaced(self, text: Words) -> Words:
        """Return the words of a text with its phrases replaced: of overlapping ones the first, of these the longest.

        Equal replacements next to each other become one.
        """
        made: list[str] = []
        at = 0
        last: Words = ()
        while at < len(text):
            known = self._by_first.get(text[at], ())
            fits = (phrase for phrase in known if text[at : at + len(phrase[0])] == phrase[0])
            words, replacement = next(fits, (text[at : at + 1], None))
            if replacement is None:
                made.extend(words)
            elif replacement != last:
                made.extend(replacement)
            last = replacement or ()
            at += len(words)
        return tuple(made)


def audited_questions(questions: Iterable[QuestionAnswer], labels: Iterable[AuditedLabel]) -> list[AuditedQuestion]:
    """Return the questions as words, in the order of a hash of their ids, which does not depend on the given order.

    Names of the drug are replaced by one word. The entities of all refusal questions are left out of every question: a
    word in their place would identify refusals, since no other questions have entities. Questions are read once.

    Args:
        questions: the questions of a build.
        labels: the names in their labels. Where a label is not given, the question's own `drug_name` is the drug.
    """
    named = {label.set_id: label for label in labels}
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
    made.sort(key=lambda row: (content_id("audit", row.id), row.set_id, row.words, row.answer))
    left_out = Phrases((entity, ()) for entity in entities)
    for question in made:
        question.without_entities = left_out.replaced(question.masked)
    return made


def drug_halves(drugs: Sequence[str]) -> Codes:
    """Return the half of each drug of a list, 0 or 1, by a hash. The halves differ by one drug at most."""
    half_of = {drug: at % 2 for at, drug in enumerate(sorted(set(drugs), key=partial(content_id, "half")))}
    return np.array([half_of[drug] for drug in drugs], np.int64)


def drawn_questions(ids: Sequence[str], halves: Codes, refusals: Mask) -> tuple[Codes, str]:
    """Draw equally many refusals and other questions in each half, by a hash of their ids.

    A hash draws from all labels. If the first questions were taken, the larger class would come from fewer labels, and
    a classifier could tell the labels apart, for example by dosage forms, instead of the classes.

    Returns:
        The numbers of the drawn questions in order, and why they are too few, "" if they are enough.
    """
    picked: list[Codes] = []
    order = np.array(sorted(range(len(ids)), key=lambda at: content_id("draw", ids[at])), np.int64)
    least, needed = len(halves), MIN_QUESTIONS // 2
    for half in (0, 1):
        groups = [order[(halves[order] == half) & (refusals[order] == is_refusal)] for is_refusal in (False, True)]
        size = min(MAX_DRAWN, *map(len, groups))
        least = min(least, size)
        picked += [group[:size] for group in groups]
    reason = f"a half of the drugs has {least} questions of a class, and {needed} are needed" if least < needed else ""
    return np.sort(np.concatenate(picked)), reason


def area_under_curve(scores: Numbers, refusals: Mask, halves: Codes, weights: Numbers) -> Numbers:
    """Return the area under the ROC curve for each sample: the share of pairs in which the refusal is higher.

    A pair is a refusal and another question of the same half, because the other half is scored by another classifier.
    Equal scores count as half a pair; a sample without pairs has NaN. Source: Hanley and McNeil 1982.

    Args:
        scores: the score of each question.
        refusals: which questions are refusals.
        halves: the half of each question.
        weights: how often each question counts in each sample, shape (samples, questions).
    """
    higher = pairs = np.zeros(len(weights))
    for half in (0, 1):
        here = np.flatnonzero(halves == half)
        order = here[np.argsort(scores[here], kind="stable")]
        starts = np.flatnonzero(np.diff(scores[order], prepend=-np.inf))
        weighted = weights[:, order]
        of_class = (weighted * refusals[order], weighted * ~refusals[order])
        positive, negative = (np.add.reduceat(counts, starts, axis=1) for counts in of_class)
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
        smoothed = counts + 1.0  # Laplace
        weights = np.log(smoothed) - np.log(smoothed[known].sum(axis=0))
        weights[~known] = 0.0
        priors = np.bincount(classes[trained], minlength=2) / np.count_nonzero(trained)
        sums = [np.bincount(rows, weights=weights[columns, at], minlength=len(classes)) for at in (0, 1)]
        scores[tested] = (np.column_stack(sums) + np.log(priors))[tested]
    return scores[:, 1] - scores[:, 0]
