"""What asking and streaming share: a slot for each try, when the next is due, what is learned and counted."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import orjson

from fdarx_core.llm.anthropic_wire import AnthropicWire
from fdarx_core.llm.dialects import Dialect, Dialects
from fdarx_core.llm.endpoints import TRANSIENT, response_to
from fdarx_core.llm.exchange import Answer, EndpointStopped, Failure, Messages, Wire
from fdarx_core.llm.limits import Limits
from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.openai_wire import OpenAIWire
from fdarx_core.llm.patience import Patience
from fdarx_core.llm.transport import Transport
from fdarx_core.records import Request, Response

_REFUSED_IN_VAIN = 16
_GIVEN_UP_IN_VAIN = 16
_CHARACTERS_A_TOKEN = 4
_WIRES: dict[str, Wire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire()}
_NOT_THERE = (f"{TRANSIENT}connection", f"{TRANSIENT}dns", f"{TRANSIENT}tls")


@dataclass(slots=True)
class Counters:
    """What an endpoint has done so far. `done` includes what `failed`; cost is in US dollars by the model's prices.

    `abandoned`: asked, but whoever asked left before the end, or asking was stopped; what those cost is not known. Once
    nothing is under way, asked = done + abandoned.
    """

    asked: int = 0
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    abandoned: int = 0


@dataclass(slots=True)
class Asking:
    """One request on its way."""

    request: Request
    patience: Patience
    admit: Callable[[], None]
    since: float
    dialect: Dialect
    sent_at: float = 0.0
    latency_s: float = 0.0


class Tries:
    """The tries of all requests to one model, within limits that hold for all of them."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.counters = Counters()
        self.limits = Limits(config.max_in_flight, config.requests_per_minute, config.tokens_per_minute)
        self.wire = _WIRES[config.kind]
        self.transport = Transport(config, self.wire)
        self._dialects = Dialects(config.structured)
        self._refused_in_vain = self._given_up_in_vain = 0

    @contextmanager
    def asking(self, request: Request, admit: Callable[[], None]) -> Iterator[Asking]:
        """Counts the request as asked, and as abandoned where the block is left by an error or a cancellation."""
        self.counters.asked += 1
        patience = Patience(request.key, self.config.max_tries, self.config.max_wait_s)
        try:
            yield Asking(request, patience, admit, time.monotonic(), self._dialects.of(request))
        except BaseException:
            self.counters.abandoned += 1
            raise

    @asynccontextmanager
    async def slot(self, asking: Asking, messages: Messages, waited: bool = False) -> AsyncIterator[None]:
        """A slot for one try, given back however the block ends. Raises EndpointStopped for a fatal failure in it.

        One that `waited` already, or was tried before, gets it before those that come first.
        """
        entered_at = await self.limits.enter(_tokens(messages), again=waited or asking.patience.sent > 0)
        self.counters.in_flight += 1
        try:
            yield
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

    def body(self, asking: Asking, messages: Messages, *, streamed: bool = False) -> bytes:
        """What is sent, made in the slot: what was learned while a request waited for one holds for it."""
        if not asking.patience.sent:
            asking.admit()
            asking.sent_at = time.monotonic()
        asking.patience.sent += 1
        asking.dialect = self._dialects.of(asking.request)
        payload = self.wire.payload(asking.request, messages, asking.dialect.mode)
        payload[asking.dialect.token_limit] = payload.pop("max_tokens")
        if streamed:
            payload |= self.wire.streaming(asking.dialect.stream_options)
        return orjson.dumps(payload)

    def answered(self, messages: Messages, answer: Answer) -> None:
        """The server gave an answer of its API: it is there, and the tokens that were estimated are now known."""
        self._given_up_in_vain = 0
        counted = answer.prompt_tokens + answer.completion_tokens
        self.limits.correct_tokens(_tokens(messages), counted)

    async def wait_after(self, asking: Asking, failure: Failure) -> None:
        """Returns when the next try is due. Raises the failure where none is, EndpointStopped where nothing answers."""
        if not self._dialects.learn(asking.request, asking.dialect, failure):
            await self.limits.pause(self._seconds_after(asking, failure))
        self.counters.retries += 1

    def response(self, asking: Asking, answer: Answer) -> Response:
        """The response that the answer makes, counted."""
        response = response_to(asking.request, self.transport.scrubbed(answer.text), answer.reason)
        response.finish_reason = "error" if answer.reason else answer.finish_reason
        response.prompt_tokens, response.cached_tokens = answer.prompt_tokens, answer.cached_tokens
        response.completion_tokens, response.written_tokens = answer.completion_tokens, answer.written_tokens
        response.attempts, response.latency_s = asking.patience.sent, asking.latency_s
        self._count(response)
        return response

    def _seconds_after(self, asking: Asking, failure: Failure) -> float:
        seconds = asking.patience.seconds_after(failure)
        gone = failure.reason in _NOT_THERE and self.transport.answered_at < asking.since
        if failure.reason == "refused_request" and not self.transport.answered_at:
            self._refused_in_vain += 1
        if seconds is None and failure.transient and self.transport.answered_at < asking.sent_at:
            # A server that answered others meanwhile is there: retries of failures come in a row, answers don't.
            self._given_up_in_vain += 1
        in_vain = self._refused_in_vain >= _REFUSED_IN_VAIN or self._given_up_in_vain >= _GIVEN_UP_IN_VAIN
        if (seconds is None and gone) or in_vain:
            raise self._stopped(failure) from None
        if seconds is None:
            raise failure
        return seconds

    def _stopped(self, failure: Failure) -> EndpointStopped:
        where = f"model {self.config.name} ({self.config.model}) at {self.config.base_url}"
        detail = self.transport.scrubbed(failure.detail)
        error = EndpointStopped(f"{where}: {failure.reason.removeprefix(TRANSIENT)}: {detail}; {_remedy(failure)}")
        self.limits.stop(error)
        return error

    def _count(self, response: Response) -> None:
        counters, prices = self.counters, self.config.prices
        counters.done += 1
        counters.failed += bool(response.reason)
        counters.prompt_tokens += response.prompt_tokens
        counters.cached_tokens += response.cached_tokens
        counters.completion_tokens += response.completion_tokens
        counters.cost += prices.cost(response) if prices else 0.0


def _tokens(messages: Messages) -> int:
    """An estimate."""
    return sum(len(message["content"]) for message in messages) // _CHARACTERS_A_TOKEN


def _remedy(failure: Failure) -> str:
    """What the user can do about an endpoint that stopped."""
    if failure.status in (401, 402, 403, 429):
        return "check the key that key_env names, and what it may use"
    if failure.status == 400:
        return "check model, sampling and structured in the models file"
    if failure.status:
        return "check model and base_url in the models file"
    return "check base_url in the models file and that the server is up; running again goes on from here"
