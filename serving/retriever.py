"""Serve deployment: indexes in memory, replaced when a newer version lands, with no request lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdarx_core.rag.searching import hits
from fdarx_core.rag.tools import Search
from fdarx_core.records import Found
from fdarx_core.retrieval.index import Only
from serving.corpora import Corpora
from serving.http import Corpus, Surroundings
from serving.meters import IndexMeter
from serving.together import Together

_LOGGER = logging.getLogger("ray.serve")
_ENCODED_AT_ONCE = 64


@dataclass(slots=True)
class Hits:
    """What was found, and in which version of the index."""

    version: str
    found: list[list[Found]]


@dataclass(slots=True)
class State:
    """A corpus as a replica serves it, with what there is to say about it."""

    corpus: Corpus
    notice: str
    refused: str


class Retriever:
    """Searches. A request keeps the version that it began with, and says which it was."""

    def __init__(self, places: Mapping[str, str], cosine_model: str | None, poll_s: float) -> None:
        """`places` are indexes by the name of their corpus, looked at every `poll_s` seconds for a newer version."""
        self._corpora = Corpora(places, cosine_model)
        if any(len(held.corpus.retrievers) > 1 for held in self._corpora.all()):
            self._corpora.encoded([Search("", 1, is_question=True)])  # loads the model before anyone waits for it
        self._encode = Together(self._encoded, _ENCODED_AT_ONCE)
        self._meter = IndexMeter()
        for held in self._corpora.all():
            self._meter.serves(held)
        self._watching = asyncio.get_running_loop().create_task(self._watch(poll_s))

    async def search(self, corpus: str, searches: Sequence[Search], only: Only, k: int, retriever: str) -> Hits:
        """The k best chunks for each search. Raises ValueError for a retriever that the corpus does not offer."""
        held = self._corpora[corpus]
        if retriever == "bm25":  # a millisecond or two: a thread would cost as much again
            return Hits(held.index.version, hits(held.index, searches, only, k, retriever, None))
        vectors = np.stack(await asyncio.gather(*(self._encode(search) for search in searches)))
        found = await asyncio.to_thread(hits, held.index, searches, only, k, retriever, vectors)
        return Hits(held.index.version, found)

    async def states(self) -> list[State]:
        return [State(held.corpus, held.notice, held.refused) for held in self._corpora.all()]

    async def matches(self, corpus: str, only: Only) -> bool:
        return bool(self._corpora[corpus].index.matching(only).any())

    async def names(self, corpus: str, prefix: str, limit: int) -> list[str]:
        return self._corpora[corpus].index.names(prefix, limit)

    async def passage(self, corpus: str, chunk_id: str) -> Surroundings | None:
        index = self._corpora[corpus].index
        position = index.find(chunk_id)
        return None if position is None else Surroundings(index.chunk(position), index.around(position))

    def _encoded(self, searches: Sequence[Search]) -> list[npt.NDArray[np.float32]]:
        return list(self._corpora.encoded(searches))

    async def _watch(self, poll_s: float) -> None:
        while True:
            await asyncio.sleep(poll_s)
            for held in await asyncio.to_thread(self._corpora.reload):
                self._meter.reloaded(held)
                _LOGGER.log(logging.ERROR if held.refused else logging.INFO, held.news)
