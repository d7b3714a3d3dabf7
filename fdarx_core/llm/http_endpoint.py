"""A model on a server.

Why not a vendor's client: measured, those cost 6 to 10 times the CPU of aiohttp, and wait for retries in their slots.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure, Messages, complaint, decoded
from fdarx_core.llm.first_alone import FirstAlone
from fdarx_core.llm.guards import cut_whitespace_loop
from fdarx_core.llm.model_tries import ModelAsking, ModelTries, estimated_tokens
from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.repair import fault, repair_turns
from fdarx_core.llm.streamed import streamed
from fdarx_core.records import Request, Response


class HttpEndpoint:
    """Asks one model, within limits that hold for all who use this object; it belongs to one event loop.

    It may travel to the process that will ask; the key never does, it is read there from the environment. Whoever is
    cancelled while asking or streaming leaves nothing behind: the slot is free, the connection closed.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.name = config.name
        self.sampling: Mapping[str, Any] = config.answers_depend_on
        self._tries = ModelTries(config)
        self.counters, self.limits = self._tries.counters, self._tries.limits
        self._first = FirstAlone(wanted=config.first_goes_alone)

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        """The response to a request; where asking failed, its reason says how.

        `admit` is called once, in the slot, before anything is sent, and may raise. Raises EndpointStopped where no
        request can succeed (key, model, address), and whatever stopped `limits`.
        """
        with self._tries.asking(request, admit) as asking:
            try:
                answer = await self._repaired(asking, await self._answer(asking, request.messages))
            except Failure as failure:
                answer = Answer(failure.detail, "error", reason=failure.reason)
        return self._tries.response(asking, answer)

    def stream(
        self, request: Request, admit: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[str | Response, None]:
        """The reply's text in pieces as the server sends them, and last the response as a whole.

        Failed tries are repeated until the first piece is out; what fails later ends the stream with a response whose
        reason says how, and whose text is the pieces so far. `timeout_s` holds for a try with all its pieces. To stop
        early, close the stream (`contextlib.aclosing`) or cancel whoever reads it: the server then sees the connection
        closed. Raises ValueError for a request with a schema, else as `ask`.
        """
        if request.schema:
            raise ValueError(f"task {request.task} wants a reply in a schema, which is of no use in pieces; ask for it")
        return streamed(self._tries, request, admit)

    async def close(self) -> None:
        await self._tries.transport.close()

    async def _answer(self, asking: ModelAsking, messages: Messages) -> Answer:
        while True:
            try:
                async with (
                    self._first.turn(asking.request) as waited,
                    self._tries.slot(asking, estimated_tokens(messages), waited),
                ):
                    reply = await self._post(asking, messages)
                return self._read(reply, messages)
            except Failure as failure:
                await self._tries.wait_after(asking, failure)

    async def _post(self, asking: ModelAsking, messages: Messages) -> bytes:
        body = self._tries.body(asking, messages)
        started = time.monotonic()
        reply = await self._tries.transport.post(body)
        asking.latency_s = time.monotonic() - started
        return reply

    def _read(self, reply: bytes, messages: Messages) -> Answer:
        content = decoded(reply)
        try:
            answer = self._tries.wire.answer(content)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise Failure(f"{TRANSIENT}wrong_shape", f"no reply of this API: {complaint(reply)}") from None
        cut_whitespace_loop(answer)
        self._tries.answered(messages, answer)
        return answer

    async def _repaired(self, asking: ModelAsking, answer: Answer) -> Answer:
        """The answer, or what one repair made of it; one that was cut short, or can't be repaired, stays as it is."""
        request, mode = asking.request, asking.dialect.mode
        if (
            not request.schema
            or answer.reason
            or answer.finish_reason != "stop"
            or not (wrong := fault(answer, request, mode))
        ):
            return answer
        try:
            repaired = await self._answer(asking, [*request.messages, *repair_turns(answer, request, wrong)])
        except Failure as failure:
            if failure.transient:
                raise
            return answer
        repaired.prompt_tokens += answer.prompt_tokens
        repaired.cached_tokens += answer.cached_tokens
        repaired.completion_tokens += answer.completion_tokens
        repaired.written_tokens += answer.written_tokens
        return repaired
