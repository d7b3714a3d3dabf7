"""Serve deployment: a cross-encoder that scores the candidates of several requests in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from fdarx_core.retrieval.rerank import BgeReranker
from serving.meters import BatchMeter
from serving.together import Together

PAIRS_AT_ONCE = 384
"""Pairs of one call: those of 16 requests with 24 candidates. Within it, FlagEmbedding sorts them by length and takes
32 at a time: of the tokens it then computes 11 % are padding, where in the order of arrival 58 % would be (measured on
questions and passages of real labels)."""

Asked: TypeAlias = tuple[str, Sequence[str]]
"""A question and the texts to score for it."""


class Reranker:
    """Scores texts for questions."""

    def __init__(self, directory: str) -> None:
        self._model = BgeReranker(directory)
        self._meter = BatchMeter()
        self._together = Together(self._scored, PAIRS_AT_ONCE, lambda asked: len(asked[1]))

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score a text; higher is better."""
        return await self._together((question, texts)) if texts else []

    def _scored(self, asked: Sequence[Asked]) -> list[list[float]]:
        pairs = [(question, text) for question, texts in asked for text in texts]
        self._meter.batch(len(asked), len(pairs))
        scores = iter(self._model.score(pairs))
        return [[next(scores) for _ in texts] for _, texts in asked]
