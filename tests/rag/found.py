"""Chunks for the tests."""

from __future__ import annotations

from typing import Any

from fdarx_core.records import Chunk, LabelVersion, Product, SearchHit

_DOSE = "The maximum daily dose of {0} is {1} mg taken with food (2.{2})."
_STORED = "Store {0} tablets below 25 degrees in the closed bottle, away from light."
_LABELS = [
    ("new", "VELORA", "NDA", "2024-01-01", "2,550"),
    ("old", "VELORA", "NDA", "2005-03-01", "2,000"),
    ("older", "VELORA", "NDA", "2003-03-01", "2000"),
    ("generic", "Veloran", "ANDA", "2025-01-01", "2,550"),
]


def chunk(name: str, text: str = "", **fields: Any) -> Chunk:
    shared = {"document_id": "d", "title": "T", "source": "s", "section": "", "position": 0}
    return Chunk(**{"id": name, "text": text or name, **shared, **fields})


def found(name: str, score: float = 0.0, text: str = "", **fields: Any) -> SearchHit:
    return SearchHit(chunk(name, text, **fields), score)


def disagreeing_labels() -> list[Chunk]:
    """Return the chunks of four labels of one drug, of which two have another dose."""
    chunks: list[Chunk] = []
    for place, (set_id, drug, category, date, dose) in enumerate(_LABELS):
        product = Product([drug, "veloran"], ["veloran"], [""], ["veloran"], [""])
        label = LabelVersion(1, date, "", "", ["veloran"], [""], [product], [category])
        rows = [("34068-7", "DOSAGE", _DOSE.format(drug, dose, place)), ("44425-7", "STORAGE", _STORED.format(drug))]
        for at, (code, section, text) in enumerate(rows):
            own = None if at else label
            chunks.append(Chunk(f"{set_id}-{at}", set_id, drug, "", section, text, at, -1, set_id, drug, code, own))
    return chunks
