"""Writing an index: immutable segments, versions that list them, and one pointer that is replaced last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from fdarx_core.records import Chunk, LabelVersion, to_table, uploader_of
from fdarx_core.retrieval.encoders import EncoderInfo, WindowVectors
from fdarx_core.retrieval.index import segments
from fdarx_core.retrieval.index.segments import (
    FORMAT,
    DocumentEntry,
    FileInfo,
    Manifest,
    Segment,
    SegmentListing,
    digest,
    document_digest,
    entry_source,
    group_by_document,
    same_encoder,
    version_number,
)
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.run_lock import folder_lock


class IndexStore:
    """The folder of an index, for writers; picklable.

    Several writers may commit at the same time: each waits for the others' commits (see `folder_lock`) and builds on
    them, so that the index then has the documents of all. On S3 the pointer is moreover written on the condition that
    it did not change, where the server supports this. A writer that stood still for so long that others took it for
    dead, and whose server has no conditional writes, commits again with what it replaced.
    """

    def __init__(self, place: str | Location) -> None:
        self.place = place if isinstance(place, Location) else Location(place)

    def current(self) -> Manifest | None:
        """Return the current version, None where there is no index yet. Raises `IndexDamaged`."""
        version = segments.read_pointer(self.place)
        return segments.read_manifest(self.place, version) if version else None

    def write_segment(
        self,
        chunks: Sequence[Chunk],
        vectors: WindowVectors | None = None,
        encoder: EncoderInfo | None = None,
        files: Mapping[str, str] | None = None,
    ) -> str:
        """Write a segment of whole documents, unless it is complete already; return its name, a hash of the content.

        Readers see it once a commit lists it. `files` has hashes of the files of labels, by set id (see
        `DocumentEntry`). Raises ValueError where vectors, chunks and encoder do not agree.
        """
        _check(chunks, vectors, encoder)
        documents = list(group_by_document(chunks))
        digests = [document_digest(document) for document in documents]
        name = _segment_name(digests, encoder)
        folder = f"segments/{name}"
        if not self._is_complete(name):
            chunks_file = self._write(f"{folder}/chunks.parquet", _to_parquet(to_table(chunks, Chunk)))
            windows_file = vectors_file = None
            windows = [0] * len(chunks)
            if vectors is not None:
                windows = vectors.counts.tolist()
                windows_file = self._write(f"{folder}/windows.parquet", _to_parquet(pa.table({"windows": windows})))
                flat = pa.array(np.ascontiguousarray(vectors.rows, np.float32).reshape(-1))
                table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, vectors.rows.shape[1])})
                data = _to_parquet(table, compress=False)
                vectors_file = self._write(f"{folder}/vectors.parquet", data)
            counts, entries = iter(windows), dict[str, DocumentEntry]()
            for document, mark in zip(documents, digests, strict=True):
                first, label = document[0], document[0].label or LabelVersion()
                entries[first.document_id] = DocumentEntry(
                    entry_source(first),
                    mark,
                    len(document),
                    sum(islice(counts, len(document))),
                    name,
                    label.version,
                    label.effective_date,
                    (files or {}).get(first.document_id, ""),
                )
            segment = Segment(name, len(chunks), chunks_file, windows_file, vectors_file, encoder)
            listing = {"segment": segment, "entries": entries}
            self._write(f"{folder}/segment.json", orjson.dumps(listing, option=orjson.OPT_INDENT_2))  # the last file
        return name

    def find_segment(self, chunks: Sequence[Chunk], encoder: EncoderInfo | None = None) -> str | None:
        """Return the segment of these chunks where an earlier build has written it completely, else None."""
        name = _segment_name([document_digest(document) for document in group_by_document(chunks)], encoder)
        return name if self._is_complete(name) else None

    def commit(
        self,
        names: Sequence[str],
        *,
        inputs: Mapping[str, str] | None = None,
        remove: Collection[str] = (),
        chunking: Mapping[str, Any] | None = None,
        keep_newer: bool = True,
    ) -> Manifest:
        """Add segments to the index as a new version, and make it the current one.

        A document replaces the one of its id, unless the index has a newer version of that label. Documents of a
        source in `inputs` that are not themselves in `inputs` have left that source, and are dropped, apart from labels
        that nobody uploaded. Uploads of a client drop only documents of that client.

        Args:
            names: the segments to add.
            inputs: all documents that the build was given, new or not: id to source.
            remove: ids of documents to drop.
            chunking: the options with which the documents were cut into chunks.
            keep_newer: False: a label replaces also a newer version of it.

        Returns:
            The new version, or the current one where nothing differs.

        Raises StorageError where documents that stay were embedded or chunked otherwise, ValueError for no documents.
        """
        listings = [segments.read_segment(self.place, name) for name in names]
        pointer = self.place / segments.POINTER
        removed = set(remove)
        while True:
            with folder_lock(self.place) as is_held:
                tag = pointer.tag()  # before the pointer is read: a change in between is noticed
                base = self.current()
                if base is None and not listings:
                    raise ValueError("there is no document to index")
                manifest = _next_version(base, listings, inputs or {}, removed, chunking, keep_newer)
                if base is not None and manifest.same_content(base):
                    return base
                self._write(segments.manifest_name(manifest.version), manifest.data)
                data = orjson.dumps({"version": manifest.version}) + b"\n"
                if is_held() and pointer.replace(data, tag):
                    if is_held():
                        return manifest
                    others, gone = self._replaced_by(manifest)
                    listings, removed = [*others, *listings], removed | gone

    def _replaced_by(self, own: Manifest) -> tuple[list[SegmentListing], set[str]]:
        """Return what versions added and removed that were committed between reading and writing the pointer."""
        listings: list[SegmentListing] = []
        removed: set[str] = set()
        names = sorted(file.name.removesuffix(".json") for file in (self.place / "versions").list())
        for name in names:
            if name == own.version or not name[:1].isdigit() or version_number(name) <= version_number(own.parent):
                continue
            other = segments.read_manifest(self.place, name)
            parent = segments.read_manifest(self.place, other.parent).entries if other.parent else {}
            for segment in other.segments:
                added = {id: entry for id, entry in other.entries.items() if entry.segment == segment.name}
                listings.append((segment, {id: entry for id, entry in added.items() if parent.get(id) != entry}))
            removed |= parent.keys() - other.entries.keys()
        return listings, removed

    def _write(self, name: str, data: bytes) -> FileInfo:
        (self.place / name).write_bytes(data)
        return FileInfo(name, len(data), digest(data))

    def _is_complete(self, name: str) -> bool:
        if not (self.place / f"segments/{name}/segment.json").exists():
            return False
        segment, _ = segments.read_segment(self.place, name)
        files = ((file, self.place / file.name) for file in (segment.chunks, segment.windows, segment.vectors) if file)
        return all(place.exists() and place.size() == file.size for file, place in files)


def _next_version(
    base: Manifest | None,
    listings: Sequence[SegmentListing],
    inputs: Mapping[str, str],
    remove: Collection[str],
    chunking: Mapping[str, Any] | None,
    keep_newer: bool,
) -> Manifest:
    """Return the version that a commit makes of `base`; see `IndexStore.commit`."""
    old = base.entries if base is not None and keep_newer else {}
    new: dict[str, DocumentEntry] = {}
    for id, entry in (item for _, entries in listings for item in entries.items()):
        before = new.get(id, None if id in remove else old.get(id))
        if before is None or before.age <= entry.age:
            new[id] = entry
    given = {(uploader_of(id), source) for id, source in inputs.items() if source}
    given |= {(uploader_of(id), entry.source) for id, entry in new.items() if entry.source}
    kept = {
        id: entry
        for id, entry in (base.entries.items() if base else ())
        if id not in new and id not in remove and (id in inputs or (uploader_of(id), entry.source) not in given)
    }
    known_chunking = dict(base.chunking) if base else {}
    if kept and chunking is not None and chunking != known_chunking:
        raise StorageError(
            f"the index holds {len(kept)} documents cut with {known_chunking}, and is now to get some cut with "
            f"{dict(chunking)}; use the same options, give all documents again, or choose another --out"
        )
    entries = {id: entry for id, entry in {**kept, **new}.items() if id not in remove}
    known = [*(base.segments if base else ()), *(segment for segment, _ in listings)]
    used = {entry.segment for entry in entries.values()}
    by_name = {segment.name: segment for segment in known if segment.name in used}
    first = next((segment.encoder for segment in by_name.values()), None)
    for segment in by_name.values():
        if not same_encoder(first, segment.encoder):
            names = [encoder.name if encoder else "no embedding model" for encoder in (first, segment.encoder)]
            raise StorageError(
                f"the index holds documents embedded with {names[0]}, and is now to get some with {names[1]} (or other "
                "weights of that name); use the same model, give all documents again, or choose another --out"
            )
    return Manifest(
        segments=tuple(by_name.values()),
        entries=entries,
        chunking=known_chunking if chunking is None else dict(chunking),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        parent=base.version if base else "",
    )


def _segment_name(digests: Sequence[str], encoder: EncoderInfo | None) -> str:
    return digest(orjson.dumps([FORMAT, digests, encoder]))[:16]


def _check(chunks: Sequence[Chunk], vectors: WindowVectors | None, encoder: EncoderInfo | None) -> None:
    if not chunks:
        raise ValueError("a segment needs at least one chunk")
    if (vectors is None) != (encoder is None):
        raise ValueError("give vectors and the encoder that made them together, or neither")
    if vectors is None or encoder is None:
        return
    shape = (int(vectors.counts.sum()), encoder.dimensions)
    if len(vectors) != len(chunks) or vectors.rows.shape != shape or not vectors.counts.all():
        counted = f"vectors of {vectors.rows.shape} for {len(vectors)}"
        raise ValueError(f"{len(chunks)} chunks of {encoder.dimensions} dimensions have {counted}")
    if not np.isfinite(vectors.rows).all():
        raise ValueError(f"{encoder.name} gave vectors that are not numbers; check the model")


def _to_parquet(table: pa.Table, *, compress: bool = True) -> bytes:
    """Return the table as a Parquet file; without compression for vectors, which would only grow."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd" if compress else "none", use_dictionary=compress)
    return bytes(sink.getvalue())
