"""How a question becomes a cited answer: rewrite, search, post-process, answer. One way for the service and the job."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.llm import Unparsable
from fdarx_core.rag.contexts import fitting, numbered
from fdarx_core.rag.pool import pool
from fdarx_core.rag.postprocess import order, read_score, score_asks
from fdarx_core.rag.reading import NOTHING_FOUND, AnswerRead, read_answer
from fdarx_core.rag.strategies import Strategy
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.rag.tools import Ask, Search, StreamingTools, Tools
from fdarx_core.records import Found, Response
from fdarx_core.retrieval.index import Only

CANDIDATES, CONTEXTS = 24, 6
"""Source: QA-RAG §3.3."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to answer: `candidates` are found, and `contexts` of them left by the post-processing.

    `budget` is how many characters of contexts the answering model can be shown; None: all.
    """

    strategy: Strategy
    postprocess: str = "none"
    candidates: int = CANDIDATES
    contexts: int = CONTEXTS
    budget: int | None = None
    only: Only = field(default_factory=Only)


@dataclass(slots=True)
class Finding:
    """What was found for a question.

    `contexts` are the chunks that the answering model is shown, `shown` the same as it is shown them. `missing` says
    what a step had to do without, and why. `seconds` are by phase: rewrite, search, postprocess. `rewritten` and
    `scored` are what models said in the first and the last of these.
    """

    searches: list[Search]
    candidates: list[Found]
    contexts: list[Found]
    shown: list[dict[str, Any]]
    missing: list[str]
    seconds: dict[str, float]
    rewritten: list[Response] = field(default_factory=list)
    scored: list[Response] = field(default_factory=list)


@dataclass(slots=True)
class RagReply:
    """An answer as it was understood. `reason` says why there is none; `response` is None where nobody was asked."""

    read: AnswerRead
    reason: str
    response: Response | None
    seconds: float


async def find(question: str, recipe: Recipe, tools: Tools) -> Finding:
    """The contexts for a question. Raises whatever the tools raise."""
    clock = _Clock()
    rewritten, replies, missing = await _rewritten(question, recipe.strategy, tools)
    searches = recipe.strategy.searches(question, replies, recipe.candidates)
    clock.lap("rewrite")
    # Deeper than its share: what two searches find, or one finds twice, fills one slot, and each goes on down its list.
    found = await tools.search(searches, recipe.only, recipe.candidates + recipe.contexts)
    candidates = pool(found, [search.share for search in searches])
    clock.lap("search")
    contexts, scored = await _chosen(question, candidates, recipe, tools, missing)
    clock.lap("postprocess")
    shown = numbered(contexts) if recipe.budget is None else fitting(numbered(contexts), recipe.budget)
    return Finding(searches, candidates, contexts[: len(shown)], shown, missing, clock.seconds, rewritten, scored)


async def answer(question: str, finding: Finding, tools: Tools) -> RagReply:
    """The answer from a finding's contexts; without any it is a refusal, and nobody is asked."""
    if not finding.contexts:
        return _nothing()
    start = time.monotonic()
    [response] = await tools.ask("answerer", [answer_ask(question, finding)])
    return _reply(response, finding, time.monotonic() - start)


async def answer_stream(question: str, finding: Finding, tools: StreamingTools) -> AsyncGenerator[str | RagReply, None]:
    """The answer's text piece by piece, then the whole of it; pieces joined may differ from it in outer white space."""
    if not finding.contexts:
        yield NOTHING_FOUND
        yield _nothing()
        return
    start = time.monotonic()
    async with aclosing(tools.stream("answerer", answer_ask(question, finding))) as pieces:
        async for piece in pieces:
            yield piece if isinstance(piece, str) else _reply(piece, finding, time.monotonic() - start)


def answer_ask(question: str, finding: Finding) -> Ask:
    """What is asked for an answer."""
    return ANSWER_WITH_CITATIONS, {"question": question, "contexts": finding.shown}


async def _rewritten(question: str, strategy: Strategy, tools: Tools) -> tuple[list[Response], list[Any], list[str]]:
    """The models' texts to search with; None, and a line that says why, where one could not be had."""
    asks = strategy.asks(question)
    if not asks:
        return [], [], []
    responses = await tools.ask(strategy.role, asks)
    replies, missing = [], []
    for (task, _), response in zip(asks, responses, strict=True):
        try:
            replies.append(task.parse(response))
        except Unparsable as error:
            replies.append(None)
            missing.append(f"{task.name}: {error.reason}: {error.detail}")
    return responses, replies, missing


async def _chosen(
    question: str, candidates: list[Found], recipe: Recipe, tools: Tools, missing: list[str]
) -> tuple[list[Found], list[Response]]:
    if recipe.postprocess == "none" or not candidates:
        return candidates[: recipe.contexts], []
    if recipe.postprocess == "rerank":
        scores: Sequence[float | None] = await tools.rerank(question, [found.chunk.text for found in candidates])
        return order(candidates, scores, recipe.contexts), []
    responses = await tools.ask("scorer", score_asks(question, candidates))
    scores = [read_score(response, missing) for response in responses]
    return order(candidates, scores, recipe.contexts), responses


def _reply(response: Response, finding: Finding, seconds: float) -> RagReply:
    try:
        text = ANSWER_WITH_CITATIONS.parse(response)
    except Unparsable as error:
        return RagReply(AnswerRead("", [], False, []), f"{error.reason}: {error.detail}", response, seconds)
    read = read_answer(text, len(finding.contexts))
    return RagReply(read, "" if read.text else "empty_reply: nothing but thoughts", response, seconds)


def _nothing() -> RagReply:
    return RagReply(AnswerRead(NOTHING_FOUND, [], True, []), "", None, 0.0)


class _Clock:
    """Seconds a phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase], self._since = now - self._since, now
