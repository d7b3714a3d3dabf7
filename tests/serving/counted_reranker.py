"""The reranker's deployment, with its model's calls counted; replicas import it by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.retrieval.encoders import BgeReranker
from serving.qa_rag import RerankerDeployment


class Counted(RerankerDeployment):
    """Tells the sizes of the model's calls."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._counting = _Counting(self._model)
        self._model: Any = self._counting

    async def calls(self) -> list[int]:
        return self._counting.calls


class _Counting:
    def __init__(self, model: BgeReranker) -> None:
        self._model = model
        self.calls: list[int] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.calls.append(len(pairs))
        return self._model.score(pairs)
