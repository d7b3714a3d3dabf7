"""How near answers come to the reference, before tuning and after it: means, and paired differences with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fdarx_core.evaluation.bootstrap import percentile_interval, weight_blocks
from fdarx_core.evaluation.overlap import rouge_l
from fdarx_core.evaluation.similarity import SemanticScorer
from fdarx_core.retrieval.encoders import SentenceEncoder

BASE, TUNED = "base", "tuned"


@dataclass(slots=True)
class ScoredAnswer:
    """One model's answer to a question of the test part. `model` is `BASE` or `TUNED`; `loss` is the mean cross-entropy
    in nats of the reference's tokens. Similarities are None where no model to measure them was given.
    """

    id: str
    group: str
    model: str
    question: str
    reference: str
    answer: str
    loss: float
    rouge_l: float
    embedding_similarity: float | None = None
    bert_precision: float | None = None
    bert_recall: float | None = None
    bert_f1: float | None = None


MEASURES = {
    "loss": "Loss, nats a token",
    "rouge_l": "ROUGE-L",
    "embedding_similarity": "Embedding similarity",
    "bert_precision": "BERTScore precision",
    "bert_recall": "BERTScore recall",
    "bert_f1": "BERTScore F1",
}
"""By the names of `ScoredAnswer`'s fields; of the loss, less is better."""


@dataclass(slots=True)
class TuningFigure:
    """A measure's mean over the test part for both models, and the difference, tuned less base, with the 95 % interval
    by bootstrap over groups of alike pairs; the interval is None where there is one group.
    """

    measure: str
    base: float
    tuned: float
    difference: float
    low: float | None
    high: float | None
    pairs: int
    groups: int


def score_answers(
    rows: Sequence[ScoredAnswer], *, encoder: str | None, bertscore: str | None, layers: int | None
) -> list[ScoredAnswer]:
    """The rows, their similarities filled in by the models of these directories; blank answers have none but 0."""
    given, wanted = [one.answer for one in rows], [one.reference for one in rows]
    for one in rows:
        one.rouge_l = rouge_l(one.answer, one.reference)
    if encoder:
        model = SentenceEncoder(encoder)
        cosines = np.einsum("nd,nd->n", model.encode(given), model.encode(wanted))
        for one, cosine in zip(rows, cosines, strict=True):
            one.embedding_similarity = float(cosine) if one.answer.strip() else 0.0
    if bertscore:
        found = SemanticScorer(bertscore, layers=layers).measures(given, wanted)
        for one, (precision, recall, f1) in zip(rows, found, strict=True):
            one.bert_precision, one.bert_recall, one.bert_f1 = precision, recall, f1
    return list(rows)


def tuning_figures(rows: Sequence[ScoredAnswer], *, seed: int, resamples: int) -> list[TuningFigure]:
    """Of each measure that was taken. Raises ValueError unless both models answered each question once."""
    base = {one.id: one for one in rows if one.model == BASE}
    tuned = {one.id: one for one in rows if one.model == TUNED}
    if base.keys() != tuned.keys() or len(rows) != 2 * len(base):
        raise ValueError("the answers of the base model and the tuned one are not to the same questions, each once")
    taken = [name for name in MEASURES if rows and getattr(rows[0], name) is not None]
    return [_figure(name, [(base[one], tuned[one]) for one in sorted(base)], seed, resamples) for name in taken]


def _figure(name: str, pairs: Sequence[tuple[ScoredAnswer, ScoredAnswer]], seed: int, resamples: int) -> TuningFigure:
    values = np.array([[getattr(one, name), getattr(other, name)] for one, other in pairs], dtype=np.float64)
    names, group_of = np.unique([one.group for one, _ in pairs], return_inverse=True)
    sums = np.column_stack([np.bincount(group_of, weights=values[:, 1] - values[:, 0]), np.bincount(group_of)])
    drawn = np.concatenate([weights @ sums for weights in weight_blocks(len(names), resamples, seed)])
    lows, highs = percentile_interval(drawn[:, :1] / drawn[:, 1:])
    before, after = (float(one) for one in values.mean(axis=0))
    low, high = (float(lows[0]), float(highs[0])) if len(names) > 1 else (None, None)
    return TuningFigure(name, before, after, after - before, low, high, len(pairs), len(names))
