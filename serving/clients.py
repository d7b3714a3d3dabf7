"""Clients for the models that the service asks: a model on a server, or the built-in baseline.

Both have `ask`, which returns the Response, and `stream`, which yields the pieces of the reply's text and at the end
the Response. A failing model never raises: its response has the reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fdarx_core.llm import TRANSIENT, AskingStopped, Baseline, HttpEndpoint, ModelConfig, response_to
from fdarx_core.rag.search import TaskCall
from fdarx_core.rag.tasks import RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.records import Request, Response

PAUSE_S = 3.0
"""Seconds for which a model that has stopped answering is not asked again."""

_INTERACTIVE_LIMITS = {"max_tries": 2, "max_wait_s": 5.0}


class BaselineClient:
    """The built-in rules. They take milliseconds, and run in a thread so that other streams continue meanwhile."""

    def __init__(self) -> None:
        self._baseline = Baseline(RAG_TASKS, RAG_RULES_VERSION)

    async def ask(self, call: TaskCall) -> Response:
        [response] = await asyncio.to_thread(self._baseline.answer, [self._request(call)])
        return response

    def stream(self, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        return self._baseline.stream(self._request(call))

    def _request(self, call: TaskCall) -> Request:
        task, slots = call
        return task.request(slots, endpoint=Baseline.name, sampling=self._baseline.sampling)


class HttpModelClient:
    """A model on a server. A model that stops answering is not asked for `PAUSE_S`, then a new endpoint is opened."""

    def __init__(self, config: ModelConfig) -> None:
        """Raise ValueError where the API key is missing.

        A user waits, so there are fewer retries than in a batch, unless the models file sets their number.
        """
        config.key()
        unset = {field: value for field, value in _INTERACTIVE_LIMITS.items() if field not in config.model_fields_set}
        self._config = config.model_copy(update=unset)
        self._endpoint = HttpEndpoint(self._config)
        self._error: AskingStopped | None = None
        self._paused_until = 0.0
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, call: TaskCall) -> Response:
        request = self._request(call)
        if self._is_paused():
            return self._failure(request)
        endpoint = self._endpoint
        try:
            return await endpoint.ask(request)
        except AskingStopped as error:
            return self._stopped(request, endpoint, error)

    async def stream(self, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        request = self._request(call)
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

    def _request(self, call: TaskCall) -> Request:
        task, slots = call
        return task.request(slots, endpoint=self._config.name, sampling=self._endpoint.sampling)

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
