"""Building an index: documents are cut, what is new is embedded, and a version is committed last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.documents import chunk_document, read_label_chunks
from fdarx_core.pipeline.executor import Executor
from fdarx_core.records import Chunk, Document, Reject
from fdarx_core.retrieval.encoders import EncoderInfo, SentenceEncoder
from fdarx_core.retrieval.index import IndexStore, Manifest
from fdarx_core.retrieval.index.chunk_table import chunk_search_text
from fdarx_core.retrieval.index.segments import same_encoder
from fdarx_core.storage import Location, StorageError

_CHUNKS_A_SEGMENT = 1024
_REMEDY = "use what it was made with, choose another --out, or give --rebuild and all documents to build it again"

Tell = Callable[[int, int], None]
"""Called with the documents read so far, and the chunks embedded so far."""


@dataclass(slots=True)
class Indexing:
    """A build of an index. A repeated build embeds only the chunks that are not written yet.

    Args:
        executor: Where chunks are embedded.
        place: The folder of the index.
        chunk_size: Maximum number of characters of a chunk.
        overlap: Characters that a chunk shares with the previous one.
        model: The directory of the embedding model; None makes no vectors.
        instruction: The instruction that the model reads before a question.
        tell: Called with the progress.
        rebuild: Drop all documents that are not given.
        documents: The documents read.
        chunks: Their chunks.
        embedded: The new chunks; the index had the others already.
        longest: Characters of the longest chunk.
        reads: Maximum number of tokens that the model reads of a chunk, 0 without a model.
        rejects: The documents that could not be read.
    """

    executor: Executor
    place: Location
    chunk_size: int
    overlap: int
    model: str | None
    instruction: str | None
    tell: Tell
    rebuild: bool = False
    documents: int = field(default=0, init=False)
    chunks: int = field(default=0, init=False)
    embedded: int = field(default=0, init=False)
    longest: int = field(default=0, init=False)
    reads: int = field(default=0, init=False)
    rejects: list[Reject] = field(default_factory=list, init=False)

    def run(self, given: Iterable[Document | Reject], runs: Sequence[str], remove: Sequence[str] = ()) -> Manifest:
        """Index the given documents and the labels of `runs`; drop those whose id or source is listed.

        Raises StorageError for a place that can't be read or written, and, before anything is embedded, where the index
        was made with another model or other chunks.
        """
        store = IndexStore(self.place)
        self.tell(0, 0)
        encoder = None
        if self.model is not None:
            loaded = SentenceEncoder(self.model, instruction=self.instruction)
            encoder, self.reads = loaded.info, loaded.max_tokens
        base = store.current()
        if base is not None and not self.rebuild:
            self._check(base, encoder)
        indexed: dict[str, str] = {}
        segments: list[str] = []
        alike = base if base is not None and base.chunking == self._chunking else None  # another one is rebuilt
        for name, size in self._written(store, self._segments(alike, encoder, self._documents(given, runs), indexed)):
            segments.append(name)
            self.embedded += size
            self.tell(self.documents, self.embedded)
        dropped = _dropped(base, indexed, remove, self.rebuild)
        return store.commit(segments, given=indexed, remove=dropped, chunking=self._chunking)

    def _check(self, base: Manifest, encoder: EncoderInfo | None) -> None:
        """Check that model and chunk size fit the index. A commit checks this too, but only after the embedding."""
        if not same_encoder(base.encoder, encoder):
            was, now = (one.name if one else "no embedding model" for one in (base.encoder, encoder))
            raise StorageError(f"{self.place} was made with {was}, not with {now}; {_REMEDY}")
        if base.chunking != self._chunking:
            raise StorageError(f"{self.place} was cut with {dict(base.chunking)}, not {self._chunking}; {_REMEDY}")

    @property
    def _chunking(self) -> dict[str, Any]:
        return {"size": self.chunk_size, "overlap": self.overlap}

    def _documents(self, given: Iterable[Document | Reject], runs: Sequence[str]) -> Iterator[list[Chunk]]:
        """Yield the chunks of each document; a document that can't be read becomes a reject."""
        for run in runs:
            yield from read_label_chunks(run)
        for one in given:
            if isinstance(one, Reject):
                self.rejects.append(one)
            else:
                yield chunk_document(one, self.chunk_size, self.overlap)

    def _segments(
        self,
        base: Manifest | None,
        encoder: EncoderInfo | None,
        documents: Iterable[list[Chunk]],
        indexed: dict[str, str],
    ) -> Iterator[list[Chunk]]:
        """Yield the chunks of new documents, several whole documents at a time."""
        waiting: list[Chunk] = []
        for chunks in documents:
            self.documents += 1
            self.chunks += len(chunks)
            self.longest = max([self.longest, *(len(chunk.text) for chunk in chunks)])
            indexed.update((chunk.document_id, chunk.source) for chunk in chunks)
            waiting += chunks if base is None else base.missing(chunks, encoder)
            if len(waiting) >= _CHUNKS_A_SEGMENT:
                yield waiting
                waiting = []
            self.tell(self.documents, self.embedded)
        if waiting:
            yield waiting

    def _written(self, store: IndexStore, segments: Iterator[list[Chunk]]) -> Iterator[tuple[str, int]]:
        if self.model is None:
            return ((store.write_segment(chunks), len(chunks)) for chunks in segments)
        resource = self.executor.models_resource(_Embedder, self.place, self.model, self.instruction)
        return self.executor.map_resource(resource, "write", segments)


class _Embedder:
    """Holds the embedding model."""

    def __init__(self, place: Location, model: str, instruction: str | None) -> None:
        self._store, self._encoder = IndexStore(place), SentenceEncoder(model, instruction=instruction)

    def write(self, chunks: list[Chunk]) -> tuple[str, int]:
        """Embed and write one segment, unless a build that did not come to its end has written it already."""
        info = self._encoder.info
        name = self._store.find_segment(chunks, info)
        if name is None:
            vectors = self._encoder.encode([chunk_search_text(chunk) for chunk in chunks])
            name = self._store.write_segment(chunks, vectors, info)
        return name, len(chunks)


def _dropped(base: Manifest | None, given: Collection[str], remove: Collection[str], rebuild: bool) -> set[str]:
    """Return the ids of the documents to drop. Raises ValueError if one to remove does not exist."""
    entries = base.entries if base is not None else {}
    known = {*entries, *(entry.source for entry in entries.values())}
    if unknown := [one for one in remove if one not in known]:
        raise ValueError(f"--remove {unknown[0]}: the index has no document of this id or source")
    named = {id for id, entry in entries.items() if id in remove or entry.source in remove}
    return named | ({id for id in entries if id not in given} if rebuild else set())
