"""An index in memory: one version, opened, and searched by words, by vectors or by both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fdarx_core.records import Chunk, arrow_schema
from fdarx_core.retrieval.bm25 import Bm25Index
from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.encoder_info import EncoderInfo
from fdarx_core.retrieval.fusion import DEPTH, fuse
from fdarx_core.retrieval.index.approximate import load
from fdarx_core.retrieval.index.corpus import Corpus
from fdarx_core.retrieval.index.errors import IndexConflict, IndexMissing
from fdarx_core.retrieval.index.files import find_version
from fdarx_core.retrieval.index.kinds import load_faiss, make
from fdarx_core.retrieval.index.manifest import Manifest, same_encoder
from fdarx_core.retrieval.index.nearest import Mask, VectorIndex
from fdarx_core.retrieval.index.only import Only
from fdarx_core.retrieval.index.rows import read_rows
from fdarx_core.retrieval.index.store import IndexStore
from fdarx_core.retrieval.postings import Postings
from fdarx_core.retrieval.ranking import Ranked
from fdarx_core.storage import Location

EVERYTHING = Only()

_NO_VECTORS = (
    "the index was built without an embedding model, so bm25 alone searches it; for cosine and hybrid, "
    "pip install 'fdarx[models,faiss]' and build it again"
)
_NO_FAISS = (
    "FAISS is not installed, so bm25 alone searches this index, whose vectors are not read; for cosine and hybrid, "
    "pip install 'fdarx[models,faiss]'"
)


class Index:
    """One version of an index; it never changes, and threads may share it.

    `retrievers` are those that it can be searched with; `notice` says why some are missing and what to do, else "".
    """

    def __init__(self, manifest: Manifest, corpus: Corpus, nearest: VectorIndex | None) -> None:
        self.manifest = manifest
        self.version = manifest.version
        self.retrievers: tuple[str, ...] = ("bm25",) if nearest is None else ("bm25", "cosine", "hybrid")
        self.notice = "" if nearest else _NO_VECTORS if manifest.encoder is None else _NO_FAISS
        self._corpus = corpus
        self._words = Bm25Index(Postings(corpus.searchable()))
        self._nearest = nearest

    @classmethod
    def open(cls, place: str | Location, *, version: str | None = None) -> Index:
        """The current version, or one by name, which stays readable when newer ones land.

        Raises `IndexMissing` where it is not there, `IndexDamaged` where a file is gone or is not what was written.
        """
        place = place if isinstance(place, Location) else Location(place)
        manifest = IndexStore(place).current() if version is None else find_version(place, version)
        if manifest is None:
            raise IndexMissing(
                f"{place} is no index: it has no index.json; make one: fdarx index --documents … --out …"
            )
        dense = manifest.encoder is not None and load_faiss() is not None
        exact = dense and manifest.approximate is None
        rows = list(read_rows(place, manifest, vectors=exact))
        corpus = Corpus(pa.concat_tables([chunks for chunks, _ in rows] or [arrow_schema(Chunk).empty_table()]))
        parts = [part for _, part in rows if part is not None]
        return cls(manifest, corpus, _nearest(place, manifest, parts) if dense else None)

    def __len__(self) -> int:
        return len(self._corpus)

    def check_encoder(self, encoder: EncoderInfo) -> None:
        """Raises `IndexConflict` where its vectors can't be compared with the index's."""
        if not same_encoder(encoder, self.manifest.encoder):
            made = self.manifest.encoder
            raise IndexConflict(
                f"the index was made with {_told(made)}, not with {_told(encoder)}; give the model that made it, or "
                "build the index again with this one"
            )

    def search(
        self,
        texts: Sequence[str],
        k: int,
        *,
        retriever: str = "bm25",
        vectors: Vectors | None = None,
        only: Only = EVERYTHING,
    ) -> list[Ranked]:
        """For each text the k best of the chunks that pass the filter: positions and scores, best first.

        `cosine` and `hybrid` take the texts' `vectors`, row by row. Fewer come where fewer pass; bm25 finds only what
        shares a word with the text. Ties go by position. Raises `ValueError` for a retriever that the index does not
        have, k below 1, and vectors that don't go with texts or index.
        """
        if retriever not in self.retrievers:
            notice = f" ({self.notice})" if self.notice else ""
            raise ValueError(f"no retriever {retriever!r} here; there are {', '.join(self.retrievers)}{notice}")
        if k < 1:
            raise ValueError(f"k is {k}; it must be 1 or more")
        allowed = None if only == EVERYTHING else self.matching(only)
        if retriever == "bm25":
            return self._words.hits(texts, k, allowed)
        asked = self._checked(vectors, len(texts))
        if retriever == "cosine":
            return self._near(asked, k, allowed)
        depth = max(k, DEPTH)
        rankings = zip(self._words.hits(texts, depth, allowed), self._near(asked, depth, allowed), strict=True)
        return [fuse(pair, k) for pair in rankings]

    def chunks(self, positions: Sequence[int]) -> list[Chunk]:
        return self._corpus.chunks(positions)

    def chunk(self, position: int) -> Chunk:
        [chunk] = self.chunks([position])
        return chunk

    def find(self, chunk_id: str) -> int | None:
        """The position of the chunk with that id; the first where several have it."""
        return self._corpus.find(chunk_id)

    def around(self, position: int) -> list[Chunk]:
        """The chunk and what it stands in, in order: its section of the label, else its neighbours in the document."""
        return self._corpus.around(position)

    def matching(self, only: Only) -> Mask:
        """Shape (chunks,): which pass the filter."""
        return self._corpus.filters.rows(only)

    def drugs_named(self, text: str) -> tuple[str, ...]:
        """The drugs of labels in this index that a text names."""
        return self._corpus.mentions.of(text)

    def names(self, prefix: str, limit: int) -> list[str]:
        """Names of drugs (labels) and titles (other documents) that begin with the prefix, then those that hold it.

        Case and white space don't count; each part in alphabetical order.
        """
        return self._corpus.names(prefix, limit)

    def _near(self, asked: Vectors, k: int, allowed: Mask | None) -> list[Ranked]:
        assert self._nearest is not None
        return self._nearest.top(asked, k, allowed)

    def _checked(self, vectors: Vectors | None, texts: int) -> Vectors:
        assert self.manifest.encoder is not None
        wanted = (texts, self.manifest.encoder.dimensions)
        if vectors is None or vectors.shape != wanted:
            have = "none" if vectors is None else f"vectors of shape {vectors.shape}"
            raise ValueError(
                f"{texts} texts need vectors of shape {wanted}, and have {have}; encode them with "
                f"{_told(self.manifest.encoder)}"
            )
        if not np.isfinite(vectors).all():
            raise ValueError("the texts' vectors hold values that are no numbers; check the embedding model")
        return vectors


def _nearest(place: Location, manifest: Manifest, parts: Sequence[Vectors]) -> VectorIndex:
    assert manifest.encoder is not None
    if manifest.approximate is not None:
        return VectorIndex(load(place, manifest.approximate), manifest.approximate.exact)
    return VectorIndex(make("exact", parts, manifest.encoder.dimensions))


def _told(encoder: EncoderInfo | None) -> str:
    if encoder is None:
        return "no embedding model"
    return f"{encoder.name} ({encoder.dimensions} dimensions, fingerprint {encoder.fingerprint})"
