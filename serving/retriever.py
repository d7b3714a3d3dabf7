"""Serve deployment that answers: indexes in memory, replaced by newer versions without losing a request.

Ray is imported only by the deployment: `fdarx serve` opens the indexes before it starts Ray, to report errors early.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fdarx_core.rag.flow import context_budget
from fdarx_core.rag.locating import index_texts
from fdarx_core.rag.search import SearchQuery, available_retrievers, encode_queries, index_encoder
from fdarx_core.rag.verifying import named_engine
from fdarx_core.retrieval.encoders import SentenceEncoder, Vectors
from fdarx_core.retrieval.index import IndexDamaged, IndexReader
from fdarx_core.retrieval.index.segments import read_pointer, version_number
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.specs.serve import ServiceConfig
from fdarx_core.storage import Location, StorageError
from fdarx_core.telemetry import flush
from serving.batching import DynamicBatcher
from serving.http.backend import ServedCorpus
from serving.model_clients import ModelClients
from serving.questions import QuestionAnswering

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

_LOGGER = logging.getLogger("ray.serve")
_MAX_ENCODED_PER_CALL = 64


@dataclass(frozen=True, slots=True)
class LoadedCorpus:
    """An index in use. `notice` says why retrievers are missing, `refused` why a newer version can't be used."""

    corpus: ServedCorpus
    index: IndexReader
    notice: str
    refused: str = ""


class CorpusStore:
    """Opens indexes and their newer versions. A version stays intact for the requests that use it."""

    def __init__(self, places: Mapping[str, str], cosine_model: str | None) -> None:
        """Open the indexes at `places`, by corpus name.

        `cosine_model` is the directory of the embedding model; None: MiniLM, where it is installed. Raises
        StorageError where an index can't be read, ModelMissing where the given model can't be used.
        """
        self._places = {name: Location(place) for name, place in places.items()}
        self._directories = ModelDirectories(cosine=cosine_model)
        self.loaded = {name: self._open(name) for name in places}
        self._damaged: set[tuple[str, str]] = set()
        self._reloading = threading.Lock()

    def encode(self, queries: Sequence[SearchQuery]) -> Vectors:
        """Return vectors of shape (queries, dimensions). Raises ModelMissing where there is no embedding model."""
        return encode_queries(self._encoder, queries)

    def reload(self) -> list[LoadedCorpus]:
        """Open versions that have been committed since; return the corpora that have changed.

        Where the newer version can't be used, the present one stays, and `refused` says why. Threads that reload at the
        same time wait for each other, so that no older version takes the place of a newer one; searches do not wait.
        """
        with self._reloading:
            return [changed for name in self._places if (changed := self._reload(name))]

    def _reload(self, name: str) -> LoadedCorpus | None:
        present, version = self.loaded[name], ""
        try:
            version = read_pointer(self._places[name])
            if (name, version) in self._damaged:
                return None
            changed = replace(present, refused="") if version == present.index.version else self._open(name)
        except (StorageError, ModelMissing, OSError) as error:
            changed = replace(present, refused=str(error))
            if version and isinstance(error, IndexDamaged):
                self._damaged.add((name, version))
        self.loaded[name] = changed
        newly_refused = changed.refused and changed.refused != present.refused
        return changed if newly_refused or changed.index is not present.index else None

    def _open(self, name: str) -> LoadedCorpus:
        index = IndexReader.open(self._places[name])
        index.prepare()  # takes seconds, which a request should not wait
        index_texts(index.passages())
        retrievers, notice = available_retrievers(index, self._directories)
        kind: Literal["labels", "documents"] = "labels" if index.has_labels else "documents"
        counts = index.manifest.chunks, index.manifest.documents
        return LoadedCorpus(ServedCorpus(name, index.version, kind, *counts, retrievers), index, notice)

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        """The embedding model, with the instruction for questions of the first index that has vectors."""
        indexes = [loaded.index for loaded in self.loaded.values()]
        dense = [index for index in indexes if index.manifest.encoder is not None]
        return index_encoder((dense or indexes)[0], self._directories)


class RetrieverDeployment(QuestionAnswering):
    """Answers questions over the corpora. A question is answered from one version, which its result names."""

    def __init__(self, config: ServiceConfig, reranker: DeploymentHandle[Any] | None = None) -> None:
        """Open the indexes, and check for newer versions from time to time.

        Raises ValueError where the API key of a model is not in this process's environment.
        """
        from serving.replicas import ReplicaWatch

        self._corpora = CorpusStore(config.corpora, config.cosine_model)
        corpora = self._corpora.loaded.values()
        if any(loaded.index.needs_vectors(name) for loaded in corpora for name in loaded.corpus.retrievers):
            self._corpora.encode([SearchQuery("", 1, is_question=True)])  # load the model before the first request
        self._encode = DynamicBatcher[SearchQuery, Vectors](
            lambda queries: list(self._corpora.encode(queries)), _MAX_ENCODED_PER_CALL
        )
        self.models = ModelClients(config.models, config.roles)
        self.answerer, self.model_timeout_s = config.answerer, config.http.model_s
        answerer_config = next((model for model in config.models if model.name == self.answerer), None)
        self.max_context_characters = context_budget(answerer_config)
        self.verifier = named_engine(config.http.verifier, self.answerer)
        running = asyncio.get_running_loop().create_task
        if reranker is not None:
            self._score, self._watch = reranker.score, ReplicaWatch(reranker.app_name)
            self._watching = running(self._watch.run())
        for loaded in corpora:
            _record_version(loaded)
        self._polling = running(self._poll(config.poll_s))

    def index_of(self, corpus: str) -> IndexReader:
        return self._corpora.loaded[corpus].index

    async def encode(self, queries: Sequence[SearchQuery]) -> Vectors:
        return np.stack(await asyncio.gather(*(self._encode(query) for query in queries)))

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        from serving.backend import RERANKER, call

        scores: list[float] = await call(self._watch, self._score, question, texts, part=RERANKER)
        return scores

    async def corpora(self) -> list[ServedCorpus]:
        return [loaded.corpus for loaded in self._corpora.loaded.values()]

    async def reload(self) -> None:
        """Open the versions that have been committed since; requests in progress keep theirs."""
        self._tell(await asyncio.to_thread(self._corpora.reload))

    async def _poll(self, poll_s: float) -> None:
        while True:
            await asyncio.sleep(poll_s)
            await self.reload()
            for loaded in self._corpora.loaded.values():
                _record_version(loaded)  # Ray forgets a gauge that is not set again

    def __del__(self) -> None:
        """Send the last spans; Ray Serve calls this before it ends a replica."""
        flush()

    @staticmethod
    def _tell(reloaded: Sequence[LoadedCorpus]) -> None:
        for loaded in reloaded:
            _record_version(loaded, reloaded=True)
            name, version = loaded.corpus.name, loaded.index.version
            if loaded.refused:
                _LOGGER.error(f"{name}: a newer version is refused, {version} stays in use: {loaded.refused}")
            else:
                _LOGGER.info(f"{name}: version {version}, {len(loaded.index)} chunks")


def _record_version(loaded: LoadedCorpus, *, reloaded: bool = False) -> None:
    from serving.metrics import record

    corpus = loaded.corpus
    if reloaded:
        record("fdarx_index_reloads", corpus=corpus.name, outcome="refused" if loaded.refused else "loaded")
    record("fdarx_index_version", version_number(corpus.version), corpus=corpus.name)
    record("fdarx_index_chunks", corpus.chunks, corpus=corpus.name)
