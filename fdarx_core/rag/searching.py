"""Searching one index for what a strategy wants to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fdarx_core.rag.tools import Search
from fdarx_core.records import Found
from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.dense import SentenceEncoder
from fdarx_core.retrieval.index import Index, Only


@dataclass(frozen=True, slots=True)
class Searcher:
    """An index with the encoder that its vectors came from; None where BM25 alone searches."""

    index: Index
    encoder: SentenceEncoder | None = None

    def search(self, searches: Sequence[Search], only: Only, k: int, retriever: str) -> list[list[Found]]:
        """The k best chunks for each search. Raises ValueError for a retriever that this index does not offer."""
        vectors = None if retriever == "bm25" else self.encoded(searches)
        texts = [search.text for search in searches]
        ranked = self.index.search(texts, k, retriever=retriever, vectors=vectors, only=only)
        chunks = iter(self.index.chunks([position for found in ranked for position, _ in found]))
        return [[Found(next(chunks), score, number) for _, score in found] for number, found in enumerate(ranked)]

    def encoded(self, searches: Sequence[Search]) -> Vectors | None:
        """Shape (searches, dimensions): questions with the encoder's instruction, other texts as what is searched."""
        if self.encoder is None:
            return None
        vectors = np.empty((len(searches), self.encoder.dimensions), np.float32)
        for is_question, encode in ((True, self.encoder.encode_questions), (False, self.encoder.encode)):
            rows = [number for number, search in enumerate(searches) if search.is_question == is_question]
            if rows:
                vectors[rows] = encode([searches[number].text for number in rows])
        return vectors
