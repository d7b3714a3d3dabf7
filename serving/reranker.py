"""Serve deployment: a cross-encoder that scores the candidates of several requests in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from ray import serve

from fdarx_core.retrieval.rerank import BgeReranker
from serving.meters import BatchMeter

PAIRS_AT_ONCE = 384
"""Pairs of one call: those of 16 requests with 24 candidates. Within it, the model takes them in batches of its own."""

Asked: TypeAlias = tuple[str, Sequence[str]]
"""A question and the texts to score for it."""


class Reranker:
    """Scores texts for questions; while the model works, the requests that come meanwhile gather for its next call."""

    def __init__(self, directory: str) -> None:
        self._model = BgeReranker(directory)
        self._meter = BatchMeter()

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score a text; higher is better."""
        scores: list[float] = await self._scored((question, texts))
        return scores

    @serve.batch(
        max_batch_size=PAIRS_AT_ONCE,
        batch_wait_timeout_s=0,
        max_concurrent_batches=1,
        batch_size_fn=lambda asked: min(PAIRS_AT_ONCE, sum(len(texts) for _, texts in asked)),
    )
    async def _scored(self, asked: list[Asked]) -> list[list[float]]:
        pairs = [(question, text) for question, texts in asked for text in texts]
        self._meter.batch(len(asked), len(pairs))
        scores = iter(await asyncio.to_thread(self._model.score, pairs))
        return [[next(scores) for _ in texts] for _, texts in asked]
