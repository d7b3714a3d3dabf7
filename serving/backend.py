"""The service backend on Ray Serve: calls to the other deployments through their handles, and to model servers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from fdarx_core.labels.drugs import Mention
from fdarx_core.llm import TRANSIENT, AskingStopped, HttpEndpoint, ModelConfig, response_to
from fdarx_core.pipeline.uploading import UploadedDocuments
from fdarx_core.rag.flow import POSTPROCESSORS
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.records import AbsentDrug, Chunk, Request, Response, SearchHit
from fdarx_core.retrieval.index import ChunkFilter, FilterValue, LabelSection, NameCompletion
from fdarx_core.telemetry import trace_parent
from serving.http import Overloaded, ServedCorpus, Unavailable
from serving.replicas import ReplicaWatch

PAUSE_S = 3.0
"""Seconds for which a model that has stopped answering is not asked again."""

_INTERACTIVE_LIMITS = {"max_tries": 2, "max_wait_s": 5.0}


class HttpModelClient:
    """A model on a server. A failure is not raised, but is the reason of a response.

    A model that stops answering is not asked for `PAUSE_S`, then a new endpoint is opened.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Raise ValueError where the API key, or something else that requests need, is missing.

        A user waits, so there are fewer retries than in a batch, unless the models file sets their number.
        """
        config.check_access()
        self.name, self.sampling = config.name, config.request_parameters
        unset = {field: value for field, value in _INTERACTIVE_LIMITS.items() if field not in config.model_fields_set}
        self._config = config.model_copy(update=unset)
        self._endpoint = HttpEndpoint(self._config)
        self._error: AskingStopped | None = None
        self._paused_until = 0.0
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request) -> Response:
        if self._is_paused():
            return self._failure(request)
        endpoint = self._endpoint
        try:
            return await endpoint.ask(request)
        except AskingStopped as error:
            return self._stopped(request, endpoint, error)

    async def stream(self, request: Request) -> AsyncGenerator[str | Response, None]:
        """Yield the pieces of the reply's text, and at the end the response."""
        if self._is_paused():
            yield self._failure(request)
            return
        endpoint = self._endpoint
        try:
            async with aclosing(endpoint.stream(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except AskingStopped as error:
            yield self._stopped(request, endpoint, error)

    def _is_paused(self) -> bool:
        """Return whether the pause lasts; after it, replace the endpoint, since one that has stopped stays stopped."""
        if self._error is None:
            return False
        if time.monotonic() < self._paused_until:
            return True
        task = asyncio.create_task(_close_when_idle(self._endpoint))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._endpoint, self._error = HttpEndpoint(self._config), None
        return False

    def _stopped(self, request: Request, endpoint: HttpEndpoint, error: AskingStopped) -> Response:
        if endpoint is self._endpoint and self._error is None:
            self._error, self._paused_until = error, time.monotonic() + PAUSE_S
        return self._failure(request, error)

    def _failure(self, request: Request, error: AskingStopped | None = None) -> Response:
        return response_to(request, str(error or self._error), reason=f"{TRANSIENT}stopped")


async def _close_when_idle(endpoint: HttpEndpoint) -> None:
    """Close the endpoint once its last stream has ended."""
    while endpoint.counters.in_flight:
        await asyncio.sleep(1.0)
    await endpoint.close()


ATTEMPTS = 3
INDEX, MODEL, RERANKER, INDEXER = "the index", "the model", "the reranker", "the indexer"
_REPLICA_DIED = (RayActorError, ReplicaUnavailableError)
_FAILURES = (*_REPLICA_DIED, BackPressureError, DeploymentUnavailableError)
_LOGGER = logging.getLogger("ray.serve")
_REFRESH_EVERY_S = 1.0
_READY_WITHIN_S = 2.0


async def call(watch: ReplicaWatch, method: DeploymentHandle[Any], *arguments: Any, part: str) -> Any:
    """Call `method` of a deployment's handle, again where a replica dies: the method may run more than once.

    A cancelled call is cancelled in the replica too. Raises Overloaded where the deployment's queue is full,
    Unavailable where no replica answers.
    """
    for attempts_left in reversed(range(ATTEMPTS)):
        async with watch.guard(method.deployment_name, part):
            response: Any = method.remote(*arguments)
            try:
                return await response
            except asyncio.CancelledError:
                response.cancel()
                raise
            except _FAILURES as error:
                if not attempts_left or not isinstance(error, _REPLICA_DIED):
                    raise _unavailable(part, error) from error
    raise AssertionError


async def call_streaming(
    watch: ReplicaWatch, method: DeploymentHandle[Any], *arguments: Any, part: str
) -> AsyncGenerator[Any, None]:
    """Yield what `method` yields. It is called again only if its replica dies before the first piece."""
    for attempts_left in reversed(range(ATTEMPTS)):
        started = False
        stream: Any = method.remote(*arguments)
        try:
            while True:
                async with watch.guard(method.deployment_name, part):
                    piece = await anext(stream)
                started = True
                yield piece
        except StopAsyncIteration:
            return
        except _FAILURES as error:
            if started or not attempts_left or not isinstance(error, _REPLICA_DIED):
                raise _unavailable(part, error) from error
        finally:
            stream.cancel()


def _unavailable(part: str, error: Exception) -> Unavailable:
    if isinstance(error, BackPressureError):
        return Overloaded(part, str(error))
    if isinstance(error, DeploymentUnavailableError):
        return Unavailable(part, error.message)
    return Unavailable(part, f"{type(error).__name__}: a replica died")  # Ray's own message has many lines


class RayServeBackend:
    """Corpora and models of the other deployments. `open` starts to poll the retriever for newer versions."""

    def __init__(
        self,
        retriever: DeploymentHandle[Any],
        model: DeploymentHandle[Any],
        reranker: DeploymentHandle[Any] | None,
        answerer: str,
        hypothesis: str,
        budget: int | None,
        indexer: DeploymentHandle[Any] | None = None,
    ) -> None:
        """`answerer` and `hypothesis` name the models that write answers and hypothetical answers, and `budget` is the
        characters of passages that fit into the answerer's prompt (None: any number)."""
        self.answerer, self.hypothesis, self.budget = answerer, hypothesis, budget
        self.postprocessors = [name for name in POSTPROCESSORS if name != "rerank" or reranker]
        # methods are looked up once, since a handle creates a new object at every access
        self._search, self._corpora_method = retriever.search, retriever.corpora
        self._matches, self._names, self._filter_values = retriever.matches, retriever.names, retriever.filter_values
        self._passage, self._section = retriever.passage, retriever.section
        self._find_drugs, self._absent_drugs = retriever.find_drugs, retriever.absent_drugs
        self._ask, self._stream = model.ask, model.options(method_name="stream", stream=True)
        self._score = None if reranker is None else reranker.score
        self._add = None if indexer is None else indexer.add
        self._reload = retriever.reload
        self._corpora: dict[str, ServedCorpus] = {}
        self._watch = ReplicaWatch(retriever.app_name)

    async def open(self) -> None:
        """Return once the retriever has answered."""
        await self._refresh()
        self._running = [asyncio.create_task(self._keep_refreshing()), asyncio.create_task(self._watch.run())]

    def corpora(self) -> Mapping[str, ServedCorpus]:
        return self._corpora

    async def search(
        self, corpus: str, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int, retriever: str
    ) -> tuple[str, list[list[SearchHit]]]:
        found: tuple[str, list[list[SearchHit]]]
        found = await call(self._watch, self._search, corpus, queries, filter, k, retriever, part=INDEX)
        return found

    def _has_labels(self, corpus: str) -> bool:
        """Return whether a corpus has labels: without any, no drug is looked for, which saves calls."""
        known = self._corpora.get(corpus)
        return known is None or known.kind == "labels"

    async def absent_drugs(self, corpus: str, text: str) -> list[AbsentDrug]:
        if not self._has_labels(corpus):
            return []
        found: list[AbsentDrug] = await call(self._watch, self._absent_drugs, corpus, text, part=INDEX)
        return found

    async def find_drugs(self, corpus: str, texts: Sequence[str]) -> list[list[Mention]]:
        if not self._has_labels(corpus):
            return [[] for _ in texts]
        found: list[list[Mention]] = await call(self._watch, self._find_drugs, corpus, texts, part=INDEX)
        return found

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        if self._score is None:
            raise Unavailable(RERANKER, "the service was started without one")
        scores: list[float] = await call(self._watch, self._score, question, texts, part=RERANKER)
        return scores

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        asked = [(task.name, slots) for task, slots in calls]
        responses: list[Response] = await call(self._watch, self._ask, role, asked, trace_parent(), part=MODEL)
        return responses

    def stream(self, role: Role, task_call: TaskCall) -> AsyncGenerator[str | Response, None]:
        task, slots = task_call
        return call_streaming(self._watch, self._stream, role, task.name, slots, trace_parent(), part=MODEL)

    async def matches(self, corpus: str, filter: ChunkFilter) -> bool:
        matches: bool = await call(self._watch, self._matches, corpus, filter, part=INDEX)
        return matches

    async def names(self, corpus: str, prefix: str, limit: int) -> list[NameCompletion]:
        names: list[NameCompletion] = await call(self._watch, self._names, corpus, prefix, limit, part=INDEX)
        return names

    async def filter_values(self, corpus: str, labeler: str, limit: int) -> dict[str, list[FilterValue]]:
        asked = corpus, labeler, limit
        values: dict[str, list[FilterValue]] = await call(self._watch, self._filter_values, *asked, part=INDEX)
        return values

    async def passage(self, corpus: str, chunk_id: str) -> tuple[Chunk, list[Chunk]] | None:
        passage: tuple[Chunk, list[Chunk]] | None = await call(self._watch, self._passage, corpus, chunk_id, part=INDEX)
        return passage

    async def section(self, corpus: str, label: str, section: str) -> LabelSection:
        found: LabelSection = await call(self._watch, self._section, corpus, label, section, part=INDEX)
        return found

    async def add_documents(self, corpus: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        if self._add is None:
            raise Unavailable(INDEXER, "the service was started without one")
        added: UploadedDocuments = await call(self._watch, self._add, corpus, client, name, data, part=INDEXER)
        await call(self._watch, self._reload, part=INDEX)
        await self._refresh()
        return added

    async def ready(self) -> Mapping[str, str]:
        """Return what is not ready. A model that is down does not count: passages are found without it."""
        try:
            await asyncio.wait_for(self._refresh(), _READY_WITHIN_S)
        except asyncio.TimeoutError:
            return {"index": f"no replica answers within {_READY_WITHIN_S:g} s"}
        except Unavailable as error:
            return {"index": error.why}
        return {}

    async def _refresh(self) -> None:
        corpora: list[ServedCorpus] = await call(self._watch, self._corpora_method, part=INDEX)
        self._corpora = {corpus.name: corpus for corpus in corpora}

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_EVERY_S)
            try:
                await self._refresh()
            except Unavailable as error:
                _LOGGER.warning(f"the retriever does not answer: {error.why}")
