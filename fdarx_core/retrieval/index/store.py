"""Writing an index: immutable segments, versions that name them, and one pointer, replaced last."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from fdarx_core.records import Chunk
from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.encoder_info import EncoderInfo
from fdarx_core.retrieval.index import segments
from fdarx_core.retrieval.index.approximate import build
from fdarx_core.retrieval.index.change import Change
from fdarx_core.retrieval.index.files import POINTER, manifest_name, read_manifest, read_pointer, write_file
from fdarx_core.retrieval.index.kinds import LIMITS, Limits
from fdarx_core.retrieval.index.manifest import Manifest, number
from fdarx_core.storage import Location
from fdarx_core.storage.claims import alone

SETTLE = 2.0
"""Seconds, at least, that a writer waits on S3 before it looks whether another replaced its pointer meanwhile."""
_SLOWER = 5
"""Another writer may be that many times slower at reading and replacing the pointer."""


class IndexStore:
    """The folder of an index, for its writers; picklable.

    Two may commit at once. On a disk the second waits for the first, and nothing is lost. S3 has no lock and no
    conditional write that all servers keep to: there a writer looks, `settle` seconds or 5 times what it took itself
    after replacing the pointer, whether it still names a version that builds on its own, and else commits again on
    top. So documents can be lost only where the other took longer than that from reading the pointer to replacing it.
    """

    def __init__(self, place: str | Location, *, limits: Limits = LIMITS, settle: float = SETTLE) -> None:
        self.place = place if isinstance(place, Location) else Location(place)
        self._limits = limits
        self._settle = settle

    def current(self) -> Manifest | None:
        """None where there is no index yet. Raises `IndexDamaged`."""
        version = self._pointer()
        return read_manifest(self.place, version) if version else None

    def missing(self, chunks: Iterable[Chunk], encoder: EncoderInfo | None = None) -> list[Chunk]:
        """The chunks of those documents (given whole, one after the other) that the current version lacks.

        All of them where it was made with another encoder. To ask often, ask `current().missing`.
        """
        base = self.current()
        return list(chunks) if base is None else base.missing(chunks, encoder)

    def write_segment(
        self, chunks: Sequence[Chunk], vectors: Vectors | None = None, encoder: EncoderInfo | None = None
    ) -> str:
        """Whole documents, and their chunks' vectors row by row; returns the segment's name, which follows from both.

        Nobody sees it before a commit names it. Raises `ValueError` where vectors and chunks don't go together.
        """
        return segments.write(self.place, chunks, vectors, encoder)

    def written(self, chunks: Sequence[Chunk], encoder: EncoderInfo | None = None) -> str | None:
        """The segment of these chunks if it stands there, by a build that came to no end, say; else None."""
        return segments.standing(self.place, chunks, encoder)

    def commit(
        self,
        names: Sequence[str],
        *,
        given: Mapping[str, str] | None = None,
        remove: Collection[str] = (),
        chunking: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Makes the version that has these segments too the current one; the current one where nothing differs.

        `given` has the source of every document that the build was given, new or not, by id. A document replaces the
        one of its id; and what an earlier build found in one of these sources (labels apart), which this one did not,
        is dropped. `remove` are ids of more to drop. Raises `IndexConflict` where documents that stay were embedded or
        cut otherwise, `ValueError` without any document.
        """
        change = Change([segments.read_written(self.place, name) for name in names], given or {}, remove, chunking)
        with alone(self.place):
            while True:
                base = self.current()
                if base is None and not names:
                    raise ValueError("there is no document to index")
                manifest = change.on(base)
                if base is not None and manifest.holds(base):
                    return base
                manifest = self._written(manifest)
                if self._replaced(base, manifest):
                    return manifest

    def _written(self, manifest: Manifest) -> Manifest:
        manifest = replace(manifest, approximate=build(self.place, manifest, self._limits))
        write_file(self.place, manifest_name(manifest.version), manifest.data)
        return manifest

    def _replaced(self, base: Manifest | None, manifest: Manifest) -> bool:
        """Whether the pointer now names the version, or one that builds on it."""
        begun = time.monotonic()
        if self._pointer() != (base.version if base else ""):
            return False
        write_file(self.place, POINTER, orjson.dumps({"version": manifest.version}) + b"\n")
        if self.place.is_remote:
            time.sleep(max(self._settle, _SLOWER * (time.monotonic() - begun)))
        return self._descends(manifest.version)

    def _descends(self, version: str) -> bool:
        at = self._pointer()
        while number(at) > number(version):
            at = read_manifest(self.place, at).parent
        return at == version

    def _pointer(self) -> str:
        return read_pointer(self.place)
