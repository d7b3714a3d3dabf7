"""The corpora that one replica serves, each with the version that is now in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import orjson

from fdarx_core.rag.searching import encoded, offered
from fdarx_core.rag.tools import Search
from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.dense import SentenceEncoder
from fdarx_core.retrieval.index import Index, IndexDamaged
from fdarx_core.retrieval.index.files import POINTER, read_bytes
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage import Location, StorageError
from serving.http.world import Corpus


@dataclass(frozen=True, slots=True)
class Held:
    """A corpus as it is now served. `notice` says why some retrievers are missing, `refused` why a newer version is."""

    corpus: Corpus
    index: Index
    notice: str
    refused: str = ""

    @property
    def news(self) -> str:
        """One line on the version that has just landed."""
        if self.refused:
            return f"{self.corpus.name}: a newer version is refused, {self.index.version} stays in use: {self.refused}"
        return f"{self.corpus.name}: version {self.index.version}, {len(self.index)} chunks"


class Corpora:
    """Opens indexes, and newer versions of them. What a request holds stays whole while a newer one takes its place."""

    def __init__(self, places: Mapping[str, str], cosine_model: str | None) -> None:
        """`places` by the corpora's names; `cosine_model` the embedding model's directory, None: MiniLM, if there.

        Raises StorageError where an index can't be served, ModelMissing where the model that was given can't be used.
        """
        self._places = {name: Location(place) for name, place in places.items()}
        self._directories = ModelDirectories(cosine=cosine_model)
        self._held = {name: self._open(name) for name in places}
        self._damaged: set[tuple[str, str]] = set()

    def __getitem__(self, name: str) -> Held:
        return self._held[name]

    def all(self) -> list[Held]:
        return list(self._held.values())

    def encoded(self, searches: Sequence[Search]) -> Vectors:
        """Shape (searches, dimensions). Raises ModelMissing where there is no embedding model."""
        return encoded(self._encoder, searches)

    def reload(self) -> list[Held]:
        """Opens the versions that have landed; returns those corpora of which there is something new to tell.

        A version that can't be served is refused, and the old one stays.
        """
        return [changed for name in self._places if (changed := self._reloaded(name))]

    def _reloaded(self, name: str) -> Held | None:
        held, version = self._held[name], ""
        try:
            version = current_version(self._places[name])
            if (name, version) in self._damaged:
                return None
            changed = replace(held, refused="") if version == held.index.version else self._open(name)
        except (StorageError, ModelMissing, OSError) as error:
            changed = replace(held, refused=str(error))
            if version and isinstance(error, IndexDamaged):
                self._damaged.add((name, version))
        self._held[name] = changed
        news = (changed.refused and changed.refused != held.refused) or changed.index is not held.index
        return changed if news else None

    def _open(self, name: str) -> Held:
        index = Index.open(self._places[name])
        retrievers, notice = offered(index, self._directories)
        return _held(name, index, retrievers, notice)

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        """Questions get the instruction that the first index with vectors has."""
        made = (held.index.manifest.encoder for held in self.all())
        instruction = next((info.instruction for info in made if info is not None), None)
        return SentenceEncoder(self._directories.of("cosine"), instruction=instruction)


def _held(name: str, index: Index, retrievers: tuple[str, ...], notice: str) -> Held:
    kind: Literal["labels", "documents"] = "labels" if len(index) and index.chunk(0).set_id else "documents"
    counts = index.manifest.chunks, index.manifest.documents
    return Held(Corpus(name, index.version, kind, *counts, retrievers), index, notice)


def current_version(place: Location) -> str:
    """The version that the pointer names; reading the manifest every few seconds would cost more."""
    file = place / POINTER
    try:
        return str(orjson.loads(read_bytes(file))["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error
