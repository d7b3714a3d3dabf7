"""What asking and streaming share: the tries of one model, what is sent, learned and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import orjson

from fdarx_core.llm.anthropic_wire import AnthropicWire
from fdarx_core.llm.dialects import Dialect, Dialects
from fdarx_core.llm.endpoints import TRANSIENT, response_to
from fdarx_core.llm.exchange import Answer, Failure, Messages, Wire
from fdarx_core.llm.limits import Limits
from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.openai_wire import OpenAIWire
from fdarx_core.llm.patience import Patience
from fdarx_core.llm.transport import Transport
from fdarx_core.llm.tries import Asking, Tries
from fdarx_core.records import Request, Response

_REFUSED_IN_VAIN = 16
_GIVEN_UP_IN_VAIN = 16
_CHARACTERS_A_TOKEN = 4
_WIRES: dict[str, Wire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire()}
_NOT_THERE = (f"{TRANSIENT}connection", f"{TRANSIENT}dns", f"{TRANSIENT}tls")


@dataclass(slots=True, kw_only=True)
class ModelAsking(Asking):
    """One request on its way to a model."""

    since: float
    dialect: Dialect


class ModelTries(Tries[ModelAsking]):
    """The tries of all requests to one model."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(Limits(config.max_in_flight, config.requests_per_minute, config.tokens_per_minute))
        self.config = config
        self.wire = _WIRES[config.kind]
        self.transport = Transport(config, self.wire)
        self._dialects = Dialects(config.structured)
        self._refused_in_vain = self._given_up_in_vain = 0

    @contextmanager
    def asking(self, request: Request, admit: Callable[[], None]) -> Iterator[ModelAsking]:
        """In the block the request is asked, and counted as such."""
        patience = Patience(request.key, self.config.max_tries, self.config.max_wait_s)
        with self.counted():
            yield ModelAsking(request, patience, admit, since=time.monotonic(), dialect=self._dialects.of(request))

    def body(self, asking: ModelAsking, messages: Messages, *, streamed: bool = False) -> bytes:
        """What is sent, made in the slot: what was learned while a request waited for one holds for it."""
        asking.send()
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
        self.limits.correct_tokens(estimated_tokens(messages), counted)

    def response(self, asking: ModelAsking, answer: Answer) -> Response:
        """The response that the answer makes, counted."""
        response = response_to(asking.request, self.transport.scrubbed(answer.text), answer.reason)
        response.finish_reason = "error" if answer.reason else answer.finish_reason
        response.prompt_tokens, response.cached_tokens = answer.prompt_tokens, answer.cached_tokens
        response.completion_tokens, response.written_tokens = answer.completion_tokens, answer.written_tokens
        response.attempts, response.latency_s = asking.patience.sent, asking.latency_s
        self.count(response)
        return response

    def count(self, response: Response) -> None:
        super().count(response)
        counters, prices = self.counters, self.config.prices
        counters.prompt_tokens += response.prompt_tokens
        counters.cached_tokens += response.cached_tokens
        counters.completion_tokens += response.completion_tokens
        counters.cost += prices.cost(response) if prices else 0.0

    def seconds_after(self, asking: ModelAsking, failure: Failure) -> float:
        if self._dialects.learn(asking.request, asking.dialect, failure):
            return 0.0
        seconds = asking.patience.seconds_after(failure)
        gone = failure.reason in _NOT_THERE and self.transport.answered_at < asking.since
        if failure.reason == "refused_request" and not self.transport.answered_at:
            self._refused_in_vain += 1
        if seconds is None and failure.transient and self.transport.answered_at < asking.sent_at:
            # A server that answered others meanwhile is there: retries of failures come in a row, answers don't.
            self._given_up_in_vain += 1
        in_vain = self._refused_in_vain >= _REFUSED_IN_VAIN or self._given_up_in_vain >= _GIVEN_UP_IN_VAIN
        if (seconds is None and gone) or in_vain:
            raise self.stopped(failure) from None
        if seconds is None:
            raise failure
        return seconds

    def complaint(self, failure: Failure) -> str:
        where = f"model {self.config.name} ({self.config.model}) at {self.config.base_url}"
        detail = self.transport.scrubbed(failure.detail)
        return f"{where}: {failure.reason.removeprefix(TRANSIENT)}: {detail}; {_remedy(failure)}"


def estimated_tokens(messages: Messages) -> int:
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
