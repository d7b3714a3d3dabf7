"""Endpoints over a network: the attempts of a request, the delays between them, what is counted, and spans."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from fdarx_core.llm.failures import EndpointStopped, Failure
from fdarx_core.llm.limits import RequestLimiter
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.wire_formats import Completion, ServerFeatures
from fdarx_core.records import Request, Response
from fdarx_core.telemetry import Span, fail, is_enabled, start_span

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_SAMPLING = ("temperature", "top_p", "max_tokens", "seed")


@dataclass(slots=True)
class Counters:
    """The counts of an endpoint. `done` includes `failed`; `cost` is in US dollars by the model's prices.

    `abandoned` counts requests that were cancelled or stopped before their response; their cost is unknown. When no
    request is running, asked = done + abandoned. `reserved` is what the requests in batches may cost at most.
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
    reserved: float = 0.0


class PendingRequest:
    """A request between its first attempt and its response. Its attempts are bounded in number and in time.

    Delays between attempts double from half a second to a minute. Each delay is shortened by up to half. The amount
    depends on the request's key, so that requests that fail at the same time are retried at different times, and a
    repeated run has the same delays. An attempt that the server throttles does not count as failed: only the total time
    bounds such attempts, and none is retried before the server's Retry-After. `features` are those that the last
    attempt used.
    """

    def __init__(
        self, request: Request, max_tries: int, max_wait_s: float, admit: Callable[[], None] = lambda: None
    ) -> None:
        self.request, self.features = request, ServerFeatures()
        self.created_at, self.sent_at = time.monotonic(), 0.0
        self.sent = self.retries = 0
        self.latency_s = 0.0
        self._tries_left, self._seconds_left, self._admit = max_tries, max_wait_s, admit

    def begin_attempt(self) -> None:
        """Count an attempt that is about to be sent. Before the first attempt, call `admit`, which may raise."""
        if not self.sent:
            self._admit()
            self.sent_at = time.monotonic()
        self.sent += 1

    def delay_after(self, failure: Failure) -> float | None:
        """Return the seconds to wait before the next attempt; None to give up."""
        if not failure.transient:
            return None
        self._tries_left -= not failure.throttled
        draw = blake2b(f"{self.request.key} {self.sent}".encode(), digest_size=4).digest()
        share = int.from_bytes(draw, "big") / 2**32
        if failure.retry_after:
            seconds = max(failure.retry_after, _FIRST_WAIT_S / 2) + share * min(1.0, failure.retry_after / 10)
        else:
            longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(self.sent - 1, 10))
            seconds = longest * (1 - share / 2)
        if self._tries_left < 1 or seconds > self._seconds_left:
            return None
        self._seconds_left -= seconds
        return seconds


class AsyncEndpoint(ABC):
    """Answers requests over a network, within limits that hold for all who use the object, in one event loop.

    A subclass (`HttpEndpoint`, PubMed) sends the attempts; slots, retries and counters are here. `limits.stop` ends all
    requests to the endpoint.
    """

    def __init__(self, name: str, limits: RequestLimiter) -> None:
        self.name, self.limits = name, limits
        self.counters = Counters()

    @abstractmethod
    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        """Return the response to a request; its `reason` says why the request failed, and is "" if it did not.

        `admit` is called once, while the request holds a slot and before anything is sent; it may raise. Raises
        EndpointStopped if no request can succeed (key, model, address), and the error that stopped `limits`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    @property
    def batches(self) -> list[str]:
        """The state of each batch of requests at the server; none where requests are sent one by one."""
        return []

    @abstractmethod
    def delay_after(self, pending: PendingRequest, failure: Failure) -> float:
        """Return the seconds until the next attempt. Raises the same errors as `wait_after`."""

    @abstractmethod
    def explain(self, failure: Failure) -> str:
        """Return one line: which server, what is wrong with it, and what the user can do."""

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request as asked, and as abandoned where an error or a cancellation leaves the block."""
        self.counters.asked += 1
        try:
            yield
        except BaseException:
            self.counters.abandoned += 1
            raise

    async def acquire(self, tokens: int, *, retry: bool) -> float:
        """Wait for a slot and for the rates; return the loop's time when both were there."""
        return await self.limits.acquire(tokens, retry)

    @asynccontextmanager
    async def slot(self, pending: PendingRequest, tokens: int = 0, waited: bool = False) -> AsyncIterator[None]:
        """Hold a slot for one attempt. Raises EndpointStopped for a fatal failure in the block.

        A request that has `waited` already, or that is retried, gets its slot before new requests.
        """
        acquired_at = await self.acquire(tokens, retry=waited or pending.sent > 0)
        self.counters.in_flight += 1
        try:
            yield
        except Failure as failure:
            if failure.fatal:  # stops the endpoint before another request gets the slot
                raise self.stopped(failure) from None
            if failure.throttled:
                self.limits.refused(acquired_at, failure.retry_after)
            raise
        finally:
            self.counters.in_flight -= 1
            self.limits.release()
        self.limits.accepted()

    async def wait_after(self, pending: PendingRequest, failure: Failure) -> None:
        """Return when the next attempt is due. Raises the failure if there is none, or EndpointStopped."""
        await self.limits.pause(self.delay_after(pending, failure))
        pending.retries += 1
        self.counters.retries += 1

    def count(self, response: Response) -> None:
        """Count a request that has its response."""
        self.counters.done += 1
        self.counters.failed += bool(response.reason)

    def stopped(self, failure: Failure) -> EndpointStopped:
        """Stop all requests that wait, now and from now on, and return the error that they get."""
        error = EndpointStopped(self.explain(failure))
        self.limits.stop(error)
        return error


@contextmanager
def chat_span(config: ModelConfig, request: Request) -> Iterator[Span]:
    """Have a span for the block, in which one attempt is sent; a Failure gives its reason as the span's error type.

    It has neither the prompt nor the reply, and is not the current span, because a block of a streamed reply yields.
    Source: the names in opentelemetry-semantic-conventions 0.66b2. They are in development.
    """
    attributes: dict[str, Any] = {}
    if is_enabled():
        server = urlsplit(config.base_url)
        sampling = {f"gen_ai.request.{name}": request.sampling.get(name) for name in _SAMPLING}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": config.kind,
            "gen_ai.request.model": config.model,
            "gen_ai.output.type": "json" if request.schema else "text",
            "gen_ai.prompt.name": request.task,
            "server.address": server.hostname or "",
            "server.port": server.port or (443 if server.scheme == "https" else 80),
            **{name: value for name, value in sampling.items() if value is not None},
        }
    span = start_span(f"chat {config.model}", attributes, kind="client")
    try:
        yield span
    except BaseException as error:
        fail(span, error.reason if isinstance(error, Failure) else type(error).__name__)
        if isinstance(error, Failure) and error.status:
            span.set_attribute("http.response.status_code", error.status)
        raise
    finally:
        span.end()


def note_completion(span: Span, completion: Completion) -> None:
    """Note the tokens and the end of a reply in its span."""
    usage = completion.usage
    span.set_attributes(
        {
            "gen_ai.usage.input_tokens": usage.prompt,
            "gen_ai.usage.output_tokens": usage.completion,
            "gen_ai.usage.cache_read.input_tokens": usage.cached,
            "gen_ai.response.finish_reasons": [completion.finish_reason],
        }
    )
    if completion.reason:
        fail(span, completion.reason)
