"""Small documents and vectors to index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fdarx_core.records import Chunk
from fdarx_core.retrieval.encoders import EncoderInfo, Vectors, WindowVectors

ENCODER = EncoderInfo("hashing", "f00d", 8)


def document(id: str, texts: Sequence[str], *, title: str = "", source: str = "") -> list[Chunk]:
    return [
        Chunk(f"{id}-{at}", id, title or f"Guideline {id}", source or f"{id}.txt", "", text, at, at * 100)
        for at, text in enumerate(texts)
    ]


def label(set_id: str, drug: str, sections: Sequence[tuple[str, str]]) -> list[Chunk]:
    return [
        Chunk(f"{set_id}-{at}", set_id, drug, "labels.zip", section, text, at, -1, set_id, drug)
        for at, (section, text) in enumerate(sections)
    ]


def embed(chunks: Sequence[Chunk]) -> WindowVectors:
    """Unit vectors that follow from the texts; each line of a text is a window."""
    lines = [chunk.text.split("\n") for chunk in chunks]
    rows = [np.random.default_rng([*line.encode()]).standard_normal(8) for one in lines for line in one]
    vectors: Vectors = np.array(rows, np.float32).reshape(-1, 8)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return WindowVectors(vectors, np.array([len(one) for one in lines]))


def single_windows(rows: npt.ArrayLike) -> WindowVectors:
    """Vectors of passages of one window each."""
    vectors = np.asarray(rows, np.float32)
    return WindowVectors(vectors, np.ones(len(vectors), np.int64))
