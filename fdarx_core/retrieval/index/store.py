"""Writing an index: immutable segments, versions that list them, and one pointer that is replaced last."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import orjson

from fdarx_core.records import Chunk
from fdarx_core.retrieval.encoders import EncoderInfo, Vectors
from fdarx_core.retrieval.index import segments
from fdarx_core.retrieval.index.manifest import (
    DocumentEntry,
    IndexConflict,
    Manifest,
    Segment,
    same_encoder,
    version_number,
)
from fdarx_core.retrieval.index.segments import SegmentListing
from fdarx_core.retrieval.index.vectors import MAX_EXACT, MAX_GRAPH, build_approximate_index
from fdarx_core.storage import Location
from fdarx_core.storage.run_lock import folder_lock

SETTLE = 2.0
"""Seconds, at least, that a writer waits on S3 before it checks whether another writer replaced its pointer."""
_SLOWER_WRITER = 5
"""How many times slower than this writer another one may be at reading and replacing the pointer."""


class IndexStore:
    """The folder of an index, for writers; picklable.

    Two writers may commit at the same time. On a disk the second waits for the first, and nothing is lost. S3 has no
    lock, and no conditional write that all servers support: there a writer checks, `settle` seconds (or 5 times as long
    as its own write took) after it replaced the pointer, whether the pointer still names a version that builds on its
    own, and otherwise commits again on top. Documents can be lost only where the other writer took longer than that
    from reading the pointer to replacing it.
    """

    def __init__(
        self,
        place: str | Location,
        *,
        limits: tuple[int, int] = (MAX_EXACT, MAX_GRAPH),
        settle: float = SETTLE,
    ) -> None:
        self.place = place if isinstance(place, Location) else Location(place)
        self._limits = limits
        self._settle = settle

    def current(self) -> Manifest | None:
        """Return the current version, None where there is no index yet. Raises `IndexDamaged`."""
        version = segments.read_pointer(self.place)
        return segments.read_manifest(self.place, version) if version else None

    def write_segment(
        self, chunks: Sequence[Chunk], vectors: Vectors | None = None, encoder: EncoderInfo | None = None
    ) -> str:
        """Write whole documents, with their chunks' vectors row by row; return the name of the segment.

        Readers see the segment once a commit lists it. Raises ValueError where vectors and chunks do not agree.
        """
        return segments.write_segment(self.place, chunks, vectors, encoder)

    def find_segment(self, chunks: Sequence[Chunk], encoder: EncoderInfo | None = None) -> str | None:
        """Return the segment of these chunks where an earlier build has written it completely, else None."""
        return segments.find_segment(self.place, chunks, encoder)

    def commit(
        self,
        names: Sequence[str],
        *,
        given: Mapping[str, str] | None = None,
        remove: Collection[str] = (),
        chunking: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Add segments to the index as a new version, and make it the current one.

        A document replaces the one of its id. Documents (labels apart) of a source in `given` that are not themselves
        in `given` have left that source, and are dropped.

        Args:
            names: the segments to add.
            given: all documents that the build was given, new or not: id to source.
            remove: ids of documents to drop.
            chunking: the options with which the documents were cut into chunks.

        Returns:
            The new version, or the current one where nothing differs.

        Raises IndexConflict where documents that stay were embedded or chunked otherwise, ValueError for no documents.
        """
        listings = [segments.read_segment(self.place, name) for name in names]
        with folder_lock(self.place):
            while True:
                base = self.current()
                if base is None and not names:
                    raise ValueError("there is no document to index")
                manifest = _next_version(base, listings, given or {}, remove, chunking)
                if base is not None and manifest.same_content(base):
                    return base
                manifest = self._write(manifest)
                if self._replace_pointer(base, manifest):
                    return manifest

    def _write(self, manifest: Manifest) -> Manifest:
        manifest = replace(manifest, approximate=build_approximate_index(self.place, manifest, self._limits))
        segments.write_file(self.place, segments.manifest_name(manifest.version), manifest.data)
        return manifest

    def _replace_pointer(self, base: Manifest | None, manifest: Manifest) -> bool:
        """Return whether the pointer now names the version, or one that builds on it."""
        started = time.monotonic()
        if segments.read_pointer(self.place) != (base.version if base else ""):
            return False
        segments.write_file(self.place, segments.POINTER, orjson.dumps({"version": manifest.version}) + b"\n")
        if self.place.is_remote:
            time.sleep(max(self._settle, _SLOWER_WRITER * (time.monotonic() - started)))
        current = segments.read_pointer(self.place)
        while version_number(current) > version_number(manifest.version):
            current = segments.read_manifest(self.place, current).parent
        return current == manifest.version


def _next_version(
    base: Manifest | None,
    listings: Sequence[SegmentListing],
    given: Mapping[str, str],
    remove: Collection[str],
    chunking: Mapping[str, Any] | None,
) -> Manifest:
    """Return the version that a commit makes of `base`; see `IndexStore.commit`."""
    new = {id: entry for _, entries in listings for id, entry in entries.items()}
    kept = {} if base is None else _kept_entries(base, new, given, remove)
    entries = {id: entry for id, entry in {**kept, **new}.items() if id not in remove}
    known = [*(base.segments if base else ()), *(segment for segment, _ in listings)]
    used = {entry.segment for entry in entries.values()}
    by_name = {segment.name: segment for segment in known if segment.name in used}
    _check_encoders(list(by_name.values()))
    return Manifest(
        segments=tuple(by_name.values()),
        entries=entries,
        chunking=_checked_chunking(base, len(kept), chunking),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        parent=base.version if base else "",
    )


def _kept_entries(
    base: Manifest, new: Mapping[str, DocumentEntry], given: Mapping[str, str], remove: Collection[str]
) -> dict[str, DocumentEntry]:
    sources = {*given.values(), *(entry.source for entry in new.values())} - {""}
    old = {id: entry for id, entry in base.entries.items() if id not in new and id not in remove}
    return {id: entry for id, entry in old.items() if id in given or entry.source not in sources}


def _checked_chunking(base: Manifest | None, kept: int, chunking: Mapping[str, Any] | None) -> dict[str, Any]:
    before = dict(base.chunking) if base else {}
    if chunking is None:
        return before
    if kept and chunking != before:
        raise IndexConflict(
            f"the index holds {kept} documents cut with {before}, and is now to get some cut with "
            f"{dict(chunking)}; use the same options, give all documents again, or choose another --out"
        )
    return dict(chunking)


def _check_encoders(used: Sequence[Segment]) -> None:
    first = used[0].encoder if used else None
    for segment in used:
        if not same_encoder(first, segment.encoder):
            names = [encoder.name if encoder else "no embedding model" for encoder in (first, segment.encoder)]
            raise IndexConflict(
                f"the index holds documents embedded with {names[0]}, and is now to get some with {names[1]} (or other "
                "weights of that name); use the same model, give all documents again, or choose another --out"
            )
