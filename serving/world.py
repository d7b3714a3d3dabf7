"""The world behind the HTTP side: other deployments, through their handles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray.serve.handle import DeploymentHandle

from fdarx_core.rag.postprocess import POSTPROCESSORS
from fdarx_core.rag.tools import Ask, Role, Search
from fdarx_core.records import Found, Response
from fdarx_core.retrieval.index import Only
from serving.calls import call, pieces
from serving.http import Corpus, Surroundings, Unavailable
from serving.retriever import Hits, State

INDEX, MODEL, RERANKER = "the index", "the model", "the reranker"
_LOGGER = logging.getLogger("ray.serve")
_HEARD_EVERY_S = 1.0
_READY_WITHIN_S = 2.0


class Handles:
    """The methods of other deployments, each looked up once: a handle makes a new object at every look."""

    def __init__(
        self,
        retriever: DeploymentHandle[Any],
        model: DeploymentHandle[Any],
        reranker: DeploymentHandle[Any] | None,
    ) -> None:
        self.states, self.search, self.matches = retriever.states, retriever.search, retriever.matches
        self.names, self.passage = retriever.names, retriever.passage
        self.ask, self.stream = model.ask, model.options(method_name="stream", stream=True)
        self.score = None if reranker is None else reranker.score


class ServeWorld:
    """Corpora and models as deployments have them. `open` begins to listen for newer versions of corpora."""

    def __init__(self, handles: Handles, answerer: str, budget: int | None) -> None:
        self._handles = handles
        self.answerer, self.budget = answerer, budget
        self.postprocessors = [name for name in POSTPROCESSORS if name != "rerank" or handles.score]
        self._corpora: dict[str, Corpus] = {}

    async def open(self) -> None:
        """Returns once the retriever has answered."""
        await self._hear()
        self._hearing = asyncio.create_task(self._keep_hearing())

    def corpora(self) -> Mapping[str, Corpus]:
        return self._corpora

    def tools(self, corpus: str, retriever: str) -> RequestTools:
        return RequestTools(self._handles, corpus, retriever)

    async def matches(self, corpus: str, only: Only) -> bool:
        matches: bool = await call(self._handles.matches, corpus, only, part=INDEX)
        return matches

    async def names(self, corpus: str, prefix: str, limit: int) -> list[str]:
        names: list[str] = await call(self._handles.names, corpus, prefix, limit, part=INDEX)
        return names

    async def passage(self, corpus: str, chunk_id: str) -> Surroundings | None:
        found: Surroundings | None = await call(self._handles.passage, corpus, chunk_id, part=INDEX)
        return found

    async def ready(self) -> Mapping[str, str]:
        """A model that is down is no reason to be taken out of service: passages are found without it."""
        try:
            await asyncio.wait_for(self._hear(), _READY_WITHIN_S)
        except asyncio.TimeoutError:
            return {"index": f"no replica answers within {_READY_WITHIN_S:g} s"}
        except Unavailable as error:
            return {"index": error.why}
        return {}

    async def _hear(self) -> None:
        states: list[State] = await call(self._handles.states, part=INDEX)
        self._corpora = {state.corpus.name: state.corpus for state in states}

    async def _keep_hearing(self) -> None:
        while True:
            await asyncio.sleep(_HEARD_EVERY_S)
            try:
                await self._hear()
            except Unavailable as error:
                _LOGGER.warning(f"the retriever does not answer: {error.why}")


@dataclass(slots=True)
class RequestTools:
    """The tools of one request."""

    handles: Handles
    corpus: str
    retriever: str
    version: str = ""

    async def ask(self, role: Role, asks: Sequence[Ask]) -> list[Response]:
        told = [(task.name, slots) for task, slots in asks]
        responses: list[Response] = await call(self.handles.ask, role, told, part=MODEL)
        return responses

    def stream(self, role: Role, ask: Ask) -> AsyncGenerator[str | Response, None]:
        task, slots = ask
        return pieces(self.handles.stream, role, task.name, slots, part=MODEL)

    async def search(self, searches: Sequence[Search], only: Only, k: int) -> list[list[Found]]:
        asked: tuple[Any, ...] = (self.corpus, searches, only, k, self.retriever)
        hits: Hits = await call(self.handles.search, *asked, part=INDEX)
        self.version = hits.version
        return hits.found

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        if self.handles.score is None:
            raise Unavailable(RERANKER, "the service was started without one")
        scores: list[float] = await call(self.handles.score, question, texts, part=RERANKER)
        return scores
