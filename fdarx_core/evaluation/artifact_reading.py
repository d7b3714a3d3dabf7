"""How well readers that only look for the question's words in the label tell refusal questions.

They read no meaning: one refuses unless a passage has all content words of the question, the other unless BM25 finds a
passage with a high score. A benchmark whose refusal questions they tell measures whether words occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fdarx_core.baseline.stems import terms
from fdarx_core.evaluation.artifact_classifiers import area_under_curve
from fdarx_core.evaluation.audit_figures import AuditFigure, DrugBootstrap, too_few
from fdarx_core.evaluation.audit_questions import AuditedQuestion
from fdarx_core.records import Estimate, QuestionAnswer
from fdarx_core.retrieval.lexical import Bm25Index, InvertedIndex

READING_AUC_BOUNDS = (0.20, 0.80)
"""The AUC of telling refusals by words of the label with which an audit passes. An AUC below 0.5 tells as much as one
above it."""
_READERS = {
    "coverage": "the share of the question's words that one passage of the label has",
    "bm25": "the highest BM25 score of a passage of the label",
}


@dataclass(frozen=True, slots=True)
class ReadingScores:
    """What the label has of a question's words: the largest share in one passage, and the highest BM25 score."""

    coverage: float
    bm25: float


def reading_scores(questions: Sequence[QuestionAnswer], passages: Iterable[str]) -> dict[str, ReadingScores]:
    """Return the scores of questions on one label by their ids.

    Args:
        questions: questions on the label.
        passages: the texts of its passages.
    """
    texts = list(passages)
    if not texts or not questions:
        return {}
    held = [terms(text) for text in texts]
    asked = [terms(one.question) for one in questions]
    best = Bm25Index(InvertedIndex(texts)).scores([one.question for one in questions]).max(axis=1)
    return {
        one.id: ReadingScores(max(len(words & here) for here in held) / (len(words) or 1), float(score))
        for one, words, score in zip(questions, asked, best, strict=True)
    }


def reading_figures(
    questions: Sequence[AuditedQuestion], scores: Mapping[str, ReadingScores], bootstrap: DrugBootstrap
) -> list[AuditFigure]:
    """Return the AUC of telling refusals by each score, the lower the score, the likelier a refusal.

    Args:
        questions: the audited questions.
        scores: the scores by the ids of the questions; without them the figures are not measured.
        bootstrap: the bootstrap over the drugs of all questions.
    """
    rows = np.array([at for at, one in enumerate(questions) if one.id in scores], np.int64)
    classes = np.array([questions[at].is_refusal for at in rows], np.int64)
    fewest = int(min(classes.sum(), len(rows) - classes.sum())) if len(rows) else 0
    reason = too_few(fewest, bootstrap.drugs, "questions of a type whose labels are at hand")
    figures = []
    for name, what in _READERS.items():
        estimate = Estimate(None)
        if not reason:
            ranks = np.array([-getattr(scores[questions[at].id], name) for at in rows])
            halves = np.zeros(len(rows), np.int64)
            value = area_under_curve(ranks, classes, halves, np.ones((1, len(rows))))
            drug_of = bootstrap.drug_of[rows]
            samples = [area_under_curve(ranks, classes, halves, one[None, drug_of]) for one in bootstrap.weights()]
            estimate = bootstrap.estimate(float(value[0]), np.concatenate(samples), rows)
        figures.append(
            AuditFigure.of(
                "reading_auc",
                {"reader": name},
                estimate,
                name=f"AUC of telling refusals by {what}",
                chance=0.5,
                low_bound=READING_AUC_BOUNDS[0],
                bound=READING_AUC_BOUNDS[1],
                reason=reason,
            )
        )
    return figures
