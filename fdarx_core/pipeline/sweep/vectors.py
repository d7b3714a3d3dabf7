"""Embeddings of a run's passages and questions: made once each, by Ray actors, and kept with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fdarx_core.pipeline.sweep.parts import Parts
from fdarx_core.retrieval.collection import searchable
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.registry import encoder
from fdarx_core.storage import read_table, write_table


@dataclass(frozen=True, slots=True)
class Vectors:
    """Of one part, in the order of its rows: `passages` (n, d) and `questions` (m, d), float32."""

    passages: np.ndarray
    questions: np.ndarray


class Encoding:
    """A Ray actor that holds one encoder."""

    def __init__(self, parts: Parts, name: str, directories: ModelDirectories) -> None:
        self._parts, self._name = parts, name
        self._encoder = encoder(name, directories)

    def encode(self, part: int) -> int:
        """Write the vectors of a part; returns how many passages it has."""
        labels = self._parts.examined(part)
        passages = self._encoder.encode([searchable(row) for label in labels for row in label.passages])
        questions = self._encoder.encode_questions([row.question for label in labels for row in label.questions])
        place = self._parts.run.part(f"embeddings/{self._name}", part)
        write_table(place, pa.concat_tables([_table("passage", passages), _table("question", questions)]))
        return len(passages)


def read_vectors(parts: Parts, name: str, part: int) -> Vectors:
    """What `Encoding` wrote of a part."""
    table = read_table(parts.run.part(f"embeddings/{name}", part))
    kinds = np.asarray(table["kind"].to_pylist())
    vectors = _matrix(table)
    return Vectors(vectors[kinds == "passage"], vectors[kinds == "question"])


def _table(kind: str, vectors: np.ndarray) -> pa.Table:
    values = pa.array(vectors.astype(np.float32).ravel())
    column = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
    return pa.table({"kind": pa.array([kind] * len(vectors), pa.string()), "vector": column})


def _matrix(table: pa.Table) -> np.ndarray:
    column: Any = table["vector"].combine_chunks()
    chunks: Sequence[Any] = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    width = column.type.list_size
    return np.concatenate(
        [np.asarray(chunk.flatten()).reshape(-1, width) for chunk in chunks] or [np.empty((0, width))]
    )
