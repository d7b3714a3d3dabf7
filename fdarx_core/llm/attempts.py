"""Endpoints over a network: the attempts of a request, the delays between them, and what is counted."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType

from fdarx_core.llm.failures import EndpointStopped, Failure
from fdarx_core.llm.limits import RequestLimiter
from fdarx_core.llm.wire_formats import ServerFeatures
from fdarx_core.records import Request, Response

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0


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
        seconds = self._delay(failure.retry_after)
        if self._tries_left < 1 or seconds > self._seconds_left:
            return None
        self._seconds_left -= seconds
        return seconds

    def _delay(self, retry_after: float | None) -> float:
        draw = blake2b(f"{self.request.key} {self.sent}".encode(), digest_size=4).digest()
        share = int.from_bytes(draw, "big") / 2**32
        if retry_after:
            return max(retry_after, _FIRST_WAIT_S / 2) + share * min(1.0, retry_after / 10)
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(self.sent - 1, 10))
        return longest * (1 - share / 2)


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

    def counted(self) -> CountedRequest:
        """Count a request as asked, and as abandoned where an error or a cancellation leaves the block."""
        return CountedRequest(self.counters)

    async def acquire(self, tokens: int, *, retry: bool) -> float:
        """Wait for a slot and for the rates; return the loop's time when both were there."""
        return await self.limits.acquire(tokens, retry)

    def slot(self, pending: PendingRequest, tokens: int = 0, waited: bool = False) -> AttemptSlot:
        """Hold a slot for one attempt. Raises EndpointStopped for a fatal failure in the block.

        A request that has `waited` already, or that is retried, gets its slot before new requests.
        """
        return AttemptSlot(self, tokens, retry=waited or pending.sent > 0)

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


# Thousands of requests wait at once. Classes hold them in a third of the objects that generators would need, which the
# garbage collector visits again and again.


class CountedRequest:
    """Counts the request of the block; see `AsyncEndpoint.counted`."""

    __slots__ = ("_counters",)

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def __enter__(self) -> None:
        self._counters.asked += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._counters.abandoned += kind is not None


class AttemptSlot:
    """Holds a slot of an endpoint for the block; see `AsyncEndpoint.slot`."""

    __slots__ = ("_acquired_at", "_endpoint", "_retry", "_tokens")

    def __init__(self, endpoint: AsyncEndpoint, tokens: int, *, retry: bool) -> None:
        self._endpoint, self._tokens, self._retry = endpoint, tokens, retry
        self._acquired_at = 0.0

    async def __aenter__(self) -> None:
        self._acquired_at = await self._endpoint.acquire(self._tokens, retry=self._retry)
        self._endpoint.counters.in_flight += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        endpoint, limits = self._endpoint, self._endpoint.limits
        try:
            if isinstance(error, Failure) and error.fatal:  # stops the endpoint before another request gets the slot
                raise endpoint.stopped(error) from None
            if isinstance(error, Failure) and error.throttled:
                limits.refused(self._acquired_at, error.retry_after)
        finally:
            endpoint.counters.in_flight -= 1
            limits.release()
        if error is None:
            limits.accepted()
