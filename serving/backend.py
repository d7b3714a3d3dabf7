"""The service backend on Ray Serve: calls to the other deployments through their handles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import cache, partial
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from fdarx_core.pipeline.uploading import UploadedDocuments
from fdarx_core.rag.flow import RetrievalResult
from fdarx_core.rag.gated_reply import CitedAnswer
from fdarx_core.rag.query import POSTPROCESSORS, RagQuery
from fdarx_core.specs.serve import ServiceConfig
from fdarx_core.telemetry import trace_parent
from serving.http.backend import AnswerEvent, FoundT, Overloaded, ServedCorpus, Unavailable
from serving.replicas import ReplicaWatch

ATTEMPTS = 3
INDEX, RERANKER, INDEXER = "the index", "the reranker", "the indexer"
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
    """Corpora and answers of the other deployments. Methods are called in the event loop, concurrently.

    A question is answered in one call, where its index is. Methods raise Unavailable or Overloaded; a model that is
    down is no error: the result then says what is missing.

    Attributes:
        answerer: name of the model that writes the answers.
        hypothesis: name of the model that writes hypothetical answers.
        postprocessors: the available ones of `none`, `rerank` and `score`.
    """

    def __init__(
        self, config: ServiceConfig, retriever: DeploymentHandle[Any], indexer: DeploymentHandle[Any] | None = None
    ) -> None:
        self.answerer, self.hypothesis = config.answerer, config.roles["hypothesis"]
        self.postprocessors = [name for name in POSTPROCESSORS if name != "rerank" or config.reranker_model]
        # methods are looked up once, since a handle creates a new object at every access
        self._method = cache(partial(getattr, retriever))
        self._stream_answer = retriever.options(method_name="stream_answer", stream=True)
        self._add, self._places = None if indexer is None else indexer.add, config.corpora
        self._corpora: dict[str, ServedCorpus] = {}
        self._watch = ReplicaWatch(retriever.app_name)

    async def open(self) -> None:
        """Return once the retriever has answered; from then on, poll it for newer versions."""
        await self._refresh()
        self._running = [asyncio.create_task(self._keep_refreshing()), asyncio.create_task(self._watch.run())]

    def corpora(self) -> Mapping[str, ServedCorpus]:
        """Return the corpora by name, as of the last update; the first is the default."""
        return self._corpora

    async def search(self, corpus: str, query: RagQuery) -> RetrievalResult | None:
        """Return the passages for a question; None where no passage passes its filter."""
        return await self._retriever("search", corpus, query, trace_parent())

    async def answer(self, corpus: str, query: RagQuery) -> tuple[RetrievalResult, CitedAnswer] | None:
        """Return the passages for a question, and the answer from them; None as for `search`."""
        return await self._retriever("answer", corpus, query, trace_parent())

    def stream_answer(self, corpus: str, query: RagQuery) -> AsyncGenerator[AnswerEvent, None]:
        """Yield what `search` returns, then the pieces of the answer, and at the end the answer."""
        return call_streaming(self._watch, self._stream_answer, corpus, query, trace_parent(), part=INDEX)

    async def run_on_index(self, corpus: str, function: Callable[..., FoundT], *arguments: Any) -> FoundT:
        """Call a function with the `IndexReader` of a corpus and the arguments, where the index is."""
        return await self._retriever("run_on_index", corpus, function, *arguments)

    async def add_documents(self, corpus: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        """Add the documents of a client's file to a corpus as `UploadIndexer.add` does.

        Returns once searches find them; where the call is cancelled, the file is not read any further. Raises
        Unavailable for a service that takes no documents.
        """
        if self._add is None:
            raise Unavailable(INDEXER, "the service was started without one")
        arguments = self._places[corpus], client, name, data
        added: UploadedDocuments = await call(self._watch, self._add, *arguments, part=INDEXER)
        await self._retriever("reload")
        await self._refresh()
        return added

    async def _retriever(self, method: str, *arguments: Any) -> FoundT:
        """Call a method of the retriever. Raises Overloaded, Unavailable."""
        result: FoundT = await call(self._watch, self._method(method), *arguments, part=INDEX)
        return result

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
        corpora: list[ServedCorpus] = await self._retriever("corpora")
        self._corpora = {corpus.name: corpus for corpus in corpora}

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_EVERY_S)
            try:
                await self._refresh()
            except Unavailable as error:
                _LOGGER.warning(f"the retriever does not answer: {error.why}")
