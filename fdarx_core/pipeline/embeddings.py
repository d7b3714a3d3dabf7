"""The vectors of the passages and questions of an evaluation, made once for each part and encoder."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from fdarx_core.pipeline.evaluation_steps import read_items
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.retrieval.encoders import Vectors, WindowVectors
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import headed_passage, load_encoder
from fdarx_core.storage import read_table, write_table

PartVectors: TypeAlias = tuple[WindowVectors, Vectors]
"""The vectors of some passages and questions by one encoder, in the order of the rows."""


class PartEncoder:
    """Embeds the passages and questions of parts with one encoder."""

    def __init__(self, parts: PartFiles, name: str, directories: ModelDirectories) -> None:
        self._parts, self._name = parts, name
        self._encoder = load_encoder(name, directories)

    def encode(self, part: int) -> int:
        """Write the vectors of a part; returns how many passages it has."""
        labels = read_items(self._parts, part)
        passages = self._encoder.encode_passages([headed_passage(row) for label in labels for row in label.passages])
        questions = self._encoder.encode_questions([row.question for label in labels for row in label.questions])
        values = pa.array(np.concatenate([passages.rows, questions]).astype(np.float32).ravel())
        of_passages = np.repeat(np.arange(len(passages)), passages.counts)
        columns = {
            "kind": pa.array(["passage"] * len(passages.rows) + ["question"] * len(questions), pa.string()),
            "row": pa.array(np.concatenate([of_passages, np.arange(len(questions))]), pa.int64()),
            "vector": pa.FixedSizeListArray.from_arrays(values, self._encoder.dimensions),
        }
        write_table(self._parts.run.part(f"embeddings/{self._name}", part), pa.table(columns))
        return len(passages)


def read_vectors(parts: PartFiles, name: str, part: int) -> PartVectors:
    """Return what `PartEncoder` wrote of a part."""
    table = read_table(parts.run.part(f"embeddings/{name}", part))
    kinds, column = np.asarray(table["kind"].to_pylist()), table["vector"].combine_chunks()
    vectors = column.flatten().to_numpy().reshape(-1, column.type.list_size)
    of_passages = table["row"].to_numpy()[kinds == "passage"]
    return WindowVectors(vectors[kinds == "passage"], np.bincount(of_passages)), vectors[kinds == "question"]
