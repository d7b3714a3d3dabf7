"""A model on a server, asked over HTTP: whole replies, repaired where their JSON is wrong, and streamed ones.

The vendors' clients are not used: they were measured at 6 to 10 times the CPU time of aiohttp, and they hold their slot
while they wait for a retry.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import re
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, ClassVar

import jsonschema
import orjson

from fdarx_core.llm.attempts import AsyncEndpoint, PendingRequest, chat_span, note_completion
from fdarx_core.llm.baseline import response_to
from fdarx_core.llm.credentials import Credentials
from fdarx_core.llm.failures import (
    EXPIRED_KEY,
    KEY_COMMAND,
    SHAPE_ERRORS,
    TRANSIENT,
    UNREACHABLE,
    EndpointStopped,
    Failure,
    decode_json,
    error_message,
    refused_parameter,
)
from fdarx_core.llm.limits import PrefixWarmup, RequestLimiter
from fdarx_core.llm.model_config import ModelConfig, count_messages, estimate_tokens
from fdarx_core.llm.reply import json_values, reply_form, without_length_limits
from fdarx_core.llm.streaming import Redactor, StreamAccumulator
from fdarx_core.llm.transport import HttpTransport
from fdarx_core.llm.wire_formats import (
    WIRE_FORMATS,
    Completion,
    Messages,
    OutputMode,
    ServerFeatures,
    TokenUsage,
    cut_whitespace_loop,
    without_system,
)
from fdarx_core.records import Request, Response
from fdarx_core.telemetry import Span

_LOG = logging.getLogger(__name__)
_MAX_REFUSED_IN_VAIN = 16
"""Requests refused by a server that has not answered any, after which it is not asked again."""
_MAX_GIVEN_UP_IN_VAIN = 16
"""Requests given up in a row, after which a server is not asked again."""
_TRIES_BEFORE_CONTACT = 4
"""Refused connections of a request, within 3.5 s, after which a server that was never reached is not asked again."""
_CLOSING_S = 0.2
RESUME = "; run the same command again to resume"
_QUOTED_CHARACTERS = 4000


class HttpEndpoint(AsyncEndpoint):
    """Sends requests to one model, within limits that hold for all who use this object, in one event loop.

    It can be pickled before its first use. The key is not part of it: each process reads it from its environment, or
    runs the command that prints it. A request that is cancelled frees its slot and closes its connection. `batched`
    says whether requests go through a batch API, `known` whether the job has reached the server in another process.
    """

    batched: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, *, known: bool = False) -> None:
        of_server = config.max_in_flight, config.requests_per_minute, config.tokens_per_minute
        super().__init__(config.name, RequestLimiter(*((sys.maxsize, None, None) if self.batched else of_server)))
        self.config, self._known = config, known
        self.sampling: Mapping[str, Any] = config.request_parameters
        self._wire = WIRE_FORMATS[config.kind]
        self._credentials = Credentials(config)
        self._transport = HttpTransport(config, self._credentials, self._wire)
        self._learned: dict[str, ServerFeatures] = {}  # for each task: a server may refuse the schema of one alone
        self._warmup = PrefixWarmup(enabled=config.warms_prefixes and not self.batched)
        self._refused_in_vain = self._given_up_in_vain = 0

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None, *, repair: bool = True) -> Response:
        """Return the response, as `AsyncEndpoint.ask`. `repair`: ask once more for a reply whose JSON is wrong."""
        pending = PendingRequest(request, self.config.max_tries, self.config.max_wait_s, admit)
        with self.counted():
            try:
                completion = await (
                    self._complete_and_repair(pending) if repair else self._complete(pending, request.messages)
                )
            except Failure as failure:
                completion = Completion(failure.detail, "error", reason=failure.reason)
        return self._response(pending, completion)

    async def stream(
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
        pending = PendingRequest(request, self.config.max_tries, self.config.max_wait_s, admit)
        tokens = count_messages(request.messages, estimate_tokens)
        completion = None
        with self.counted():
            while completion is None:
                received = StreamAccumulator(Redactor(self._credentials.secrets))
                try:
                    async with self.slot(pending, tokens), aclosing(self._pieces(pending, received)) as pieces:
                        async for piece in pieces:
                            yield piece
                    completion = received.completion()
                    self._answered(tokens, completion)
                except Failure as failure:
                    if received.started:
                        completion = received.failed(failure)
                    else:
                        try:
                            await self.wait_after(pending, failure)
                        except Failure as final:
                            completion = received.failed(final)
        yield self._response(pending, completion)

    async def listed_models(self) -> list[dict[str, Any]]:
        """Return what the server lists of its models, each with an `id`; none where it has no such list."""
        address = re.sub(r"/(chat/completions|messages)$", "/models", self._wire.url(self.config.base_url))
        try:
            reply = await self._transport.call("GET", address)
        except (Failure, EndpointStopped):
            return []
        entries = reply.get("data") if isinstance(reply, dict) else None
        return [entry for entry in entries or () if isinstance(entry, dict) and isinstance(entry.get("id"), str)]

    async def close(self) -> None:
        await self._credentials.close()
        await self._transport.close()

    async def acquire(self, tokens: int, *, retry: bool) -> float:
        """Wait for a valid key, then for a slot. A key that expires meanwhile is renewed without holding the slot."""
        while True:
            try:
                while not self._credentials.valid:
                    await self._credentials.refresh()
            except Failure as failure:
                if failure.fatal:
                    raise self.stopped(failure) from None
                raise
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
            if refused_parameter(failure, pending.request.sampling):  # it is refused in every other request too
                raise self.stopped(failure) from None
            self._refused_in_vain += 1
        if seconds is None and failure.transient and answered_at < pending.sent_at:
            # A server that answered other requests meanwhile works: failed retries come in a row, replies do not.
            self._given_up_in_vain += 1
        in_vain = self._refused_in_vain >= _MAX_REFUSED_IN_VAIN or self._given_up_in_vain >= _MAX_GIVEN_UP_IN_VAIN
        absent = failure.refused and not self._transport.reached and not self._known
        if (seconds is None and unreachable) or in_vain or (absent and pending.sent >= _TRIES_BEFORE_CONTACT):
            raise self.stopped(failure) from None
        if seconds is None:
            raise failure
        return seconds

    def explain(self, failure: Failure) -> str:
        detail = self._credentials.redacted(failure.detail)
        return f"{self.where}: {failure.reason.removeprefix(TRANSIENT)}: {detail}; {self._remedy(failure)}"

    @property
    def where(self) -> str:
        """The model and the way to its server, for error messages."""
        config, proxy = self.config, self._credentials.proxy
        place = f" at {config.base_url}" if config.base_url else ""
        path = f" through the proxy {proxy.address} of {proxy.field}" if proxy else ""
        return f"model {config.name} ({config.model}){place}{path}"

    def _remedy(self, failure: Failure) -> str:
        """Return what the user can do about a server that is no longer asked."""
        proxy = self._credentials.proxy
        way = f"{proxy.field} and " if proxy else ""
        if failure.reason == KEY_COMMAND:
            return "run the command of key_command by hand and correct it"
        if failure.status == 407:
            login = proxy.field if proxy and not self.config.proxy else "proxy_login_env"
            return f"check the user and password of the proxy in {login}"
        if "proxy" in failure.reason:
            return f"check {way}that the proxy is up and forwards to base_url"
        if failure.status in (401, 402, 403, 429):
            fields = [name for name in ("key_command", "key_env", "headers") if getattr(self.config, name)]
            if not fields and failure.status in (401, 403):
                return f"set key_env: NAME_OF_A_VARIABLE in the entry of {self.config.name} in the models file"
            return f"check the key that {(fields or ['key_env'])[0]} names, and what it may use"
        if failure.status == 400:
            return "check model, sampling and structured in the models file"
        if failure.status >= 500:
            return f"look into the log of the server{RESUME}"
        if failure.status:
            ends = "" if self.config.base_url.count("/") > 2 else ", which mostly ends in /v1,"
            return f"check model and base_url{ends} in the models file"
        if failure.reason == f"{TRANSIENT}tls":
            return "check base_url in the models file, or name the server's certificate authority in ca_file"
        return f"check {way}base_url in the models file and that the server is up{RESUME}"

    def features(self, request: Request, learned: Mapping[str, ServerFeatures] | None = None) -> ServerFeatures:
        """Return what to use for a request by what was learned until now, or then; without a schema, plain text."""
        mode: OutputMode = "json_schema" if self.config.structured == "auto" else self.config.structured
        known = self._learned if learned is None else learned
        return known.get(request.task) or ServerFeatures(mode if request.schema else "text")

    def _learn(self, pending: PendingRequest, failure: Failure) -> bool:
        """Return whether a refused request is to be sent again at once, with the features that are now known."""
        task, used = pending.request.task, pending.features
        if self.features(pending.request) == used:  # otherwise another request has learned them meanwhile
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
        pending.features = features = self.features(pending.request)
        request = pending.request
        if not features.length_limits:
            request = replace(request, schema=without_length_limits(request.schema))
        if not features.system_role:
            messages = without_system(messages)
        payload = self._wire.payload(request, messages, features.mode)
        payload[features.token_limit] = payload.pop("max_tokens")
        if streamed:
            payload |= self._wire.stream_parameters(features.stream_options)
        return orjson.dumps(payload)

    async def _complete(self, pending: PendingRequest, messages: Messages) -> Completion:
        tokens = count_messages(messages, estimate_tokens)
        while True:
            try:
                async with self._warmup.turn(pending.request) as waited, self.slot(pending, tokens, waited):
                    started = time.monotonic()
                    completion = await self._exchange(pending, messages)
                    pending.latency_s = time.monotonic() - started
                self._answered(tokens, completion)
                return completion
            except Failure as failure:
                await self.wait_after(pending, failure)

    async def _exchange(self, pending: PendingRequest, messages: Messages) -> Completion:
        """Make one attempt, and return its reply. Raises Failure."""
        body = self._body(pending, messages)
        with chat_span(self.config, pending.request) as span:
            return self._read(await self._transport.post(body), span)

    def _read(self, reply: bytes, span: Span) -> Completion:
        content = decode_json(reply)
        try:
            completion = self._wire.completion(content)
        except SHAPE_ERRORS:
            raise _wrong_shape("reply", reply) from None
        cut_whitespace_loop(completion)
        note_completion(span, completion)
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
        with chat_span(self.config, pending.request) as span:
            async with aclosing(self._transport.events(body)) as events:
                try:
                    async for event in events:
                        try:
                            delta = self._wire.delta(event)
                        except SHAPE_ERRORS:
                            raise _wrong_shape("event", event) from None
                        if text := received.add(delta):
                            yield text
                        if received.ended:
                            break
                    if text := received.finish():
                        yield text
                finally:
                    pending.latency_s = time.monotonic() - started
                with suppress(Failure, TimeoutError):  # only a connection that was read to its end is used again
                    async with asyncio.timeout(_CLOSING_S):
                        await anext(events, None)
            note_completion(span, received.completion())

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


def schema_fault(text: str, request: Request, mode: OutputMode) -> str:
    """Return what keeps a reply from being JSON of the request's schema; "" for a valid one.

    After mode json_schema only the top level is checked: a whole check would cost a twentieth of the CPU time. Upper
    limits of lengths do not count: what is too long is cut where it can be, and a second reply is seldom shorter.
    """
    schema = request.schema
    faults = []
    for reply in json_values(text):
        if mode == "json_schema":
            missing = set(schema.get("required", ())) - set(reply if isinstance(reply, dict) else ())
            faults.append(f"it lacks {sorted(missing)}" if missing else "")
        else:
            limits = without_length_limits(schema, upper_only=True)
            misfit = next(jsonschema.Draft202012Validator(limits).iter_errors(reply), None)
            faults.append(f"{misfit.json_path}: {misfit.message[:200]}" if misfit else "")
        if not faults[-1]:
            return ""
    return faults[0] if faults else "it is no JSON"


def _repair_turns(text: str, request: Request, fault: str) -> list[dict[str, str]]:
    """Return the turns after a request that ask for a reply in the right form, which they show."""
    asked = (
        f"That reply can't be used: {fault}. Give the same reply as one JSON object, with nothing before or after it. "
        f"It has exactly this form, with your own values:\n{reply_form(request.schema)}"
    )
    quoted = text.strip()[:_QUOTED_CHARACTERS] or "(nothing)"
    return [{"role": "assistant", "content": quoted}, {"role": "user", "content": asked}]


def _wrong_shape(what: str, content: bytes) -> Failure:
    return Failure(f"{TRANSIENT}wrong_shape", f"the {what} does not belong to this API: {error_message(content)}")
