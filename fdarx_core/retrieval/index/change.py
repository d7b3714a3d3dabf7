"""What a commit does to a version: pure, so that it can be done again on a later one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from fdarx_core.retrieval.index.errors import IndexConflict
from fdarx_core.retrieval.index.manifest import Entry, Manifest, Segment, same_encoder
from fdarx_core.retrieval.index.segments import Written


@dataclass(frozen=True, slots=True)
class Change:
    """New segments; the documents that the build was `given`, old and new, id to source; ids to `remove`; chunking.

    A document replaces the one of its id. Documents of a source that was given, which are themselves not given, have
    left that source and go; labels don't.
    """

    written: Sequence[Written]
    given: Mapping[str, str]
    remove: Collection[str] = ()
    chunking: Mapping[str, Any] | None = None

    def on(self, base: Manifest | None) -> Manifest:
        """The next version. Raises `IndexConflict` where documents that stay were cut or embedded otherwise."""
        new = {id: entry for one in self.written for id, entry in one.entries.items()}
        stay = {} if base is None else self._staying(base, new)
        entries = {id: entry for id, entry in {**stay, **new}.items() if id not in self.remove}
        known = [*(base.segments if base else ()), *(one.segment for one in self.written)]
        used = {entry.segment for entry in entries.values()}
        segments = {one.name: one for one in known if one.name in used}
        _check_encoders(list(segments.values()))
        return Manifest(
            segments=tuple(segments.values()),
            entries=entries,
            chunking=self._chunking(base, stay),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            parent=base.version if base else "",
        )

    def _staying(self, base: Manifest, new: Mapping[str, Entry]) -> dict[str, Entry]:
        sources = {*self.given.values(), *(entry.source for entry in new.values())} - {""}
        old = {id: entry for id, entry in base.entries.items() if id not in new and id not in self.remove}
        return {id: entry for id, entry in old.items() if id in self.given or entry.source not in sources}

    def _chunking(self, base: Manifest | None, stay: Mapping[str, Entry]) -> dict[str, Any]:
        was = dict(base.chunking) if base else {}
        if self.chunking is None:
            return was
        if stay and self.chunking != was:
            raise IndexConflict(
                f"the index holds {len(stay)} documents cut with {was}, and is now to get some cut with "
                f"{dict(self.chunking)}; use the same options, give all documents again, or choose another --out"
            )
        return dict(self.chunking)


def _check_encoders(segments: Sequence[Segment]) -> None:
    first = segments[0].encoder if segments else None
    for one in segments:
        if not same_encoder(first, one.encoder):
            names = [encoder.name if encoder else "no embedding model" for encoder in (first, one.encoder)]
            raise IndexConflict(
                f"the index holds documents embedded with {names[0]}, and is now to get some with {names[1]} (or other "
                "weights of that name); use the same model, give all documents again, or choose another --out"
            )
