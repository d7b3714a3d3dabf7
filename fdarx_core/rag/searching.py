"""Searching an index for what a strategy wants to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fdarx_core.rag.tools import Search
from fdarx_core.records import Found
from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.dense import SentenceEncoder
from fdarx_core.retrieval.encoder_info import fingerprint
from fdarx_core.retrieval.index import Index, Only
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.retrieval.ranking import Ranked


def offered(index: Index, directories: ModelDirectories) -> tuple[tuple[str, ...], str]:
    """What can search this index here, and, where that is bm25 alone, why.

    Loads no model. Raises ModelMissing where the embedding model that was given can't be used, IndexConflict where it
    is not the index's.
    """
    made = index.manifest.encoder
    if made is None or index.notice:
        return ("bm25",), index.notice
    try:
        check_installed("cosine")
        directory = directories.of("cosine")
    except ModelMissing as error:
        if directories.cosine is not None:
            raise
        return ("bm25",), f"bm25 alone searches: {error}"
    # as the model would say once loaded, which takes seconds
    index.check_encoder(replace(made, name=Path(directory).name, fingerprint=fingerprint(directory)))
    return index.retrievers, ""


def hits(
    index: Index, searches: Sequence[Search], only: Only, k: int, retriever: str, vectors: Vectors | None
) -> list[list[Found]]:
    """The k best chunks for each search; `vectors` are those of `encoded`, row by row, None for bm25.

    A search that names drugs whose labels the index has is kept to these, unless the filter says otherwise: of 300
    questions to a label, each among 699, BM25 put a passage of another drug's label first in 28 % where it was not.
    Raises ValueError for a retriever that this index does not offer.
    """
    ranked: list[Ranked] = []
    for at, search in enumerate(searches):
        vector = None if vectors is None else vectors[at : at + 1]
        ranked += index.search([search.text], k, retriever=retriever, vectors=vector, only=_kept(index, search, only))
    chunks = iter(index.chunks([position for best in ranked for position, _ in best]))
    return [[Found(next(chunks), score, number) for _, score in best] for number, best in enumerate(ranked)]


def _kept(index: Index, search: Search, only: Only) -> Only:
    if only.any_drug or only.drug or only.set_id or only.title:
        return only
    named = replace(only, drugs=index.drugs_named(search.text))
    return named if named.drugs and index.matching(named).any() else only


def encoded(encoder: SentenceEncoder, searches: Sequence[Search]) -> Vectors:
    """Shape (searches, dimensions): questions with the encoder's instruction, other texts as what is searched."""
    vectors = np.empty((len(searches), encoder.dimensions), np.float32)
    for is_question, encode in ((True, encoder.encode_questions), (False, encoder.encode)):
        rows = [number for number, search in enumerate(searches) if search.is_question == is_question]
        if rows:
            vectors[rows] = encode([searches[number].text for number in rows])
    return vectors
