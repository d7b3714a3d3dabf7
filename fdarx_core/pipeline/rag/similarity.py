"""How near an answer is to its reference, by local models that a Ray actor holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fdarx_core.evaluation.metrics.semantic import SemanticScorer
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.records import RagAnswer, RagQuestion, RagScore
from fdarx_core.retrieval.dense import SentenceEncoder

Judged = tuple[RagAnswer, RagScore]


class SimilarityHolder:
    """A Ray actor that holds the models: for BERTScore where one was given, and the encoder where there is one."""

    def __init__(self, sweep: RagSweep) -> None:
        self._scorer = SemanticScorer(sweep.bertscore, layers=sweep.bertscore_layers) if sweep.bertscore else None
        self._encoder = SentenceEncoder(sweep.encoder) if sweep.encoder else None

    def measure(self, rows: Sequence[Judged], questions: Sequence[RagQuestion]) -> list[Judged]:
        """The rows with their similarities: that to the first reference. What failed has none."""
        references = {one.id: one.references[0] for one in questions if one.references}
        told = [at for at, (row, _) in enumerate(rows) if row.outcome != "failed" and row.question_id in references]
        answers = [rows[at][0].answer for at in told]
        wanted = [references[rows[at][0].question_id] for at in told]
        measured = list(rows)
        for at, score in zip(told, self._scored([rows[at][1] for at in told], answers, wanted), strict=True):
            measured[at] = (rows[at][0], score)
        return measured

    def _scored(self, scores: list[RagScore], answers: list[str], references: list[str]) -> list[RagScore]:
        if self._scorer and scores:
            measures = self._scorer.measures(answers, references)
            scores = [
                replace(score, bert_precision=precision, bert_recall=recall, bert_f1=f1)
                for score, (precision, recall, f1) in zip(scores, measures, strict=True)
            ]
        if self._encoder and scores:
            cosines = np.einsum("nd,nd->n", self._encoder.encode(answers), self._encoder.encode(references))
            scores = [
                replace(score, embedding_similarity=float(cosine))
                for score, cosine in zip(scores, cosines, strict=True)
            ]
        return scores
