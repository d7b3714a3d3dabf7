"""The artifact audit of a build: what its questions give away to someone who does not read the labels.

A benchmark measures reading only where the question alone tells neither whether to refuse nor what to answer. The audit
measures what can be told, by classifiers, by wordings and by answers, and compares it with bounds. Equal questions give
equal figures, in whatever order they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fdarx_core.evaluation.artifact_classifiers import classifier_figures
from fdarx_core.evaluation.artifact_reading import ReadingScores, reading_figures
from fdarx_core.evaluation.artifact_wordings import (
    answerability_figures,
    length_figures,
    one_sided_figures,
    opening_figures,
    recurrence_figures,
)
from fdarx_core.evaluation.audit_figures import RESAMPLES, ArtifactAudit, AuditFigure, DrugBootstrap
from fdarx_core.evaluation.audit_questions import AuditedLabel, audited_questions
from fdarx_core.records import QuestionAnswer


def audit_artifacts(
    questions: Iterable[QuestionAnswer],
    labels: Iterable[AuditedLabel] = (),
    *,
    scores: Mapping[str, ReadingScores] | None = None,
    resamples: int = RESAMPLES,
) -> ArtifactAudit:
    """Audit the questions of a build.

    A figure on too few drugs or questions is not measured; its `reason` says why, and the audit does not fail by it.

    Args:
        questions: factual, multi-hop and refusal questions.
        labels: the drug of each label and the names to mask. Without them, `drug_name` of a question is its drug.
        scores: what the labels have of the words of each question, by its id, see `reading_scores`. Without them, the
            readers of words are not measured.
        resamples: bootstrap samples of the 95 % intervals, which are over drugs.
    """
    rows = audited_questions(questions, labels)
    if not rows:
        return ArtifactAudit()
    bootstrap = DrugBootstrap([one.drug for one in rows], resamples)
    together, openings = opening_figures(rows, bootstrap)
    figures = [
        *classifier_figures(rows, bootstrap),
        *reading_figures(rows, scores or {}, bootstrap),
        *one_sided_figures(rows, bootstrap),
        *recurrence_figures(rows, bootstrap),
        *answerability_figures(rows, bootstrap),
        *length_figures(rows, bootstrap),
        *together,
    ]
    for one in figures:
        one.failed = fails(one)
    return ArtifactAudit(figures, openings, [_message(one) for one in figures if one.failed])


def fails(one: AuditFigure) -> bool:
    """Return whether a figure is above its bound, or below its low bound.

    Of few drugs any AUC is possible by chance: one out of its bounds fails only where its interval leaves out 0.5. The
    F1 of refusals has no bound: that of a classifier that calls every question a refusal is 0.67, and tells nothing.
    """
    if one.value is None or one.bound is None or (one.low_bound or 0) <= one.value <= one.bound:
        return False
    return one.low_bound is None or (one.low is not None and one.high is not None and not one.low <= 0.5 <= one.high)


def _message(one: AuditFigure) -> str:
    return f"{one.name}: {one.value:.2f}{_interval(one)} over {one.rows:,} questions; {_bounds(one)}"


def _bounds(one: AuditFigure) -> str:
    if one.low_bound is None:
        return f"the bound is {one.bound:.2f}"
    return f"the bounds are {one.low_bound:.2f} and {one.bound:.2f}"


def _interval(one: AuditFigure) -> str:
    return "" if one.low is None or one.high is None else f" (95 % interval {one.low:.2f} to {one.high:.2f})"
