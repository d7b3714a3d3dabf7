"""Evidence from an index, any that the QA-RAG service searches: labels, guidelines, other documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from fdarx_core.factuality.evidence.by_words import words_of
from fdarx_core.factuality.evidence.source import K, Query
from fdarx_core.rag.pool import pool
from fdarx_core.rag.searching import encoded, hits, offered
from fdarx_core.rag.tools import Search
from fdarx_core.records import Chunk, Evidence, Reject, content_id
from fdarx_core.retrieval.dense import SentenceEncoder
from fdarx_core.retrieval.index import Index, Only
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.storage import Location

_DEEPER = 8
"""Times k that are looked through for k different texts: labels of one substance share most of theirs."""


class IndexEvidence:
    """Chunks of an index, by words and vectors together where its embedding model is at hand, else by words.

    A query is kept to its own label, or else to its drug, where the index has it; else to the drugs that its question
    and claim name. Raises StorageError where there is no index, ModelMissing where the model that was given can't be
    used, ValueError for a retriever that is not offered.
    """

    name = "index"
    rejects: Sequence[Reject] = ()

    def __init__(self, place: str, directories: ModelDirectories, retriever: str | None = None) -> None:
        self._index = Index.open(place)
        retrievers, notice = offered(self._index, directories)
        self._retriever = retriever or retrievers[-1]
        if self._retriever not in retrievers:
            raise ValueError(f"{place} can't be searched by {retriever}, only by {', '.join(retrievers)}; {notice}")
        self._directories = directories
        self.identity: Mapping[str, str] = {
            "kind": self.name,
            "place": str(Location(place)),
            "version": self._index.version,
            "retriever": self._retriever,
        }

    def find(self, queries: Sequence[Query], k: int = K) -> list[list[Evidence]]:
        """See `EvidenceSource`."""
        claims = [Search(query.claim, k, is_question=False) for query in queries]
        vectors = None if self._retriever == "bm25" else encoded(self._encoder, claims)
        found: list[list[Evidence]] = []
        for at, query in enumerate(queries):
            search = Search(words_of(query), k, is_question=False)
            vector = None if vectors is None else vectors[at : at + 1]
            deep = hits(self._index, [search], self._only(query), k * _DEEPER, self._retriever, vector)
            found.append([_evidence(one.chunk) for one in pool(deep, [k])])
        return found

    def _only(self, query: Query) -> Only:
        named = tuple(self._index.drugs_named(f"{query.question}\n{query.claim}"))
        choices = (Only(set_id=query.set_id), Only(drug=query.drug), Only(drugs=named))
        return next((one for one in choices if one != Only() and self._index.matching(one).any()), Only())

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        """Loaded where it is used: whoever opens a source only to look at it need not wait."""
        made = self._index.manifest.encoder
        return SentenceEncoder(self._directories.of("cosine"), instruction=made.instruction if made else None)


def _evidence(chunk: Chunk) -> Evidence:
    return Evidence(
        content_id("index", chunk.id, chunk.text),
        "index",
        chunk.title,
        chunk.text,
        chunk.id,
        section=chunk.section,
        set_id=chunk.set_id,
        drug=chunk.drug,
    )
