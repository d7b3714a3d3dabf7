"""Chunks for the tests."""

from __future__ import annotations

from typing import Any

from fdarx_core.records import Chunk, SearchHit


def chunk(name: str, text: str = "", **fields: Any) -> Chunk:
    shared = {"document_id": "d", "title": "T", "source": "s", "section": "", "position": 0}
    return Chunk(**{"id": name, "text": text or name, **shared, **fields})


def found(name: str, score: float = 0.0, text: str = "", **fields: Any) -> SearchHit:
    return SearchHit(chunk(name, text, **fields), score)
