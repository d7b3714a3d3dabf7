"""Clients of the models on servers, and of the built-in rules, by the roles that they play."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from fdarx_core.llm import TRANSIENT, AskingStopped, Baseline, HttpEndpoint, ModelConfig, response_to
from fdarx_core.rag.search import Role, TaskCall
from fdarx_core.rag.tasks import RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.records import Request, Response

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


class ModelClients:
    """Asks the models. Their limits (`max_in_flight`, rates) apply to this process."""

    def __init__(self, models: Sequence[ModelConfig], roles: Mapping[Role, str]) -> None:
        """`roles` name one of the models, or `baseline`.

        Raises ValueError where the API key of a model is not in this process's environment.
        """
        clients: dict[str, Baseline | HttpModelClient] = {
            config.name: HttpModelClient(config) for config in models if config.name in roles.values()
        }
        clients[Baseline.name] = Baseline(RAG_TASKS, RAG_RULES_VERSION)
        self._clients = {role: clients[name] for role, name in roles.items()}

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        """Return one response per call; a failed one has a reason."""
        client = self._clients[role]
        return list(await asyncio.gather(*(client.ask(_request(client, call)) for call in calls)))

    def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        """Yield the pieces of the reply's text, and at the end the complete Response."""
        client = self._clients[role]
        return client.stream(_request(client, call))


def _request(client: Baseline | HttpModelClient, call: TaskCall) -> Request:
    task, slots = call
    return task.request(slots, endpoint=client.name, sampling=client.sampling)
