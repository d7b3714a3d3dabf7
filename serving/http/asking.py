"""A request, checked against what there is to ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from fdarx_core.llm import AskingStopped, response_to
from fdarx_core.llm.exchange import Failure
from fdarx_core.rag.flow import Recipe
from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.rag.tools import Ask, Role, Search
from fdarx_core.records import Found, Response
from fdarx_core.retrieval.index import Only
from serving.http.errors import Problem, unknown
from serving.http.schemas import Filter, Options
from serving.http.settings import ServiceSettings
from serving.http.world import Corpus, Overloaded, ServedTools, Unavailable, World

ValueT = TypeVar("ValueT")
_DOWN = (AskingStopped, Failure, Unavailable, asyncio.TimeoutError)


@dataclass(frozen=True, slots=True)
class Asking:
    """A question and the way to answer it. `since` is when it came, by the monotonic clock."""

    question: str
    corpus: Corpus
    retriever: str
    recipe: Recipe
    tools: Enduring
    since: float


async def checked(
    question: str, corpus: str | None, options: Options, world: World, settings: ServiceSettings
) -> Asking:
    """Raises Problem 422 for what there is not or can't be, naming what there is, and 404 where nothing is left."""
    since, question = time.monotonic(), _question(question, settings.longest_question)
    served = corpus_of(corpus, world)
    strategy = _one_of(STRATEGIES, options.strategy or settings.strategy, "strategy")
    postprocess = options.postprocess or settings.postprocess
    _known(postprocess, world.postprocessors, "postprocess")
    usual = settings.retriever if settings.retriever in served.retrievers else served.retrievers[0]
    retriever = options.retriever or usual
    _known(retriever, served.retrievers, "retriever")
    k, candidates = _amounts(options, settings)
    if postprocess == "none" and not strategy.asks(question):
        candidates = k  # of one search the best stay the best: more would be sent between replicas for nothing
    only = _only(options.filter or Filter(), options.exclude)
    if replace(only, any_drug=False) != Only() and not await world.matches(served.name, only):
        raise Problem(404, _NOTHING.format(served.name), param="filter", code="no_match")
    recipe = Recipe(strategy, postprocess, candidates, k, world.budget, only)
    return Asking(
        question, served, retriever, recipe, Enduring(world.tools(served.name, retriever), settings.model_s), since
    )


_NOTHING = "Nothing in {!r} matches the filter; GET /v1/names lists names, and exclude may leave too much out."


def corpus_of(name: str | None, world: World) -> Corpus:
    """The corpus of that name, the first without one. Raises Problem 422, or Unavailable while there is none."""
    corpora = world.corpora()
    if not corpora:
        raise Unavailable("the index", "no corpus is loaded")
    return _one_of(corpora, next(iter(corpora)) if name is None else name, "corpus")


class Enduring:
    """Tools with which a model that is down, or silent for `patience` seconds, costs its reply and no passages."""

    def __init__(self, tools: ServedTools, patience: float) -> None:
        self._tools, self._patience = tools, patience

    @property
    def version(self) -> str:
        return self._tools.version

    async def ask(self, role: Role, asks: Sequence[Ask]) -> list[Response]:
        try:
            return await asyncio.wait_for(self._tools.ask(role, asks), self._patience)
        except Overloaded:
            raise
        except _DOWN as error:
            return [_down(ask, error) for ask in asks]

    async def stream(self, role: Role, ask: Ask) -> AsyncGenerator[str | Response, None]:
        try:
            async with aclosing(self._tools.stream(role, ask)) as pieces:
                while True:
                    yield await asyncio.wait_for(anext(pieces), self._patience)
        except StopAsyncIteration:
            return
        except Overloaded:
            raise
        except _DOWN as error:
            yield _down(ask, error)

    async def search(self, searches: Sequence[Search], only: Only, k: int) -> list[list[Found]]:
        return await self._tools.search(searches, only, k)

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        return await self._tools.rerank(question, texts)


def _down(ask: Ask, error: Exception) -> Response:
    task, slots = ask
    late = isinstance(error, asyncio.TimeoutError)
    reason = error.reason if isinstance(error, Failure) else "too_slow" if late else "unavailable"
    return response_to(task.request(slots, endpoint="model"), str(error), reason=reason)


def _question(given: str, longest: int) -> str:
    question = given.strip()
    if not question:
        raise Problem(422, "The question is empty: ask something.", param="question", code="empty")
    if len(question) > longest:
        wrong = f"The question has {len(question)} characters; {longest} are the most."
        raise Problem(422, wrong, param="question", code="too_long")
    return question


def _amounts(options: Options, settings: ServiceSettings) -> tuple[int, int]:
    k = options.k or settings.k
    candidates = options.candidates or max(settings.candidates, k)
    if candidates < k:
        raise Problem(
            422, f"candidates ({candidates}) can't be fewer than k ({k}).", param="candidates", code="invalid"
        )
    return k, candidates


def _only(given: Filter, exclude: Sequence[str]) -> Only:
    left_out = tuple(name for one in exclude if (name := one.strip()))
    named = given.drug.strip(), given.set_id.strip(), given.title.strip()
    return Only(*named, left_out, any_drug=given.any_drug)


def _known(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise unknown(what, name, known, param=what)


def _one_of(known: Mapping[str, ValueT], name: str, what: str) -> ValueT:
    _known(name, [*known], what)
    return known[name]
