"""The flow's tools in a job: an asker, and Ray actors that hold the index and the reranker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fdarx_core.pipeline.parted.pool import Pool
from fdarx_core.pipeline.parted.worker import Asks
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.rag.searching import encoded, hits
from fdarx_core.rag.tools import Ask, Role, Search
from fdarx_core.records import Found, Response
from fdarx_core.retrieval.dense import SentenceEncoder
from fdarx_core.retrieval.index import Index, Only
from fdarx_core.retrieval.registry import load_reranker

Timed = tuple[Any, float]
"""A result, and the seconds that making it took."""

Made = TypeVar("Made")


class IndexHolder:
    """A Ray actor that holds an index in memory, with its encoder."""

    def __init__(self, sweep: RagSweep) -> None:
        index = Index.open(sweep.place, version=sweep.version)
        encoder = None
        if any(name != "bm25" for name in sweep.retrievers):
            encoder = SentenceEncoder(
                sweep.directories.of("cosine"),
                instruction=index.manifest.encoder.instruction if index.manifest.encoder else None,
            )
            index.check_encoder(encoder.info)
        self._index, self._encoder = index, encoder

    def search(self, search: Search, only: Only, k: int, retriever: str) -> Timed:
        start = time.perf_counter()
        vectors = encoded(self._encoder, [search]) if self._encoder and retriever != "bm25" else None
        [found] = hits(self._index, [search], only, k, retriever, vectors)
        return found, time.perf_counter() - start


class RerankerHolder:
    """A Ray actor that holds a cross-encoder."""

    def __init__(self, sweep: RagSweep) -> None:
        self._reranker = load_reranker(sweep.directories)

    def score(self, pairs: Sequence[tuple[str, str]]) -> Timed:
        start = time.perf_counter()
        return self._reranker.score(pairs), time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Holders:
    """The actors that hold an index, a reranker, and the models of similarity."""

    index: Pool
    reranker: Pool
    similarity: Pool


class Once:
    """Work that several ways share is done once; who comes while it is under way waits for it."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, asyncio.Future[Any]] = {}

    async def each(self, keys: Sequence[Hashable], make: Callable[[list[Any]], Awaitable[list[Made]]]) -> list[Made]:
        """One result a key; `make` is given, once, those keys that nobody has asked for yet."""
        new = [key for key in dict.fromkeys(keys) if key not in self._begun]
        if new:
            work = asyncio.ensure_future(make(new))
            self._begun |= {key: asyncio.ensure_future(_nth(work, at)) for at, key in enumerate(new)}
        return [await self._begun[key] for key in keys]


async def _nth(work: asyncio.Future[list[Made]], at: int) -> Made:
    return (await work)[at]


class JobTools:
    """`Tools` for one way to one question. Times are what the work took by itself, not what it waited for others.

    What was found and scored is kept in `once`, which the ways to one question share: each finds the same.
    """

    def __init__(self, sweep: RagSweep, asker: Asks, holders: Holders, once: Once) -> None:
        self.search_s = self.rerank_s = 0.0
        self._sweep, self._asker, self._holders, self._once = sweep, asker, holders, once

    async def ask(self, role: Role, asks: Sequence[Ask]) -> list[Response]:
        address = self._sweep.address(role)
        return await self._asker.ask(
            [task.request(slots, endpoint=address.name, sampling=address.sampling) for task, slots in asks]
        )

    async def search(self, searches: Sequence[Search], only: Only, k: int) -> list[list[Found]]:
        timed = await asyncio.gather(*(self._search(one, only, k, self._sweep.retriever) for one in searches))
        self.search_s += sum(seconds for _, seconds in timed)
        return [[Found(one.chunk, one.score, number) for one in found] for number, (found, _) in enumerate(timed)]

    async def first(self, question: str, only: Only, k: int, retriever: str) -> list[Found]:
        """What a retriever finds for the question as it stands."""
        found, _ = await self._search(Search(question, k, True), only, k, retriever)
        return list(found)

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        async def score(keys: list[tuple[str, str]]) -> list[tuple[float, float]]:
            scores, seconds = await self._holders.reranker("score", keys)
            return [(one, seconds / len(keys)) for one in scores]

        scored = await self._once.each([(question, text) for text in texts], score)
        self.rerank_s += sum(seconds for _, seconds in scored)
        return [one for one, _ in scored]

    async def _search(self, search: Search, only: Only, k: int, retriever: str) -> Timed:
        async def find(keys: list[Any]) -> list[Timed]:
            return [await self._holders.index("search", search, only, k, retriever)]

        [timed] = await self._once.each([(search.text, search.is_question, only, k, retriever)], find)
        return timed
