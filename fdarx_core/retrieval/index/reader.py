"""An index in memory: one version, opened, and searched through the retrievers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial

import numpy as np
import pyarrow as pa

from fdarx_core.plugins import PluginError
from fdarx_core.records import Chunk, arrow_schema
from fdarx_core.retrieval.encoders import EncoderInfo, Vectors
from fdarx_core.retrieval.index.chunk_table import ChunkTable
from fdarx_core.retrieval.index.near_copies import NearCopies
from fdarx_core.retrieval.index.segments import Manifest, find_version, read_rows, same_encoder
from fdarx_core.retrieval.index.store import IndexStore
from fdarx_core.retrieval.index.vectors import VectorIndex, load_faiss
from fdarx_core.retrieval.lexical import Integers, Mask, RankedList, tokenize
from fdarx_core.retrieval.retrievers import RETRIEVERS, Collection, Queries, Retriever, VectorSearch, get_retriever
from fdarx_core.storage import Location, RunDirectory, StorageError

MOST_PARTS = 64
"""Parts of a collection that are kept for the next search: the passages of a drug's labels, mostly."""
INDEX_ENCODER = "cosine"
"""The name under which retrievers know the embedding model of an index."""

_NO_VECTORS = (
    "the index was built without an embedding model, so that only retrievers by words search it; for cosine and "
    "hybrid, pip install 'fdarx[models,faiss]' and build it again"
)
_NO_FAISS = (
    "FAISS is not installed, so that only retrievers by words search this index; for cosine and hybrid, "
    "pip install 'fdarx[models,faiss]'"
)


class IndexReader(ChunkTable):
    """One version of an index: its chunks, which retrievers search. It never changes, and threads may share it.

    Attributes:
        retrievers: the names of the retrievers that can search it.
        notice: why some retrievers are missing and what to do about it, else "".
    """

    def __init__(self, manifest: Manifest, chunks: pa.Table, vector_index: VectorIndex | None) -> None:
        super().__init__(chunks)
        self.manifest = manifest
        self.version = manifest.version
        self.notice = "" if vector_index else _NO_VECTORS if manifest.encoder is None else _NO_FAISS
        searches = {INDEX_ENCODER: vector_index.search} if vector_index else {}
        self._collection = Collection(self.texts(), matching_only=True, searches=searches)
        _ = self._collection.bm25  # built before threads share the reader
        self._parts = lru_cache(maxsize=MOST_PARTS)(self._part)
        self._retrievers: dict[str, Retriever] = {}
        for name in RETRIEVERS:
            with suppress(PluginError):  # of a package that cannot be imported
                retriever = get_retriever(name)
                if retriever.encoders <= searches.keys():
                    self._retrievers[name] = retriever
        self.retrievers = tuple(self._retrievers)

    @classmethod
    def open(cls, place: str | Location, *, version: str | None = None) -> IndexReader:
        """Open the current version of an index, or an older one by its name.

        Raises StorageError where there is none, `IndexDamaged` where a file is missing or has other content.
        """
        place = place if isinstance(place, Location) else Location(place)
        manifest = IndexStore(place).current() if version is None else find_version(place, version)
        if manifest is None:
            run = (place / "run.json").exists() and RunDirectory.open(str(place)).info()["job"]
            what = f"it is a run of {run}" if run else "it has no index.json"
            raise StorageError(f"{place} is not an index: {what}; make one: fdarx index --documents … --out …")
        dense = manifest.encoder is not None and load_faiss() is not None
        rows = list(read_rows(place, manifest, vectors=dense))
        chunks = pa.concat_tables([own for own, _ in rows] or [arrow_schema(Chunk).empty_table()])
        if not dense or manifest.encoder is None:
            return cls(manifest, chunks, None)
        vectors = [own for _, own in rows if own is not None]
        return cls(manifest, chunks, VectorIndex(vectors, manifest.encoder.dimensions))

    def check_encoder(self, encoder: EncoderInfo) -> None:
        """Raise StorageError where the vectors of an encoder cannot be compared with those of the index."""
        if not same_encoder(encoder, self.manifest.encoder):
            raise StorageError(
                f"the index was made with {_describe(self.manifest.encoder)}, not with {_describe(encoder)}; give the "
                "model that made it, or build the index again with this one"
            )

    def search(
        self,
        texts: Sequence[str],
        k: int,
        *,
        retriever: str | Retriever = "bm25",
        vectors: Vectors | None = None,
        within: Mask | None = None,
        apart: bool = False,
        keywords: Sequence[str] | None = None,
    ) -> list[RankedList]:
        """Return, for each text, the k best chunks: positions and scores, best first.

        Args:
            texts: the texts to search for.
            k: how many chunks to return for each text, at least 1; fewer where there are no more. Retrievers by words
                return only chunks that share a word with the text.
            retriever: one of `retrievers`, or another retriever.
            vectors: the vectors of the texts, for retrievers that need them: float32 of shape (texts, dimensions).
            within: which chunks may be returned, shape (chunks,); None for all.
            apart: whether the chunks that may be returned are ranked as a collection of their own: retrievers by words
                weigh a word by its frequency in them alone.
            keywords: what retrievers by words search for instead of the texts.

        Raises ValueError for a retriever that cannot search the index, and for a wrong k or wrong vectors.
        """
        if isinstance(retriever, str):
            if retriever not in self._retrievers:
                notice = f" ({self.notice})" if self.notice else ""
                known = ", ".join(self.retrievers)
                raise ValueError(f"no retriever {retriever!r} here; there are {known}{notice}")
            retriever = self._retrievers[retriever]
        if k < 1:
            raise ValueError(f"k is {k}; it must be 1 or more")
        encoded = {INDEX_ENCODER: self._checked(vectors, len(texts))} if retriever.encoders else {}
        if unknown := sorted(retriever.encoders - self._collection.searches.keys()):
            raise ValueError(f"the index has no vectors of the encoder {unknown[0]!r}")
        queries = Queries(texts, encoded, keywords)
        if not apart or within is None:
            return retriever.rank(queries, self._collection, k, within)
        positions, part = self._parts(np.packbits(within).tobytes())
        return [[(int(positions[at]), score) for at, score in ranked] for ranked in retriever.rank(queries, part, k)]

    def _part(self, packed: bytes) -> tuple[Integers, Collection]:
        """Return the positions of some chunks, given as the bits of a mask, and these as a collection of their own."""
        whole = self._collection
        within = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(self)).astype(np.bool_)
        positions = np.flatnonzero(within)
        place = np.cumsum(within) - 1

        def search_part(
            search: VectorSearch, vectors: Vectors, k: int, allowed: Mask | None
        ) -> list[RankedList]:  # `allowed` is None: a part is searched whole
            return [[(int(place[at]), score) for at, score in ranked] for ranked in search(vectors, k, within)]

        searches = {name: partial(search_part, search) for name, search in whole.searches.items()}
        texts = [whole.texts[at] for at in positions.tolist()]
        return positions, Collection(texts, matching_only=True, searches=searches)

    def prepare(self) -> None:
        """Make what searches of labels need, which the first search does otherwise.

        That is: names of drugs and medicines, and near copies.
        """
        _ = self.near_copies, self.headings, self.uploaded_drugs
        self.label_drugs.absent("")

    @cached_property
    def near_copies(self) -> NearCopies:
        """The near copies among the passages of each drug's labels and section."""
        documents, count = self.documents, len(self._distinct["section_code"])
        drugs = self.label_drugs.numbers[documents]
        groups = np.where(drugs < 0, -1, drugs * count + self._codes["section_code"])
        names = {word: (drug * count, (drug + 1) * count) for word, drug in self.label_drugs.own_words.items()}
        return NearCopies(self._collection.inverted_index, groups, documents, self.reference_ranks(), names)

    def near_copies_of(self, position: int) -> list[tuple[str, str, str, str]]:
        """Return the set id, drug, effective date and text of each near copy of a chunk in other labels."""
        positions = self.near_copies.copies(position)
        if not len(positions):
            return []
        columns = self._chunks.select(["set_id", "drug", "text"]).take(pa.array(positions)).to_pydict()
        dates = [label.effective_date if (label := self.labels.get(set_id)) else "" for set_id in columns["set_id"]]
        return list(zip(columns["set_id"], columns["drug"], dates, columns["text"], strict=True))

    def labels_with(self, names: Iterable[str]) -> list[tuple[str, str, str]]:
        """Return the set id, drug and effective date of the labels whose texts have one of the names as whole words.

        Uploaded labels are left out.
        """
        found = np.zeros(len(self), np.bool_)
        for words in {tuple(tokenize(name)) for name in names} - {()}:
            found |= self._collection.inverted_index.with_all(words)
        positions = pa.array(np.flatnonzero(found & ~self.uploaded))
        rows = dict.fromkeys(
            zip(*self._chunks.select(["set_id", "drug"]).take(positions).to_pydict().values(), strict=True)
        )
        return [(set_id, drug, label.effective_date) for set_id, drug in rows if (label := self.labels.get(set_id))]

    def needs_vectors(self, retriever: str) -> bool:
        """Return whether a retriever needs the vectors of the texts to search for."""
        return retriever in self._retrievers and bool(self._retrievers[retriever].encoders)

    def _checked(self, vectors: Vectors | None, texts: int) -> Vectors:
        if self.manifest.encoder is None:
            raise ValueError(self.notice)
        wanted = (texts, self.manifest.encoder.dimensions)
        if vectors is None or vectors.shape != wanted:
            have = "none" if vectors is None else f"vectors of shape {vectors.shape}"
            raise ValueError(
                f"{texts} texts need vectors of shape {wanted}, and have {have}; encode them with "
                f"{_describe(self.manifest.encoder)}"
            )
        if not np.isfinite(vectors).all():
            raise ValueError("the texts' vectors hold values that are not numbers; check the embedding model")
        return vectors


def _describe(encoder: EncoderInfo | None) -> str:
    if encoder is None:
        return "no embedding model"
    return f"{encoder.name} ({encoder.dimensions} dimensions, fingerprint {encoder.fingerprint})"
