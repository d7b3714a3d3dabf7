"""Whoever finds evidence, at work: a source at hand in Ray actors, or PubMed over the network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fdarx_core.factuality.evidence import open_evidence
from fdarx_core.factuality.evidence.pubmed import NAME, read_abstracts, search_request
from fdarx_core.factuality.evidence.pubmed.task import TASK
from fdarx_core.factuality.evidence.source import Query
from fdarx_core.pipeline.factuality.guarded import as_read
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.pipeline.parted.pool import Pool
from fdarx_core.pipeline.parted.worker import Asks
from fdarx_core.pipeline.planning import Planned, Tally
from fdarx_core.records import Evidence

_QUERIES_A_CALL = 256
_ABSTRACT = "Patients were followed for the outcome that the trial had set. " * 25
"""As long as abstracts are: about 250 words."""

Found = list[Evidence] | str
"""The best passages for a claim, best first; or why nothing could be searched."""


class Finder(Protocol):
    """Finds the best passages for each query, in order."""

    async def __call__(self, queries: Sequence[Query]) -> Sequence[Found]: ...


class EvidenceHolder:
    """A Ray actor that holds a source of evidence."""

    def __init__(self, checking: Checking) -> None:
        self._source, self._k = open_evidence(checking.evidence, checking.directories), checking.k

    def find(self, queries: Sequence[Query]) -> list[list[Evidence]]:
        return self._source.find(queries, self._k)


@dataclass(frozen=True, slots=True)
class AtHand:
    """Sources that actors hold."""

    evidence: Pool

    async def __call__(self, queries: Sequence[Query]) -> Sequence[Found]:
        pieces = [queries[at : at + _QUERIES_A_CALL] for at in range(0, len(queries), _QUERIES_A_CALL)]
        found = await asyncio.gather(*(self.evidence("find", piece) for piece in pieces))
        return [one for piece in found for one in piece]


@dataclass(frozen=True, slots=True)
class FromPubMed:
    """Searches as requests, each kept with its answer."""

    checking: Checking
    asker: Asks

    async def __call__(self, queries: Sequence[Query]) -> Sequence[Found]:
        requests = [search_request(query, self.checking.k, self.checking.years) for query in queries]
        return [as_read(read_abstracts, response) for response in await self.asker.ask(requests)]


@dataclass(frozen=True, slots=True)
class NotedPubMed:
    """In a plan: each search is noted, and stands for as many abstracts of the usual length as are wanted."""

    checking: Checking
    tally: Tally

    async def __call__(self, queries: Sequence[Query]) -> Sequence[Found]:
        requests = [search_request(query, self.checking.k, self.checking.years) for query in queries]
        self.tally.planned += [Planned(int(one.key[:16], 16), TASK, NAME, 0, 0, 0) for one in requests]
        typical = [Evidence(f"typical-{rank}", NAME, "", _ABSTRACT) for rank in range(self.checking.k)]
        return [typical for _ in requests]
