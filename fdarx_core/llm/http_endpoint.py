"""A model on a server, asked over HTTP: whole replies, repaired where their JSON is wrong, and streamed ones.

The vendors' clients are not used: they were measured at 6 to 10 times the CPU time of aiohttp, and they hold their slot
while they wait for a retry. Models of kind litellm are asked by litellm, without retries of its own.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar

import jsonschema
import orjson

from fdarx_core.llm.attempts import AsyncEndpoint, PendingRequest
from fdarx_core.llm.baseline import response_to
from fdarx_core.llm.chat_span import ChatSpan
from fdarx_core.llm.credentials import Credentials, Redactor
from fdarx_core.llm.failures import (
    EXPIRED_KEY,
    TRANSIENT,
    UNREACHABLE,
    Failure,
    decode_json,
    error_message,
    remedy,
)
from fdarx_core.llm.limits import PrefixWarmup, RequestLimiter
from fdarx_core.llm.litellm_transport import LitellmTransport
from fdarx_core.llm.model_config import ModelConfig, count_messages, estimate_tokens
from fdarx_core.llm.reply import reply_form, without_length_limits
from fdarx_core.llm.reply_text import json_values
from fdarx_core.llm.transport import HttpTransport, Transport
from fdarx_core.llm.wire_formats import (
    BLANK_CHARACTERS,
    WIRE_FORMATS,
    Completion,
    Messages,
    OutputMode,
    ServerFeatures,
    TokenUsage,
    cut_whitespace_loop,
)
from fdarx_core.records import Request, Response

_LOG = logging.getLogger(__name__)
_MAX_REFUSED_IN_VAIN = 16
"""Requests refused by a server that has not answered any, after which it is not asked again."""
_MAX_GIVEN_UP_IN_VAIN = 16
"""Requests given up in a row, after which a server is not asked again."""
_CLOSING_S = 0.2
_QUOTED_CHARACTERS = 4000
_SHAPE_ERRORS = (KeyError, IndexError, TypeError, AttributeError)


class HttpEndpoint(AsyncEndpoint):
    """Sends requests to one model, within limits that hold for all who use this object, in one event loop.

    It can be pickled before its first use. The key is not part of it: each process reads it from its environment, or
    runs the command that prints it. A request that is cancelled frees its slot and closes its connection. `batched`
    says whether requests go through a batch API.
    """

    batched: ClassVar[bool] = False

    def __init__(self, config: ModelConfig) -> None:
        limits = RequestLimiter(config.max_in_flight, config.requests_per_minute, config.tokens_per_minute)
        super().__init__(config.name, limits)
        self.config = config
        self.sampling: Mapping[str, Any] = config.request_parameters
        self._wire = WIRE_FORMATS[config.kind]
        self._credentials = Credentials(config)
        self._transport: Transport = (
            LitellmTransport(config, self._credentials)
            if config.kind == "litellm"
            else HttpTransport(config, self._credentials, self._wire)
        )
        self._learned: dict[str, ServerFeatures] = {}  # for each task: a server may refuse the schema of one alone
        self._warmup = PrefixWarmup(enabled=config.warms_prefixes)
        self._refused_in_vain = self._given_up_in_vain = 0

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        pending = PendingRequest(request, self.config.max_tries, self.config.max_wait_s, admit)
        with self.counted():
            try:
                completion = await self._complete_and_repair(pending)
            except Failure as failure:
                completion = Completion(failure.detail, "error", reason=failure.reason)
        return self._response(pending, completion)

    def stream(
        self, request: Request, admit: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[str | Response, None]:
        """Yield the reply's text in pieces as the server sends them, and at the end the whole response.

        Attempts are repeated until the first piece is out. A later failure ends the stream with a response that has a
        `reason` and the text so far. `timeout_s` holds for one whole attempt. To stop early, close the generator
        (`contextlib.aclosing`) or cancel the task that reads it; that closes the connection. Raises ValueError for a
        request with a schema, and otherwise as `ask`.
        """
        if request.schema:
            raise ValueError(f"task {request.task} has a structured reply, which cannot be streamed; use ask")
        return self._stream(request, admit)

    async def close(self) -> None:
        await self._credentials.close()
        await self._transport.close()

    async def acquire(self, tokens: int, *, retry: bool) -> float:
        """Wait for a valid key, then for a slot. A key that expires meanwhile is renewed without holding the slot."""
        while True:
            while not self._credentials.valid:
                await self._refresh_key()
            acquired_at = await self.limits.acquire(tokens, retry)
            if self._credentials.valid:
                return acquired_at
            self.limits.release()
            self.limits.correct_tokens(tokens, 0)
            retry = True

    def count(self, response: Response) -> None:
        super().count(response)
        counters, prices = self.counters, self.config.prices
        counters.prompt_tokens += response.prompt_tokens
        counters.cached_tokens += response.cached_tokens
        counters.completion_tokens += response.completion_tokens
        counters.cost += prices.cost(response) if prices else 0.0

    def delay_after(self, pending: PendingRequest, failure: Failure) -> float:
        if failure.reason == "refused_request" and self._learn(pending, failure):
            return 0.0
        seconds, answered_at = pending.delay_after(failure), self._transport.answered_at
        if failure.reason == EXPIRED_KEY and seconds is not None:
            return 0.0
        unreachable = failure.reason in UNREACHABLE and answered_at < pending.created_at
        if failure.reason == "refused_request" and not answered_at:
            self._refused_in_vain += 1
        if seconds is None and failure.transient and answered_at < pending.sent_at:
            # A server that answered other requests meanwhile works: failed retries come in a row, replies do not.
            self._given_up_in_vain += 1
        in_vain = self._refused_in_vain >= _MAX_REFUSED_IN_VAIN or self._given_up_in_vain >= _MAX_GIVEN_UP_IN_VAIN
        if (seconds is None and unreachable) or in_vain:
            raise self.stopped(failure) from None
        if seconds is None:
            raise failure
        return seconds

    def explain(self, failure: Failure) -> str:
        detail = self._credentials.redacted(failure.detail)
        what = remedy(failure, self.config, self._transport.proxy)
        return f"{self.where}: {failure.reason.removeprefix(TRANSIENT)}: {detail}; {what}"

    @property
    def where(self) -> str:
        """The model and the way to its server, for error messages."""
        config, proxy = self.config, self._transport.proxy
        place = f" at {config.base_url}" if config.base_url else ""
        path = f" through the proxy {proxy.address} of {proxy.field}" if proxy else ""
        return f"model {config.name} ({config.model}){place}{path}"

    async def _refresh_key(self) -> None:
        try:
            await self._credentials.refresh()
        except Failure as failure:
            if failure.fatal:
                raise self.stopped(failure) from None
            raise

    async def _stream(self, request: Request, admit: Callable[[], None]) -> AsyncGenerator[str | Response, None]:
        pending = PendingRequest(request, self.config.max_tries, self.config.max_wait_s, admit)
        tokens = count_messages(request.messages, estimate_tokens)
        completion = None
        with self.counted():
            while completion is None:
                received = StreamAccumulator(Redactor(self._credentials.secrets))
                try:
                    with ChatSpan(self.config, request) as chat:
                        async with self.slot(pending, tokens), aclosing(self._pieces(pending, received)) as pieces:
                            chat.start()
                            async for piece in pieces:
                                yield piece
                        completion = received.completion()
                        chat.received(completion)
                    self._answered(tokens, completion)
                except Failure as failure:
                    completion = await self._after_broken_stream(pending, received, failure)
        yield self._response(pending, completion)

    def _features(self, request: Request) -> ServerFeatures:
        """Return what to use for a request; one without a schema asks for plain text."""
        mode: OutputMode = "json_schema" if self.config.structured == "auto" else self.config.structured
        return self._learned.get(request.task) or ServerFeatures(mode if request.schema else "text")

    def _learn(self, pending: PendingRequest, failure: Failure) -> bool:
        """Return whether a refused request is to be sent again at once, with the features that are now known."""
        task, used = pending.request.task, pending.features
        if self._features(pending.request) == used:  # otherwise another request has learned them meanwhile
            learned = used.without_refused(failure, may_weaken=self.config.structured == "auto")
            if learned is None:
                return False
            self._learned[task] = learned
            detail = self._credentials.redacted(failure.detail)
            _LOG.warning("task %s: requests use %s from now on: %s", task, learned, detail)
        return True

    def _body(self, pending: PendingRequest, messages: Messages, *, streamed: bool = False) -> bytes:
        """Return the body of one attempt. It is made in the slot, so that what was learned meanwhile holds for it."""
        pending.begin_attempt()
        pending.features = features = self._features(pending.request)
        request = pending.request
        if not features.length_limits:
            request = replace(request, schema=without_length_limits(request.schema))
        payload = self._wire.payload(request, messages, features.mode)
        payload[features.token_limit] = payload.pop("max_tokens")
        if streamed:
            payload |= self._wire.stream_parameters(features.stream_options)
        return orjson.dumps(payload)

    async def _complete(self, pending: PendingRequest, messages: Messages) -> Completion:
        tokens = count_messages(messages, estimate_tokens)
        while True:
            try:
                with ChatSpan(self.config, pending.request) as chat:
                    async with self._warmup.turn(pending.request) as waited, self.slot(pending, tokens, waited):
                        started = time.monotonic()
                        reply = await self._exchange(pending, messages, chat)
                        pending.latency_s = time.monotonic() - started
                    completion = self._read(reply, tokens)
                    chat.received(completion)
                return completion
            except Failure as failure:
                await self.wait_after(pending, failure)

    async def _exchange(self, pending: PendingRequest, messages: Messages, chat: ChatSpan) -> bytes:
        """Make one attempt, and return the body of its reply. Raises Failure."""
        body = self._body(pending, messages)
        chat.start()
        return await self._transport.post(body)

    def _read(self, reply: bytes, tokens: int) -> Completion:
        content = decode_json(reply)
        try:
            completion = self._wire.completion(content)
        except _SHAPE_ERRORS:
            detail = f"the reply does not belong to this API: {error_message(reply)}"
            raise Failure(f"{TRANSIENT}wrong_shape", detail) from None
        cut_whitespace_loop(completion)
        self._answered(tokens, completion)
        return completion

    def _answered(self, tokens: int, completion: Completion) -> None:
        """Note that the server works, and replace the estimated tokens by its own counts."""
        self._given_up_in_vain = 0
        self.limits.correct_tokens(tokens, completion.usage.prompt + completion.usage.completion)

    async def _complete_and_repair(self, pending: PendingRequest) -> Completion:
        """Return the reply, or what one repair made of it. One that was cut short or cannot be repaired stays."""
        request = pending.request
        completion = await self._complete(pending, request.messages)
        if not request.schema or completion.reason or completion.finish_reason != "stop":
            return completion
        fault = schema_fault(completion.text, request, pending.features.mode)
        if not fault:
            return completion
        try:
            turns = _repair_turns(completion.text, request, fault)
            self.counters.retries += 1
            repaired = await self._complete(pending, [*request.messages, *turns])
        except Failure as failure:
            if failure.transient:
                raise
            return completion
        repaired.usage = TokenUsage(*map(operator.add, repaired.usage, completion.usage))
        return repaired

    async def _pieces(self, pending: PendingRequest, received: StreamAccumulator) -> AsyncGenerator[str, None]:
        """Yield the pieces of one attempt, in its slot. Left before its end, it closes the connection."""
        body = self._body(pending, pending.request.messages, streamed=True)
        started = time.monotonic()
        async with aclosing(self._transport.events(body)) as events:
            try:
                async for event in events:
                    if text := received.add(self._delta(event)):
                        yield text
                    if received.ended:
                        break
                if text := received.finish():
                    yield text
            finally:
                pending.latency_s = time.monotonic() - started
            await _drain(events)

    def _delta(self, event: bytes) -> Completion:
        try:
            return self._wire.delta(event)
        except _SHAPE_ERRORS:
            detail = f"the event does not belong to this API: {error_message(event)}"
            raise Failure(f"{TRANSIENT}wrong_shape", detail) from None

    async def _after_broken_stream(
        self, pending: PendingRequest, received: StreamAccumulator, failure: Failure
    ) -> Completion | None:
        """Return the completion that ends the stream, or None once another attempt is due."""
        if not received.started:
            try:
                await self.wait_after(pending, failure)
            except Failure as final:
                return received.failed(final)
            return None
        return received.failed(failure)

    def _response(self, pending: PendingRequest, completion: Completion) -> Response:
        response = response_to(pending.request, self._credentials.redacted(completion.text), completion.reason)
        response.finish_reason = "error" if completion.reason else completion.finish_reason
        usage = completion.usage
        response.prompt_tokens, response.cached_tokens = usage.prompt, usage.cached
        response.completion_tokens, response.written_tokens = usage.completion, usage.written
        response.attempts, response.latency_s = pending.sent, pending.latency_s
        response.batched = self.batched
        self.count(response)
        return response


class StreamAccumulator:
    """Adds up the deltas of one attempt at a streamed reply."""

    def __init__(self, redactor: Redactor) -> None:
        self.ended = False
        self._redactor = redactor
        self._shown: list[str] = []
        self._refusal = self._finish_reason = ""
        self._usage = TokenUsage()
        self._blanks = 0

    @property
    def started(self) -> bool:
        """Whether text was shown, after which no attempt follows."""
        return bool(self._shown)

    def add(self, delta: Completion) -> str:
        """Return the text to show. Sets `ended` where the reply is whole, or a loop of white space."""
        self._finish_reason = delta.finish_reason or self._finish_reason
        self._usage = TokenUsage(*map(max, self._usage, delta.usage))
        refused = delta.reason == "refusal" and delta.finish_reason != "refusal"  # which is not shown
        self._refusal += delta.text if refused else ""
        text = "" if refused else self._show(self._redactor.feed(delta.text))
        self._blanks = len(text) - len(text.rstrip()) + (0 if text.strip() else self._blanks)
        self.ended = delta.last or self._blanks >= BLANK_CHARACTERS
        return text

    def finish(self) -> str:
        """Return the last text to show. Raises Failure transient_cut_body where the reply did not end."""
        if not (self.ended or self._finish_reason):
            raise Failure(f"{TRANSIENT}cut_body", "the stream ended before the reply did")
        return self._show(self._redactor.finish())

    def completion(self) -> Completion:
        """Return the reply as the same server gives it when it is not streamed."""
        finish_reason = self._finish_reason or "stop"
        completion = Completion(self._refusal or "".join(self._shown), finish_reason, self._usage)
        if self._refusal or finish_reason == "refusal":
            completion.reason = "refusal"
        elif not completion.text and finish_reason != "length":
            completion.reason = "null_content"
        else:
            cut_whitespace_loop(completion)
        return completion

    def failed(self, failure: Failure) -> Completion:
        """Return a failed reply: the text shown so far, or the failure's detail where there is none."""
        return Completion("".join(self._shown) or failure.detail, "error", self._usage, failure.reason)

    def _show(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()  # unpaired surrogates, which servers do send
        if text:
            self._shown.append(text)
        return text


def schema_fault(text: str, request: Request, mode: OutputMode) -> str:
    """Return what keeps a reply from being JSON of the request's schema; "" for a valid one.

    After mode json_schema only the top level is checked: a whole check would cost a twentieth of the CPU time. Upper
    limits of lengths do not count: what is too long is cut where it can be, and a second reply is seldom shorter.
    """
    faults = (_misfit(reply, request.schema, mode) for reply in json_values(text))
    first = next(faults, "it is no JSON")
    return first and ("" if "" in faults else first)


def _misfit(reply: Any, schema: Mapping[str, Any], mode: OutputMode) -> str:
    if mode != "json_schema":
        limits = without_length_limits(schema, upper_only=True)
        misfit = next(jsonschema.Draft202012Validator(limits).iter_errors(reply), None)
        return f"{misfit.json_path}: {misfit.message[:200]}" if misfit else ""
    missing = set(schema.get("required", ())) - set(reply if isinstance(reply, dict) else ())
    return f"it lacks {sorted(missing)}" if missing else ""


def _repair_turns(text: str, request: Request, fault: str) -> list[dict[str, str]]:
    """Return the turns after a request that ask for a reply in the right form, which they show."""
    asked = (
        f"That reply can't be used: {fault}. Give the same reply as one JSON object, with nothing before or after it. "
        f"It has exactly this form, with your own values:\n{reply_form(request.schema)}"
    )
    quoted = text.strip()[:_QUOTED_CHARACTERS] or "(nothing)"
    return [{"role": "assistant", "content": quoted}, {"role": "user", "content": asked}]


async def _drain(events: AsyncGenerator[bytes, None]) -> None:
    """Wait briefly for the end of a body: only a connection that was read to its end is used again."""
    reading = asyncio.ensure_future(anext(events, None))  # not wait_for: before 3.12 it may lose a cancellation
    try:
        await asyncio.wait([reading], timeout=_CLOSING_S)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
