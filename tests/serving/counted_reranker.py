"""Deployments that replicas import: the reranker with a counter of its model's calls, and one without a model."""

from __future__ import annotations

from collections.abc import Sequence

from serving.qa_rag import RerankerDeployment


class Counted(RerankerDeployment):
    """Counts the pairs of each call of the model."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._counted: list[int] = []
        rerank = self._rerank

        def counting(pairs: Sequence[tuple[str, str]]) -> list[float]:
            self._counted.append(len(pairs))
            return rerank(pairs)

        self._rerank = counting

    async def calls(self) -> list[int]:
        return self._counted


class Constant:
    """Scores all texts alike, without a model."""

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        return [0.0 for _ in texts]
