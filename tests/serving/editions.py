"""An index whose every text says in which edition of it it stands, so that a mixed-up answer shows."""

from __future__ import annotations

from pathlib import Path

from fdarx_core.records import Chunk
from fdarx_core.retrieval.index import IndexStore

QUESTION = "What does the leaflet say on the dose of velocimab?"
_TEXTS = 12


def publish(folder: Path, edition: int, *, damaged: bool = False) -> str:
    """Commits the edition in place of the one before; returns its version."""
    store = IndexStore(str(folder))
    chunks = [_chunk(edition, number) for number in range(_TEXTS)]
    segment = store.write_segment(chunks)
    if damaged:
        file = folder / "segments" / segment / "chunks.parquet"
        file.write_bytes(file.read_bytes()[:-100])
    return store.commit([segment], inputs={chunks[0].document_id: chunks[0].source}).version


def _chunk(edition: int, number: int) -> Chunk:
    text = f"Leaflet {number}, edition {edition}: the dose of velocimab is {edition} mg {number} times a day."
    return Chunk(f"e{edition}n{number}", f"edition-{edition}", "Velocimab leaflet", "leaflet.txt", "", text, number, 0)
