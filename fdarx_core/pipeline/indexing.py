"""Building an index: documents are cut, what is new is embedded, and a version is committed last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from fdarx_core.documents import (
    LabelFiles,
    chunk_document,
    find_labels,
    may_hold_labels,
    read_documents,
    read_label_chunks,
    read_label_files,
)
from fdarx_core.documents.uploads import UploadFolder, as_upload, upload_id
from fdarx_core.labels import Identity, Selection, select
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.steps import batches
from fdarx_core.records import Chunk, LabelVersion, Reject
from fdarx_core.retrieval.encoders import EncoderInfo, SentenceEncoder
from fdarx_core.retrieval.index import IndexStore, Manifest
from fdarx_core.retrieval.index.chunk_table import headed_chunk
from fdarx_core.retrieval.index.segments import entry_source, same_encoder
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.sources import Inputs, Source

_CHUNKS_A_SEGMENT = 1024
_CHARACTERS_A_SEGMENT = 1 << 20
"""About 1,700 windows of 256 tokens: what an interrupted build embeds again."""
_SOURCES_A_TASK = 64
_LABELS_A_TASK = 8
_BACKLOGS_A_ROUND = 2
"""Tasks, as multiples of the executor's backlog, whose results are put in order before the next are started, so that a
repeated build makes the same segments and little is in memory."""
_REMEDY = "use what it was made with, choose another --out, or give --rebuild and all documents to build it again"

Tell = Callable[[str, int, int, str], None]
"""Called with the phase (identify or index), the files identified or documents read, their number (0: not known), and
a note."""

_Documents: TypeAlias = "Iterator[tuple[list[Chunk], str]]"
"""The chunks of documents, each with a hash of the file of a label, else ""."""
_SegmentContent: TypeAlias = "tuple[list[Chunk], dict[str, str]]"
"""Chunks of whole documents, and hashes of the files of labels among them by set id."""


@dataclass(slots=True)
class Indexing:
    """A build of an index. A repeated build embeds only the chunks that are not written yet.

    Args:
        executor: Where labels are parsed and chunks are embedded.
        place: The folder of the index.
        chunk_size: Maximum number of characters of a chunk.
        overlap: Characters that a chunk shares with the previous one.
        model: The directory of the embedding model; None makes no vectors.
        instruction: The instruction that the model reads before a question.
        tell: Called with the progress.
        rebuild: Drop all documents that are not given.
        documents: The documents read.
        chunks: Their chunks.
        unchanged: Labels whose files the index has read before; they are among the documents.
        embedded: The new chunks; the index had the others already.
        rejects: The documents that could not be read, and labels of which a newer version is indexed.
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
    unchanged: int = field(default=0, init=False)
    embedded: int = field(default=0, init=False)
    rejects: list[Reject] = field(default_factory=list, init=False)
    _uploads: UploadFolder = field(init=False)

    def __post_init__(self) -> None:
        self._uploads = UploadFolder(self.place)

    def run(self, found: Inputs, runs: Sequence[str], remove: Sequence[str] = ()) -> Manifest:
        """Index the documents and labels that were found, and the labels of `runs`; drop those whose id or source is
        listed.

        Of one set id the newest version is indexed. Raises StorageError for a place that can't be read or written, and,
        before anything is embedded, where the index was made with another model or other chunks.
        """
        base, encoder = self._begin()
        indexed: dict[str, str] = {}
        files = self._find_labels(found)
        new = self._unread(files.labels, None if self.rebuild else base, indexed)
        documents = self._documents(new, runs, Inputs(files.others, found.rejects))
        total = 0 if runs or files.others else len(files.labels)
        segments = self._write(base, encoder, documents, indexed, total)
        return self._commit(segments, indexed, _dropped(base, indexed, remove, self.rebuild))

    def add(self, documents: Sequence[list[Chunk]], remove: Collection[str] = ()) -> Manifest:
        """Index documents that are cut already, and drop those with the ids in `remove`. Raises as `run`."""
        base, encoder = self._begin()
        indexed: dict[str, str] = {}
        segments = self._write(base, encoder, ((one, "") for one in documents), indexed, len(documents))
        return self._commit(segments, indexed, remove)

    def _begin(self) -> tuple[Manifest | None, EncoderInfo | None]:
        """Return the index as it is, None where there is none, and the encoder of new chunks."""
        self.tell("index", 0, 0, "")
        encoder = None
        if self.model is not None:
            encoder = SentenceEncoder(self.model, instruction=self.instruction).info
        base = IndexStore(self.place).current()
        if base is not None and not self.rebuild:
            self._check(base, encoder)
        return base, encoder

    def _write(
        self,
        base: Manifest | None,
        encoder: EncoderInfo | None,
        documents: _Documents,
        indexed: dict[str, str],
        total: int,
    ) -> list[str]:
        """Write segments of what is new in the documents; return their names, and add the documents to `indexed`."""
        segments: list[str] = []
        alike = base if base is not None and base.chunking == self._chunking else None  # another one is rebuilt
        contents = self._segments(alike, encoder, self._newest(documents, base), indexed, total)
        for name, size in self._written(contents):
            segments.append(name)
            self.embedded += size
            self._tell_read(total)
        self._tell_read(self.documents)  # where not all are labels, their number is known only now
        return segments

    def _commit(self, segments: Sequence[str], indexed: Mapping[str, str], remove: Collection[str]) -> Manifest:
        keep_newer = not self.rebuild
        store = IndexStore(self.place)
        return store.commit(segments, given=indexed, remove=remove, chunking=self._chunking, keep_newer=keep_newer)

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

    def _tell_read(self, total: int) -> None:
        self.tell("index", self.documents, total, f"{self.embedded:,} new chunks written")

    def _find_labels(self, found: Inputs) -> LabelFiles:
        """Return the newest version of each label, and the sources that hold other documents."""
        candidates = [source for source in found.sources if may_hold_labels(source)]
        files = LabelFiles(0, others=[source for source in found.sources if not may_hold_labels(source)])
        for part in self.executor.map(find_labels, batches(candidates, _SOURCES_A_TASK)):
            files.sources += part.sources
            files.labels += map(self._own_identity, part.labels)
            files.others += part.others
            self.rejects += part.rejects
            self.tell("identify", files.sources, len(candidates), "")
        files.labels, older = select(files.labels, Selection(document_types=(), excluded_routes=()))
        files.others.sort(key=lambda source: source.name)
        self.rejects += older
        return files

    def _unread(self, labels: Sequence[Identity], base: Manifest | None, indexed: dict[str, str]) -> list[Identity]:
        """Return the labels whose files the index has not read."""
        entries = base.entries if base is not None else {}
        new: list[Identity] = []
        for label in labels:
            entry = entries.get(label.set_id)
            if entry is None or entry.file != label.sha256:
                new.append(label)
                continue
            indexed[label.set_id] = entry.source
            self.documents += 1
            self.unchanged += 1
            self.chunks += entry.chunks
        return new

    def _documents(self, labels: Sequence[Identity], runs: Sequence[str], others: Inputs) -> _Documents:
        """Yield the chunks of each document; a document that can't be read becomes a reject."""
        for run in runs:
            yield from ((chunks, "") for chunks in read_label_chunks(run))
        waiting = batches(labels, _LABELS_A_TASK)
        while tasks := list(islice(waiting, _BACKLOGS_A_ROUND * self.executor.backlog)):
            read = sorted(self.executor.map(_read_task, enumerate(tasks)), key=lambda result: result[0])
            for number, results in read:
                for label, one in zip(tasks[number], results, strict=True):
                    if isinstance(one, Reject):
                        self.rejects.append(one)
                    elif one[0].uploaded_by and self._uploads.locate(label.source.location) is None:
                        set_id = one[0].set_id
                        detail = f"the set id {set_id} stands for an upload to the service; correct the file"
                        self.rejects.append(
                            Reject(set_id, "documents", "reserved_id", detail, source=label.source.name)
                        )
                    else:
                        yield self._own(one, label.source), label.sha256
        yield from self._other_documents(others)

    def _other_documents(self, others: Inputs) -> _Documents:
        """Yield the chunks of documents that are no labels; those of uploads apart, so that none stands for another."""
        indexed: list[Source] = []
        uploads: list[Source] = []
        for source in others.sources:
            (uploads if self._uploads.locate(source.location) else indexed).append(source)
        for chunks in self._cut(Inputs(indexed, others.rejects)):
            yield chunks, ""
        for source in uploads:
            yield from ((self._own(chunks, source), "") for chunks in self._cut(Inputs([source])))

    def _cut(self, found: Inputs) -> Iterator[list[Chunk]]:
        for document in read_documents(found):
            if isinstance(document, Reject):
                self.rejects.append(document)
            else:
                yield chunk_document(document, self.chunk_size, self.overlap)

    def _own_identity(self, label: Identity) -> Identity:
        """Return a label with the id that its document has in the index."""
        found = self._uploads.locate(label.source.location)
        return label if found is None else replace(label, set_id=upload_id(found[0], label.set_id))

    def _own(self, chunks: list[Chunk], source: Source) -> list[Chunk]:
        """Return the chunks of a document of a source, as those of an upload where it is one."""
        found = self._uploads.locate(source.location)
        if found is None:
            return chunks
        client, file = found
        return as_upload(chunks, client, file + chunks[0].source.removeprefix(source.location))

    def _newest(self, documents: _Documents, base: Manifest | None) -> _Documents:
        """Leave out labels of which a newer version is in the index, or the same or a newer one was given before."""
        given: dict[str, tuple[int, str]] = {}
        kept = base.entries if base is not None and not self.rebuild else {}
        for chunks, file in documents:
            set_id, label = chunks[0].set_id, chunks[0].label or LabelVersion()
            age = label.version, label.effective_date
            newer = kept[set_id].age if set_id in kept and kept[set_id].age > age else given.get(set_id, (-1, ""))
            if set_id and newer >= age:
                reason = "older_version" if newer > age else "duplicate_set_id"
                detail = f"version {age[0]} of {age[1]}; the index has or gets version {newer[0]} of {newer[1]}"
                self.rejects.append(Reject(set_id, "index", reason, detail, set_id, chunks[0].source))
                continue
            if set_id:
                given[set_id] = age
            yield chunks, file

    def _segments(
        self,
        base: Manifest | None,
        encoder: EncoderInfo | None,
        documents: _Documents,
        indexed: dict[str, str],
        total: int,
    ) -> Iterator[_SegmentContent]:
        """Yield the chunks of new documents, several whole documents at a time."""
        waiting: list[Chunk] = []
        files: dict[str, str] = {}
        for chunks, file in documents:
            self.documents += 1
            self.chunks += len(chunks)
            id = chunks[0].document_id
            if id in indexed:  # a newer version of a label of another run
                waiting = [chunk for chunk in waiting if chunk.document_id != id]
            indexed[id] = entry_source(chunks[0])
            waiting += chunks if base is None else base.missing(chunks, encoder)
            if file:
                files[id] = file
            if len(waiting) >= _CHUNKS_A_SEGMENT or sum(len(chunk.text) for chunk in waiting) >= _CHARACTERS_A_SEGMENT:
                yield waiting, files
                waiting, files = [], {}
            if self.documents != total:  # the last of them is told when its chunks are written
                self._tell_read(total)
        if waiting:
            yield waiting, files

    def _written(self, segments: Iterator[_SegmentContent]) -> Iterator[tuple[str, int]]:
        if self.model is None:
            store = IndexStore(self.place)
            return ((store.write_segment(chunks, files=files), len(chunks)) for chunks, files in segments)
        resource = self.executor.models_resource(_Embedder, self.place, self.model, self.instruction)
        return self.executor.map_resource(resource, "write", segments)


def _read_task(task: tuple[int, Sequence[Identity]]) -> tuple[int, list[list[Chunk] | Reject]]:
    number, labels = task
    return number, read_label_files(labels)


class _Embedder:
    """Holds the embedding model."""

    def __init__(self, place: Location, model: str, instruction: str | None) -> None:
        self._store, self._encoder = IndexStore(place), SentenceEncoder(model, instruction=instruction, fast=True)

    def write(self, content: _SegmentContent) -> tuple[str, int]:
        """Embed and write one segment, unless a build that did not come to its end has written it already."""
        chunks, files = content
        info = self._encoder.info
        name = self._store.find_segment(chunks, info)
        if name is None:
            vectors = self._encoder.encode_passages([headed_chunk(chunk) for chunk in chunks])
            name = self._store.write_segment(chunks, vectors, info, files)
        return name, len(chunks)


def _dropped(base: Manifest | None, given: Collection[str], remove: Collection[str], rebuild: bool) -> set[str]:
    """Return the ids of the documents to drop. Raises ValueError if one to remove does not exist."""
    entries = base.entries if base is not None else {}
    known = {*entries, *(entry.source for entry in entries.values())}
    if unknown := [one for one in remove if one not in known]:
        raise ValueError(f"--remove {unknown[0]}: the index has no document of this id or source")
    named = {id for id, entry in entries.items() if id in remove or entry.source in remove}
    return named | ({id for id in entries if id not in given} if rebuild else set())
