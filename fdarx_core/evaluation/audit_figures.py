"""The figures of an artifact audit, with their bounds, and shares of questions with intervals over drugs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from fdarx_core.evaluation.bootstrap import (
    cluster_weights,
    or_none,
    percentile_interval,
    sums_by_cluster,
)
from fdarx_core.evaluation.metrics import Codes, Mask, Numbers
from fdarx_core.records import Estimate, Figure

LEAST_DRUGS = 4
"""Drugs from which on a figure is measured."""
LEAST_QUESTIONS = 40
"""Questions of a class from which on a figure is measured."""
RESAMPLES = 1000


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

    `figures` are the figures; `openings` are the shares of the most frequent first words, by type of question.
    `failed` has a message for each bound that is exceeded.
    """

    figures: list[AuditFigure] = field(default_factory=list)
    openings: list[AuditFigure] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, object]:
        """Return the audit as JSON values, for run.json, the dataset card and the pages."""
        return {
            "failed": self.failed,
            "figures": [asdict(one) for one in self.figures],
            "openings": [asdict(one) for one in self.openings],
        }


class DrugBootstrap:
    """Values of figures over questions, with 95 % intervals by bootstrap over the drugs of the questions.

    Args:
        drugs: the drug of each question.
        resamples: number of samples of drugs.
    """

    def __init__(self, drugs: Sequence[str], resamples: int = RESAMPLES) -> None:
        self._names, codes = np.unique(np.array(drugs, dtype=object), return_inverse=True)
        self.drug_of: Codes = codes.astype(np.int64)
        self._resamples = resamples

    @property
    def drugs(self) -> int:
        return len(self._names)

    def weights(self) -> Numbers:
        """Return how often each drug is in each sample, shape (resamples, drugs)."""
        return cluster_weights(self.drugs, self._resamples, 0)

    def share(self, held: Mask, over: Mask) -> Estimate:
        """Return the share of the questions `over` for which `held` is true."""
        components = np.column_stack([held[over], np.ones(np.count_nonzero(over))]).astype(np.float64)
        return self.of_sums(components, np.flatnonzero(over), _ratio)

    def of_sums(self, components: Numbers, rows: Codes, combine: Callable[[Numbers], Numbers]) -> Estimate:
        """Return a figure that is a function of sums over questions.

        Args:
            components: what is summed, one row for each question.
            rows: the numbers of these questions.
            combine: the function of the sums, which are in the last axis.
        """
        sums = sums_by_cluster(components, self.drug_of[rows], self.drugs)
        samples = combine(self.weights() @ sums)
        return self.estimate(float(combine(sums.sum(axis=0))), samples, rows)

    def estimate(self, value: float, samples: Numbers, rows: Codes) -> Estimate:
        """Return a value with the interval of its samples, which rests on the questions `rows`."""
        clusters = len(np.unique(self.drug_of[rows]))
        low, high = percentile_interval(samples[:, None])
        bounds = (or_none(float(low[0])), or_none(float(high[0]))) if clusters > 1 else (None, None)
        return Estimate(or_none(value), *bounds, len(rows), clusters)


def _ratio(sums: Numbers) -> Numbers:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def too_few(questions: int, drugs: int, what: str = "questions") -> str:
    """Return why a figure over so many questions of so many drugs is not measured, "" if it is."""
    if drugs < LEAST_DRUGS:
        return f"the build has {drugs} drugs, and {LEAST_DRUGS} are needed"
    if questions < LEAST_QUESTIONS:
        return f"there are {questions} {what}, and {LEAST_QUESTIONS} are needed"
    return ""
