"""A model on a server.

Why not a vendor's client: measured, those cost 6 to 10 times the CPU of aiohttp, and wait for retries in their slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from fdarx_core.llm.anthropic_wire import AnthropicWire
from fdarx_core.llm.dialects import Dialect, Dialects
from fdarx_core.llm.endpoints import TRANSIENT, response_to
from fdarx_core.llm.exchange import Answer, EndpointStopped, Failure, Messages, Wire, complaint, decoded
from fdarx_core.llm.guards import cut_whitespace_loop
from fdarx_core.llm.limits import Limits
from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.openai_wire import OpenAIWire
from fdarx_core.llm.patience import Patience
from fdarx_core.llm.repair import fault, repair_turns
from fdarx_core.llm.transport import Transport
from fdarx_core.records import Request, Response

_REFUSED_IN_VAIN = 16
_GIVEN_UP_IN_VAIN = 16
_CHARACTERS_A_TOKEN = 4
_WIRES: dict[str, Wire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire()}
_NOT_THERE = (f"{TRANSIENT}connection", f"{TRANSIENT}dns", f"{TRANSIENT}tls")


@dataclass(slots=True)
class Counters:
    """What an endpoint has done so far. `done` includes what `failed`; cost is in US dollars by the model's prices."""

    asked: int = 0
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class _Asking:
    """One request on its way."""

    request: Request
    patience: Patience
    admit: Callable[[], None]
    since: float
    dialect: Dialect
    sent_at: float = 0.0
    latency_s: float = 0.0


class HttpEndpoint:
    """Asks one model, within limits that hold for all who use this object; it belongs to one event loop.

    It may travel to the process that will ask; the key never does, it is read there from the environment.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.name = config.name
        self.sampling: Mapping[str, Any] = config.answers_depend_on
        self.counters = Counters()
        self.limits = Limits(config.max_in_flight, config.requests_per_minute, config.tokens_per_minute)
        self._wire = _WIRES[config.kind]
        self._transport = Transport(config, self._wire)
        self._dialects = Dialects(config.structured)
        self._refused_in_vain = self._given_up_in_vain = 0

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        """The response to a request; where asking failed, its reason says how.

        `admit` is called once, in the slot, before anything is sent, and may raise. Raises EndpointStopped where no
        request can succeed (key, model, address), and whatever stopped `limits`.
        """
        self.counters.asked += 1
        patience = Patience(request.key, self.config.max_tries, self.config.max_wait_s)
        asking = _Asking(request, patience, admit, time.monotonic(), self._dialects.of(request))
        try:
            answer = await self._repaired(asking, await self._answer(asking, request.messages))
        except Failure as failure:
            answer = Answer(failure.detail, "error", reason=failure.reason)
        return self._response(asking, answer)

    async def close(self) -> None:
        await self._transport.close()

    async def _answer(self, asking: _Asking, messages: Messages) -> Answer:
        while True:
            try:
                return await self._send(asking, messages)
            except Failure as failure:
                if not self._dialects.learn(asking.request, asking.dialect, failure):
                    await self._wait_after(asking, failure)
            self.counters.retries += 1

    async def _send(self, asking: _Asking, messages: Messages) -> Answer:
        estimate = sum(len(message["content"]) for message in messages) // _CHARACTERS_A_TOKEN
        entered_at = await self.limits.enter(estimate, again=asking.patience.sent > 0)
        self.counters.in_flight += 1
        try:
            reply = await self._post(asking, messages)
        except Failure as failure:
            if failure.fatal:  # before the slot goes to one who would ask in vain
                raise self._stopped(failure) from None
            if failure.told_to_wait:
                self.limits.refused(entered_at, failure.retry_after)
            raise
        finally:
            self.counters.in_flight -= 1
            self.limits.leave()
        self.limits.accepted()
        answer = self._read(reply)
        self.limits.correct_tokens(estimate, answer.prompt_tokens + answer.completion_tokens)
        return answer

    async def _post(self, asking: _Asking, messages: Messages) -> bytes:
        """In the slot: what was learned while it waited for one holds for its payload."""
        if not asking.patience.sent:
            asking.admit()
            asking.sent_at = time.monotonic()
        asking.patience.sent += 1
        asking.dialect = self._dialects.of(asking.request)
        payload = self._wire.payload(asking.request, messages, asking.dialect.mode)
        payload[asking.dialect.token_limit] = payload.pop("max_tokens")
        started = time.monotonic()
        reply = await self._transport.post(orjson.dumps(payload))
        asking.latency_s = time.monotonic() - started
        return reply

    def _read(self, reply: bytes) -> Answer:
        content = decoded(reply)
        try:
            answer = self._wire.answer(content)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise Failure(f"{TRANSIENT}wrong_shape", f"no reply of this API: {complaint(reply)}") from None
        cut_whitespace_loop(answer)
        self._given_up_in_vain = 0
        return answer

    async def _repaired(self, asking: _Asking, answer: Answer) -> Answer:
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
        return repaired

    async def _wait_after(self, asking: _Asking, failure: Failure) -> None:
        """Sleeps until the next try is due. Raises the failure where none is, EndpointStopped where nothing answers."""
        seconds = asking.patience.seconds_after(failure)
        gone = failure.reason in _NOT_THERE and self._transport.answered_at < asking.since
        if failure.reason == "refused_request" and not self._transport.answered_at:
            self._refused_in_vain += 1
        if seconds is None and failure.transient and self._transport.answered_at < asking.sent_at:
            # A server that answered others meanwhile is there: retries of failures come in a row, answers don't.
            self._given_up_in_vain += 1
        in_vain = self._refused_in_vain >= _REFUSED_IN_VAIN or self._given_up_in_vain >= _GIVEN_UP_IN_VAIN
        if (seconds is None and gone) or in_vain:
            raise self._stopped(failure) from None
        if seconds is None:
            raise failure
        await self.limits.pause(seconds)

    def _stopped(self, failure: Failure) -> EndpointStopped:
        where = f"model {self.name} ({self.config.model}) at {self.config.base_url}"
        detail = self._transport.scrubbed(failure.detail)
        error = EndpointStopped(f"{where}: {failure.reason.removeprefix(TRANSIENT)}: {detail}; {_remedy(failure)}")
        self.limits.stop(error)
        return error

    def _response(self, asking: _Asking, answer: Answer) -> Response:
        response = response_to(asking.request, self._transport.scrubbed(answer.text), answer.reason)
        response.finish_reason = "error" if answer.reason else answer.finish_reason
        response.prompt_tokens, response.cached_tokens = answer.prompt_tokens, answer.cached_tokens
        response.completion_tokens = answer.completion_tokens
        response.attempts, response.latency_s = asking.patience.sent, asking.latency_s
        self._count(response)
        return response

    def _count(self, response: Response) -> None:
        counters, prices = self.counters, self.config.prices
        counters.done += 1
        counters.failed += bool(response.reason)
        counters.prompt_tokens += response.prompt_tokens
        counters.cached_tokens += response.cached_tokens
        counters.completion_tokens += response.completion_tokens
        counters.cost += prices.cost(response) if prices else 0.0


def _remedy(failure: Failure) -> str:
    """What the user can do about an endpoint that stopped."""
    if failure.status in (401, 402, 403, 429):
        return "check the key that key_env names, and what it may use"
    if failure.status == 400:
        return "check model, sampling and structured in the models file"
    if failure.status:
        return "check model and base_url in the models file"
    return "check base_url in the models file and that the server is up; running again goes on from here"
