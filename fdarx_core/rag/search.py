"""Searching an index for the queries of a strategy, and pooling what they find into one list of candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from fdarx_core.llm import Task
from fdarx_core.records import Response, SearchHit
from fdarx_core.retrieval.encoders import SentenceEncoder, Vectors, fingerprint
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.lexical import RankedList
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.retrieval.retrievers import Retriever

Role = Literal["hypothesis", "rewriter", "scorer", "answerer", "judge"]
"""The roles of models: hypothetical answers (at best by a model tuned on the domain), other wordings of the question, a
score for each chunk, the answer, a verdict on the answer.
"""

TaskCall: TypeAlias = tuple[Task[Any], Mapping[str, Any]]
"""A task and its slots."""

_COMPARED_WORDS = 16


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A text to search with.

    Attributes:
        text: the text.
        share: how many of the candidates it contributes.
        is_question: whether it is encoded as a question, with the encoder's instruction, or as a passage.
    """

    text: str
    share: int
    is_question: bool


class RagBackend(Protocol):
    """The models and the index behind question answering: deployments in the service, actors in a job."""

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        """Return the responses of the model that plays the role, in order."""

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        """Return the k best chunks for each query, best first."""

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question; higher is better."""


def available_retrievers(index: IndexReader, directories: ModelDirectories) -> tuple[tuple[str, ...], str]:
    """Return the retrievers that can search the index on this machine, and why some are missing, else "".

    Loads no model. Raises ModelMissing where the given embedding model cannot be used, StorageError where it is not
    the index's.
    """
    info = index.manifest.encoder
    lexical = tuple(name for name in index.retrievers if not index.needs_vectors(name))
    if info is None or index.notice:
        return lexical, index.notice
    try:
        check_installed("cosine")
        directory = directories.of("cosine")
    except ModelMissing as error:
        if directories.cosine is not None:
            raise
        return lexical, f"only retrievers by words search: {error}"
    # the fingerprint is compared without loading the model, which takes seconds
    index.check_encoder(replace(info, name=Path(directory).name, fingerprint=fingerprint(directory)))
    return index.retrievers, ""


def search_index(
    index: IndexReader,
    queries: Sequence[SearchQuery],
    filter: ChunkFilter,
    k: int,
    retriever: str | Retriever,
    vectors: Vectors | None,
) -> list[list[SearchHit]]:
    """Return the k best chunks for each query.

    A query that names drugs of the index's labels returns only their chunks, and those of each drug in turn, unless the
    filter says otherwise: of 300 questions to a label, each among 699, BM25 put a passage of another drug's label first
    in 28 % without this rule. Retrievers by words search with the correct names of drugs.

    Args:
        index: the index to search.
        queries: what to search for.
        filter: which chunks may be returned.
        k: how many chunks to return for each query.
        retriever: a retriever, or its name.
        vectors: what `encode_queries` gives, row by row; None for retrievers that need no vectors.

    Raises ValueError for a retriever that cannot search this index.
    """
    rankings: list[RankedList] = []
    for at, query in enumerate(queries):
        vector = None if vectors is None else vectors[at : at + 1]
        found = [
            index.search([index.corrected(query.text)], k, retriever=retriever, vectors=vector, filter=own)[0]
            for own in _filters_by_drug(index, query, filter)
        ]
        turns = dict.fromkeys(hit for turn in zip_longest(*found) for hit in turn if hit is not None)
        rankings.append(list(turns)[:k])
    chunks = iter(index.chunks([position for ranked in rankings for position, _ in ranked]))
    return [[SearchHit(next(chunks), score, at) for _, score in ranked] for at, ranked in enumerate(rankings)]


def _filters_by_drug(index: IndexReader, query: SearchQuery, filter: ChunkFilter) -> list[ChunkFilter]:
    """Return the filter for each drug that a query names, or the given one."""
    if filter.any_drug or filter.drug or filter.set_id or filter.title:
        return [filter]
    named = [replace(filter, drugs=names) for names in index.drug_groups(query.text)]
    return [one for one in named if index.matching(one).any()] or [filter]


def encode_queries(encoder: SentenceEncoder, queries: Sequence[SearchQuery]) -> Vectors:
    """Return the vectors of the queries, shape (queries, dimensions); questions are encoded with the instruction."""
    vectors = np.empty((len(queries), encoder.dimensions), np.float32)
    for is_question, encode in ((True, encoder.encode_questions), (False, encoder.encode)):
        rows = [at for at, query in enumerate(queries) if query.is_question == is_question]
        if rows:
            vectors[rows] = encode([queries[at].text for at in rows])
    return vectors


def pool_candidates(found: Sequence[Sequence[SearchHit]], shares: Sequence[int]) -> list[SearchHit]:
    """Merge the hits of several queries by taking turns; no chunk and no text (white space aside) comes twice.

    A query whose next hit is already in the pool continues with the one after it, so that each query should find more
    than its share. The places that a query cannot fill go to the others.

    Args:
        found: the hits of each query, best first.
        shares: how many of the candidates each query contributes.

    Returns:
        The candidates, each with the number of the query that contributed it.

    Raises ValueError where `found` and `shares` differ in length.
    """
    hits = [iter(one) for one in found]
    ids: set[str] = set()
    texts: dict[tuple[str, ...], list[str]] = {}

    def next_new(query: int) -> SearchHit | None:
        """Take the query's hits from its list up to one that is not in the pool."""
        for hit in hits[query]:
            if hit.chunk.id not in ids and _add_if_new(hit.chunk.text, texts):
                ids.add(hit.chunk.id)
                return replace(hit, search=query)
        return None

    def take_turns(due: dict[int, int], limit: int) -> Iterator[SearchHit]:
        """Yield one hit of each query in turn, until each has contributed what is due or has no more."""
        while due and limit:
            for query in list(due):
                hit = next_new(query) if limit else None
                due[query] -= 1
                if hit is None or not due[query]:
                    del due[query]
                if hit is not None:
                    limit -= 1
                    yield hit

    due = {query: share for query, (_, share) in enumerate(zip(found, shares, strict=True)) if share > 0}
    total = sum(shares)
    candidates = list(take_turns(due, total))
    return candidates + list(take_turns(dict.fromkeys(range(len(found)), total), total - len(candidates)))


def _add_if_new(text: str, texts: dict[tuple[str, ...], list[str]]) -> bool:
    """Return whether no added text has the same words; only texts that begin and end alike are compared as a whole."""
    count = _COMPARED_WORDS
    alike = texts.setdefault((*text.split(None, count)[:count], *text.rsplit(None, count)[-count:]), [])
    words = text.split() if alike else []
    if any(words == other.split() for other in alike):
        return False
    alike.append(text)
    return True


def index_encoder(index: IndexReader, directories: ModelDirectories) -> SentenceEncoder:
    """Load the embedding model of an index, with its instruction for questions. Raises ModelMissing."""
    info = index.manifest.encoder
    return SentenceEncoder(directories.of("cosine"), instruction=info.instruction if info else None)
