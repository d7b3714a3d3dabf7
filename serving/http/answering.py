"""From a checked question to what is told of it; each route puts that into its own form."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fdarx_core.rag.flow import Finding, RagReply, answer, answer_stream, find
from serving.http.asking import Asking, checked
from serving.http.logs import Note
from serving.http.meter import Meter
from serving.http.replies import answered, found_reply, unanswered
from serving.http.schemas import Options
from serving.http.settings import ServiceSettings
from serving.http.world import World


@dataclass(frozen=True, slots=True)
class Found:
    """A question whose passages are there. `reply` is what is known so far."""

    asking: Asking
    finding: Finding
    reply: dict[str, Any]
    note: Note


class Answering:
    """Searches, asks, counts, and keeps the request's note."""

    def __init__(self, world: World, settings: ServiceSettings, meter: Meter) -> None:
        self._world, self._settings, self._meter = world, settings, meter

    async def search(self, question: str, corpus: str | None, options: Options, note: Note) -> dict[str, Any]:
        """A SearchReply. Raises Problem, Unavailable."""
        asking, finding = await self._find(question, corpus, options, note)
        reply = found_reply(note.request_id, asking, finding)
        self._degraded(reply, note)
        return reply

    async def find(self, question: str, corpus: str | None, options: Options, note: Note) -> Found:
        """The passages for an answer. Raises Problem, Unavailable."""
        asking, finding = await self._find(question, corpus, options, note)
        return Found(asking, finding, unanswered(note.request_id, asking, finding, self._world.answerer), note)

    async def answer(self, found: Found) -> dict[str, Any]:
        """An AnswerReply. Raises Overloaded."""
        return self._told(found, await answer(found.asking.question, found.finding, found.asking.tools))

    async def stream(self, found: Found) -> AsyncGenerator[str | dict[str, Any], None]:
        """The answer's pieces, then the whole AnswerReply. Raises Overloaded."""
        found.note.stream = True
        asking = found.asking
        async with aclosing(answer_stream(asking.question, found.finding, asking.tools)) as pieces:
            async for piece in pieces:
                yield piece if isinstance(piece, str) else self._told(found, piece)

    async def _find(self, question: str, corpus: str | None, options: Options, note: Note) -> tuple[Asking, Finding]:
        note.question = question
        asking = await checked(question, corpus, options, self._world, self._settings)
        recipe = asking.recipe
        note.corpus, note.strategy = asking.corpus.name, recipe.strategy.name
        note.retriever, note.postprocess = asking.retriever, recipe.postprocess
        finding = await find(asking.question, recipe, asking.tools)
        note.passages = len(finding.contexts)
        for phase, seconds in finding.seconds.items():
            self._meter.phase(phase, seconds)
        return asking, finding

    def _told(self, found: Found, reply: RagReply) -> dict[str, Any]:
        told, note = answered(found.reply, found.asking, found.finding, reply), found.note
        note.citations, note.refused = len(reply.read.citations), reply.read.refused
        note.prompt_tokens = told["usage"]["prompt_tokens"]
        note.completion_tokens = told["usage"]["completion_tokens"]
        self._meter.phase("answer", reply.seconds)
        self._degraded(told, note)
        return told

    def _degraded(self, reply: dict[str, Any], note: Note) -> None:
        if reply["degraded"]:
            note.degraded = reply["degraded"]
            self._meter.degraded(note.degraded)
