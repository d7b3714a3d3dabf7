"""Building an index: documents are chunked, what is new is embedded, and a version is committed last."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from fdarx_core.documents.chunks import chunk_document, may_hold_labels, read_documents
from fdarx_core.documents.labels import LabelFiles, find_labels, read_label_chunks, read_label_file
from fdarx_core.documents.uploads import UploadFolder, as_upload, upload_id
from fdarx_core.labels import Identity, Selection, select
from fdarx_core.pipeline.executor import Call, Executor, Operator
from fdarx_core.pipeline.job import Progress
from fdarx_core.pipeline.steps import batches
from fdarx_core.records import Chunk, LabelVersion, Reject
from fdarx_core.retrieval.encoders import EncoderInfo, SentenceEncoder, WindowVectors
from fdarx_core.retrieval.index import IndexStore, Manifest
from fdarx_core.retrieval.index.chunk_table import headed_chunk
from fdarx_core.retrieval.index.segments import document_digest, entry_source, same_encoder
from fdarx_core.storage import Location, StorageError, write_records
from fdarx_core.storage.sources import Inputs, Source

_CHUNKS_A_SEGMENT = 1024
_CHARACTERS_A_SEGMENT = 1 << 20
"""About 1,700 windows of 256 tokens: what an interrupted build embeds again."""
_LABELS_A_SEGMENT = 12
"""About as much text."""
_SEGMENTS_A_FLOW = 512
"""Segments of documents that this process reads, which are in memory at once."""
_SOURCES_A_TASK = 64
_MANY_LABELS = 2_000
_REMEDY = "use what it was made with, choose another --out, or give --rebuild and all documents to build it again"


@dataclass(slots=True)
class SegmentContent:
    """What a segment is made of, and what became of it.

    Args:
        number: The place among the segments of a build.
        labels: Labels to read and chunk.
        documents: The chunks of each document; at the end none, so that only counts come back.
        known: The digest of each document that the index has, by id.
        files: Hashes of the files of labels, by set id.
        read: Of each document the id, its `entry_source` and the number of its chunks.
        rejects: The labels that could not be read.
        segment: The name of the segment, "" where nothing is new.
        written: The number of new chunks.
        vectors: Their vectors, and what made them.
    """

    number: int
    labels: Sequence[Identity] = ()
    documents: list[list[Chunk]] = field(default_factory=list)
    known: Mapping[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    read: list[tuple[str, str, int]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    segment: str = ""
    written: int = 0
    vectors: tuple[WindowVectors, EncoderInfo] | None = None

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks of all documents that are left."""
        return [chunk for document in self.documents for chunk in document]


def read_and_chunk(uploads: UploadFolder, content: SegmentContent) -> SegmentContent:
    """Read the labels of a segment, and leave out the documents that the index has with the same content."""
    for label in content.labels:
        found = read_label_file(label)
        if isinstance(found, Reject):
            content.rejects.append(found)
        elif found[0].uploaded_by and uploads.locate(label.source.location) is None:
            set_id = found[0].set_id
            detail = f"the set id {set_id} stands for an upload to the service; correct the file"
            content.rejects.append(Reject(set_id, "documents", "reserved_id", detail, source=label.source.name))
        else:
            document = _owned(uploads, found, label.source)
            content.documents.append(document)
            content.files[document[0].document_id] = label.sha256
    content.labels = ()
    content.read = [
        (document[0].document_id, entry_source(document[0]), len(document)) for document in content.documents
    ]
    content.documents = [
        document
        for document in content.documents
        if content.known.get(document[0].document_id) != document_digest(document)
    ]
    return content


def _owned(uploads: UploadFolder, chunks: list[Chunk], source: Source) -> list[Chunk]:
    """Return the chunks of a document of a source, as those of an upload where it is one."""
    found = uploads.locate(source.location)
    if found is None:
        return chunks
    client, file = found
    return as_upload(chunks, client, file + chunks[0].source.removeprefix(source.location))


class Embedder:
    """Holds the embedding model."""

    def __init__(self, place: Location, model: str, instruction: str | None) -> None:
        self._store, self._encoder = IndexStore(place), SentenceEncoder(model, instruction=instruction, fast=True)

    def embed(self, content: SegmentContent) -> SegmentContent:
        """Embed what is new, unless a build that did not come to its end has written the segment already."""
        info, chunks = self._encoder.info, content.chunks
        content.segment = self._store.find_segment(chunks, info) or "" if chunks else ""
        if chunks and not content.segment:
            content.vectors = self._encoder.encode_passages([headed_chunk(chunk) for chunk in chunks]), info
        return content


def write(place: Location, content: SegmentContent) -> SegmentContent:
    """Write the segment, unless it is written already or has nothing new."""
    chunks = content.chunks
    if chunks and not content.segment:
        vectors, info = content.vectors or (None, None)
        content.segment = IndexStore(place).write_segment(chunks, vectors, info, content.files)
    content.written, content.documents, content.vectors = len(chunks), [], None
    return content


@dataclass
class Indexing:
    """One build of an index. A repeated build embeds only the chunks that are not written yet.

    Args:
        place: The folder of the index.
        chunk_size: Maximum number of characters of a chunk.
        overlap: Characters that a chunk shares with the previous one.
        model: The directory of the embedding model; None makes no vectors.
        instruction: The instruction that the model reads before a question.
        inputs: The documents and labels that were found.
        runs: Builds whose labels are indexed as well.
        remove: The ids or sources of documents to drop.
        rebuild: Drop all documents that are not given.

    Attributes:
        documents: The documents read.
        chunks: Their chunks.
        unchanged: Labels whose files the index has read before; they are among the documents.
        embedded: The new chunks; the index had the others already.
        rejects: The documents that could not be read, and labels of which a newer version is indexed.
    """

    place: Location
    chunk_size: int
    overlap: int
    model: str | None
    instruction: str | None
    inputs: Inputs = field(default_factory=Inputs)
    runs: Sequence[str] = ()
    remove: Sequence[str] = ()
    rebuild: bool = False

    def __post_init__(self) -> None:
        self.documents = self.chunks = self.unchanged = self.embedded = 0
        self.rejects: list[Reject] = []
        self.uploads = UploadFolder(self.place)
        self._total = 0  # documents to read, 0 where the number is not known
        self._numbers = count()
        self._segments: dict[int, str] = {}  # names of the new segments by number
        self._indexed: dict[str, str] = {}  # the source of each document that was given, by id
        self._given = set[str]()

    @property
    def long(self) -> bool:
        """Whether the work takes longer than starting Ray: embedding, and parsing many labels."""
        return self.model is not None or sum(map(may_hold_labels, self.inputs.sources)) > _MANY_LABELS

    def run(self, executor: Executor, tell: Progress) -> Manifest:
        """Index the documents and labels that were found, and those of the builds; drop those that are to be removed.

        Of one set id the newest version is indexed. The rejects are written beside the index.

        Args:
            executor: Where labels are parsed and chunks are embedded.
            tell: Called with the phase (identify or index), the files identified or documents read, their number (0:
                not known), and a note.

        Raises:
            StorageError: A place can't be read or written, or, before anything is embedded, the index was made with
                another model or other chunks.
            ValueError: The index lacks a document that is to be removed.
        """
        self._begin(executor, tell)
        files = self._find_labels(self.inputs)
        self._total = 0 if self.runs or files.others else len(files.labels)
        self._write_documents(chunks for run in self.runs for chunks in read_label_chunks(run))
        self._write(list(self._contents_of_labels(files.labels)))
        self._write_documents(self._other_documents(Inputs(files.others, self.inputs.rejects)))
        entries = self._entries
        known = {*entries, *(entry.source for entry in entries.values())}
        if unknown := [name for name in self.remove if name not in known]:
            raise ValueError(f"--remove {unknown[0]}: the index has no document of this id or source")
        dropped = {id for id, entry in entries.items() if id in self.remove or entry.source in self.remove}
        if self.rebuild:
            dropped |= entries.keys() - self._indexed.keys()
        manifest = self._commit(dropped)
        if self.rejects:
            write_records(self.place / "rejects.parquet", self.rejects, Reject)
        return manifest

    def add(
        self, executor: Executor, tell: Progress, documents: Sequence[list[Chunk]], remove: Collection[str] = ()
    ) -> Manifest:
        """Index documents that are cut already, and drop those with the ids in `remove`. Raises as `run`."""
        self._begin(executor, tell)
        self._total = len(documents)
        self._write_documents(documents)
        return self._commit(remove)

    @property
    def _chunking(self) -> dict[str, Any]:
        """How documents are cut."""
        return {"size": self.chunk_size, "overlap": self.overlap}

    def _begin(self, executor: Executor, tell: Progress) -> None:
        """Read the index as it is. Model and chunk size must fit it; a commit checks this too, but after embedding."""
        self._executor, self._tell = executor, tell
        self._tell("index", 0, 0, "")
        encoder = None
        if self.model is not None:
            encoder = SentenceEncoder(self.model, instruction=self.instruction).info
        base = IndexStore(self.place).current()
        self._entries = base.entries if base is not None else {}
        alike = base is not None and base.chunking == self._chunking and same_encoder(encoder, base.encoder)
        self._known = self._entries if alike else {}  # else the index is rebuilt
        self._ages = {} if self.rebuild else {id: entry.age for id, entry in self._entries.items()}
        if base is None or self.rebuild:
            return
        if not same_encoder(base.encoder, encoder):
            was, now = (info.name if info else "no embedding model" for info in (base.encoder, encoder))
            raise StorageError(f"{self.place} was made with {was}, not with {now}; {_REMEDY}")
        if not alike:
            raise StorageError(f"{self.place} was cut with {dict(base.chunking)}, not {self._chunking}; {_REMEDY}")

    def _commit(self, remove: Collection[str]) -> Manifest:
        self._tell_read(self.documents)  # where not all are labels, their number is known only now
        if self.rejects and not self._segments and not self._entries:
            first = self.rejects[0]
            if self.place.is_empty():
                self.place.delete_tree()
            raise ValueError(f"there is no document to index: {first.source or first.id}: {first.detail}")
        return IndexStore(self.place).commit(
            [name for _, name in sorted(self._segments.items())],
            inputs=self._indexed,
            remove=remove,
            chunking=self._chunking,
            keep_newer=not self.rebuild,
        )

    def _tell_read(self, total: int) -> None:
        self._tell("index", self.documents, total, f"{self.embedded:,} new chunks written")

    def _find_labels(self, found: Inputs) -> LabelFiles:
        """Return the newest version of each label, and the sources that hold other documents."""
        candidates = [source for source in found.sources if may_hold_labels(source)]
        files = LabelFiles(0, others=[source for source in found.sources if not may_hold_labels(source)])
        for part in self._executor.map(find_labels, batches(candidates, _SOURCES_A_TASK)):
            files.sources += part.sources
            for label in part.labels:  # the document of an upload has another id in the index
                upload = self.uploads.locate(label.source.location)
                set_id = label.set_id if upload is None else upload_id(upload[0], label.set_id)
                files.labels.append(replace(label, set_id=set_id))
            files.others += part.others
            self.rejects += part.rejects
            self._tell("identify", files.sources, len(candidates), "")
        files.labels, older = select(files.labels, Selection(document_types=(), excluded_routes=()))
        files.others.sort(key=lambda source: source.name)
        self.rejects += older
        return files

    def _other_documents(self, others: Inputs) -> Iterator[list[Chunk]]:
        """Yield the chunks of documents that are no labels; those of uploads apart, so that none stands for another."""
        indexed: list[Source] = []
        uploads: list[Source] = []
        for source in others.sources:
            (uploads if self.uploads.locate(source.location) else indexed).append(source)
        yield from self._cut(Inputs(indexed, others.rejects))
        for source in uploads:
            yield from (_owned(self.uploads, chunks, source) for chunks in self._cut(Inputs([source])))

    def _cut(self, found: Inputs) -> Iterator[list[Chunk]]:
        for document in read_documents(found):
            if isinstance(document, Reject):
                self.rejects.append(document)
            else:
                yield chunk_document(document, self.chunk_size, self.overlap)

    def _contents_of_labels(self, labels: Sequence[Identity]) -> Iterator[SegmentContent]:
        """Yield the content of segments of labels whose files the index has not read."""
        unread: list[Identity] = []
        for label in labels:
            entry = None if self.rebuild else self._entries.get(label.set_id)
            if entry is not None and entry.file == label.sha256:
                self._indexed[label.set_id] = entry.source
                self.unchanged += 1
                self.documents += 1
                self.chunks += entry.chunks
            elif self._is_newest(label.set_id, (label.version, label.effective_date), label.source.name):
                unread.append(label)
        for batch in batches(unread, _LABELS_A_SEGMENT):
            known = self._digests(label.set_id for label in batch)
            yield SegmentContent(next(self._numbers), labels=batch, known=known)

    def _write_documents(self, documents: Iterable[list[Chunk]]) -> None:
        """Write segments of documents that are chunked already."""
        for contents in batches(self._contents_of_documents(documents), _SEGMENTS_A_FLOW):
            self._write(contents)

    def _contents_of_documents(self, documents: Iterable[list[Chunk]]) -> Iterator[SegmentContent]:
        """Yield the content of segments, several whole documents at a time."""
        waiting: list[list[Chunk]] = []

        def content() -> SegmentContent:
            known = self._digests(document[0].document_id for document in waiting)
            return SegmentContent(next(self._numbers), documents=waiting, known=known)

        chunks = characters = 0
        for document in documents:
            first = document[0]
            label = first.label or LabelVersion()
            if first.set_id and not self._is_newest(first.set_id, (label.version, label.effective_date), first.source):
                continue
            waiting.append(document)
            chunks, characters = chunks + len(document), characters + sum(len(chunk.text) for chunk in document)
            if chunks >= _CHUNKS_A_SEGMENT or characters >= _CHARACTERS_A_SEGMENT:
                yield content()
                waiting, chunks, characters = [], 0, 0
        if waiting:
            yield content()

    def _digests(self, ids: Iterable[str]) -> dict[str, str]:
        return {id: self._known[id].digest for id in ids if id in self._known}

    def _write(self, contents: Sequence[SegmentContent]) -> None:
        """Write segments in one flow."""
        operators: list[Operator] = [partial(read_and_chunk, self.uploads)]
        if self.model is not None:
            resource = self._executor.models_resource(Embedder, self.place, self.model, self.instruction)
            operators.append(Call(resource, "embed"))
        operators.append(partial(write, self.place))
        for content in self._executor.flow("index", contents, *operators):
            self.rejects += content.rejects
            for id, source, chunks in content.read:
                self._indexed[id] = source
                self.documents += 1
                self.chunks += chunks
            if content.segment:
                self._segments[content.number] = content.segment
            self.embedded += content.written
            self._tell_read(self._total)

    def _is_newest(self, set_id: str, age: tuple[int, str], source: str) -> bool:
        """Return whether no newer version of a label is in the index, and none as new was given; else reject it."""
        before = self._ages.get(set_id, (-1, ""))
        if before > age or (before == age and set_id in self._given):
            reason = "older_version" if before > age else "duplicate_set_id"
            detail = f"version {age[0]} of {age[1]}; the index has or gets version {before[0]} of {before[1]}"
            self.rejects.append(Reject(set_id, "index", reason, detail, set_id, source))
            return False
        self._ages[set_id] = age
        self._given.add(set_id)
        return True
