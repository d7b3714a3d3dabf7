"""Someone to ask: a model on a server, or the built-in rules. Trouble comes back as a response with a reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from fdarx_core.llm import TRANSIENT, AskingStopped, Baseline, HttpEndpoint, ModelConfig, response_to, stream
from fdarx_core.rag.tasks import RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.rag.tools import Ask
from fdarx_core.records import Request, Response

REST_S = 3.0
"""Seconds for which a model that stopped is not asked again."""

_HASTY = {"max_tries": 2, "max_wait_s": 5.0}


class Voice(Protocol):
    """Never raises for what is wrong with a model."""

    async def ask(self, ask: Ask) -> Response: ...

    def stream(self, ask: Ask) -> AsyncGenerator[str | Response, None]:
        """The reply's text piece by piece, and at the end the whole Response."""
        ...


class Rules:
    """The baseline. Its rules compute for milliseconds, in a thread, so that streams go on meanwhile."""

    def __init__(self) -> None:
        self._baseline = Baseline(RAG_TASKS, RAG_RULES_VERSION)

    async def ask(self, ask: Ask) -> Response:
        [response] = await asyncio.to_thread(self._baseline.answer, [self._request(ask)])
        return response

    def stream(self, ask: Ask) -> AsyncGenerator[str | Response, None]:
        return stream(self._baseline, self._request(ask))

    def _request(self, ask: Ask) -> Request:
        task, slots = ask
        return task.request(slots, endpoint=Baseline.name, sampling=self._baseline.sampling)


class Server:
    """A model on a server. One that stops answering is left alone for a while and then asked anew."""

    def __init__(self, config: ModelConfig) -> None:
        """Raises ValueError where the key can't be had."""
        config.key()
        self._config = _hasty(config)
        self._endpoint = HttpEndpoint(self._config)
        self._stopped: AskingStopped | None = None
        self._asks_again_at = 0.0
        self._retiring: set[asyncio.Task[None]] = set()

    async def ask(self, ask: Ask) -> Response:
        request = self._request(ask)
        if self._rests():
            return self._gone(request)
        endpoint = self._endpoint
        try:
            return await endpoint.ask(request)
        except AskingStopped as error:
            return self._gone(request, endpoint, error)

    async def stream(self, ask: Ask) -> AsyncGenerator[str | Response, None]:
        request = self._request(ask)
        if self._rests():
            yield self._gone(request)
            return
        endpoint = self._endpoint
        try:
            async with aclosing(stream(endpoint, request)) as pieces:
                async for piece in pieces:
                    yield piece
        except AskingStopped as error:
            yield self._gone(request, endpoint, error)

    def _request(self, ask: Ask) -> Request:
        task, slots = ask
        return task.request(slots, endpoint=self._config.name, sampling=self._endpoint.sampling)

    def _rests(self) -> bool:
        """Once the rest is over, a fresh endpoint is asked: one that has stopped never asks again."""
        if self._stopped is None:
            return False
        if time.monotonic() < self._asks_again_at:
            return True
        task = asyncio.create_task(_retire(self._endpoint))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        self._endpoint, self._stopped = HttpEndpoint(self._config), None
        return False

    def _gone(
        self, request: Request, endpoint: HttpEndpoint | None = None, error: AskingStopped | None = None
    ) -> Response:
        if endpoint is self._endpoint and self._stopped is None:
            self._stopped, self._asks_again_at = error, time.monotonic() + REST_S
        return response_to(request, str(error or self._stopped), reason=f"{TRANSIENT}stopped")


def _hasty(config: ModelConfig) -> ModelConfig:
    """Someone waits: fewer tries than in a batch, unless the models file says how many."""
    left_open = {field: value for field, value in _HASTY.items() if field not in config.model_fields_set}
    return config.model_copy(update=left_open)


async def _retire(endpoint: HttpEndpoint) -> None:
    """Those who still listen to it hear the end."""
    while endpoint.counters.in_flight:
        await asyncio.sleep(1.0)
    await endpoint.close()
