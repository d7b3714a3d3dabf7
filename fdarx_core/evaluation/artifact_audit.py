"""The artifact audit of a build: what its questions give away to someone who does not read the labels.

A benchmark measures reading only where the question alone tells neither whether to refuse nor what to answer. The audit
measures what can be told, by classifiers and by questions that recur, and compares it with bounds. Equal questions give
equal figures, in whatever order they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product

import numpy as np

from fdarx_core.evaluation.artifact_classifiers import (
    LEAST_QUESTIONS,
    AuditedLabel,
    AuditedQuestion,
    area_under_curve,
    audited_questions,
    cross_fitted_scores,
    drawn_questions,
    drug_halves,
    ngrams,
)
from fdarx_core.evaluation.bootstrap import estimate_weighted
from fdarx_core.evaluation.metrics import Codes, Numbers, divide
from fdarx_core.labels.drugs import Words
from fdarx_core.records import Estimate, Figure, QuestionAnswer

LEAST_DRUGS = 4
"""Drugs from which on a figure is measured."""
RESAMPLES = 1000
REFUSAL_AUC_BOUNDS = (0.40, 0.60)
"""The AUC of telling refusals from the question alone with which an audit passes; 0.38 is 0.62 if it is flipped."""
BALANCED_DRUGS = 20
"""The drugs from which these bounds hold: the questions of fewer drugs cannot be balanced by topic."""
RECURRING_BOUND = 0.05
"""The share of questions that recur on another label with another gold answer with which an audit passes.

Such a question has no answer of its own unless the label is named, and a search over all labels cannot be right.
"""

MASKS = {"drug": "drug names masked", "drug_entity": "drug names masked, entities left out"}
FEATURES = {"words": "words and word pairs", "characters": "n-grams of 3 to 5 characters"}
LENGTHS = {"words": (1, 2), "characters": (3, 4, 5)}
"""The numbers of words, or of characters, in a feature."""


@dataclass(slots=True)
class AuditFigure(Figure):
    """A figure of an audit.

    `name` says in words what it is; `rows` are questions, `clusters` drugs. `bound` is the highest value with which the
    audit passes, `low_bound` the lowest, `chance` the value of a guess; None where there is none. `reason` says why it
    is not measured, "" for a figure that is. `failed` says that the audit fails by it.
    """

    name: str = ""
    bound: float | None = None
    chance: float | None = None
    reason: str = ""
    failed: bool = False
    low_bound: float | None = None


@dataclass(slots=True)
class ArtifactAudit:
    """The result of an audit.

    `figures` are the figures; `failed` has a message for each bound that is exceeded.
    """

    figures: list[AuditFigure] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, object]:
        """Return the audit as JSON values, for run.json, the dataset card and the pages."""
        return {"failed": self.failed, "figures": [asdict(figure) for figure in self.figures]}


class DrugBootstrap:
    """Values of figures over questions, with 95 % intervals by bootstrap over the drugs of the questions.

    Args:
        drugs: the drug of each question.
        resamples: number of samples of drugs.
    """

    def __init__(self, drugs: Sequence[str], resamples: int) -> None:
        names, codes = np.unique(np.array(drugs, dtype=object), return_inverse=True)
        self.drugs = len(names)
        self._drug_of: Codes = codes.astype(np.int64)
        self._resamples = resamples

    def too_few(self, questions: int = LEAST_QUESTIONS, what: str = "questions") -> str:
        """Return why a figure over so many questions is not measured, "" if it is."""
        if self.drugs < LEAST_DRUGS:
            return f"the build has {self.drugs} drugs, and {LEAST_DRUGS} are needed"
        if questions < LEAST_QUESTIONS:
            return f"there are {questions} {what}, and {LEAST_QUESTIONS} are needed"
        return ""

    def estimate(self, statistic: Callable[[Numbers], Numbers], rows: Codes) -> Estimate:
        """Return a figure over some questions.

        Args:
            statistic: returns its value for each sample from the weights of the questions, shape (samples, questions).
            rows: the numbers of these questions.
        """
        return estimate_weighted(
            lambda weights: statistic(weights)[:, None],
            self._drug_of[rows],
            self.drugs,
            [np.ones(len(rows), dtype=np.bool_)],
            seed=0,
            resamples=self._resamples,
        )[0]


def audit_artifacts(
    questions: Iterable[QuestionAnswer],
    labels: Iterable[AuditedLabel] = (),
    *,
    resamples: int = RESAMPLES,
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
    bootstrap = DrugBootstrap([one.drug for one in rows], resamples)
    figures = [*classifier_figures(rows, bootstrap), *recurrence_figures(rows, bootstrap)]
    for figure in figures:
        figure.failed = fails(figure)
    return ArtifactAudit(figures, [_message(one) for one in figures if one.failed])


def fails(one: AuditFigure) -> bool:
    """Return whether a figure is above its bound, or below its low bound.

    Of few drugs any AUC is possible by chance: one out of its bounds fails only where its interval leaves out 0.5.
    """
    if one.value is None or one.bound is None or (one.low_bound or 0) <= one.value <= one.bound:
        return False
    return one.low_bound is None or (one.low is not None and one.high is not None and not one.low <= 0.5 <= one.high)


def _message(one: AuditFigure) -> str:
    between = "" if one.low is None or one.high is None else f" (95 % interval {one.low:.2f} to {one.high:.2f})"
    bounds = f"bound is {one.bound:.2f}"
    if one.low_bound is not None:
        bounds = f"bounds are {one.low_bound:.2f} and {one.bound:.2f}"
    return f"{one.name}: {one.value:.2f}{between} over {one.rows:,} questions; the {bounds}"


def classifier_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> Iterator[AuditFigure]:
    """Yield the AUC of classifiers of refusals."""
    all_halves = drug_halves([one.drug for one in questions])
    all_refusals = np.array([question.is_refusal for question in questions], np.bool_)
    drawn, reason = drawn_questions([one.id for one in questions], all_halves, all_refusals)
    reason = bootstrap.too_few() or reason
    halves, refusals = all_halves[drawn], all_refusals[drawn]
    low, high = REFUSAL_AUC_BOUNDS if bootstrap.drugs >= BALANCED_DRUGS else (None, None)
    for mask, features in product(MASKS, FEATURES):
        estimate = Estimate(None)
        if not reason:
            wordings = [questions[at].masked if mask == "drug" else questions[at].bare for at in drawn]
            texts = wordings if features == "words" else [" ".join(words) for words in wordings]
            scores = cross_fitted_scores(ngrams(texts, LENGTHS[features]), halves, refusals)
            estimate = bootstrap.estimate(partial(area_under_curve, scores, refusals, halves), drawn)
        name = f"AUC of telling refusals by {FEATURES[features]} ({MASKS[mask]})"
        keys = {"masked": mask, "features": features}
        yield AuditFigure.of(
            "refusal_auc", keys, estimate, name=name, chance=0.5, low_bound=low, bound=high, reason=reason
        )


def recurrence_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> Iterator[AuditFigure]:
    """Yield the shares of questions that another label has word for word: all, and with another gold answer.

    Case and signs do not count; the drug's name is a part of the question, and is masked in the answers alone.
    """
    answers: dict[Words, set[tuple[str, Words]]] = defaultdict(set)
    for question in questions:
        answers[question.words].add((question.set_id, question.answer))
    others = [[gold for set_id, gold in answers[one.words] if set_id != one.set_id] for one in questions]
    recurs = np.array(list(map(bool, others)), np.bool_)
    differs = np.array([any(map(one.answer.__ne__, golds)) for one, golds in zip(questions, others, strict=True)])
    parts = (
        ("recurring", "Questions that recur word for word on another label", recurs, None),
        (
            "recurring_other_gold",
            "Questions that recur on another label with another gold answer",
            differs,
            RECURRING_BOUND,
        ),
    )
    reason = bootstrap.too_few(len(questions))
    for metric, name, held, bound in parts:
        statistic = partial(_share, held.astype(np.float64))
        estimate = Estimate(None) if reason else bootstrap.estimate(statistic, np.arange(len(questions)))
        yield AuditFigure.of(metric, {}, estimate, name=name, bound=bound, reason=reason)


def _share(held: Numbers, weights: Numbers) -> Numbers:
    """Return the weighted share of the questions that hold, for each sample of weights."""
    return divide(weights @ held, weights.sum(axis=1))
