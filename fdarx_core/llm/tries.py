"""The tries of requests to one server: a slot for each try, when the next is due, and what is counted."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from fdarx_core.llm.exchange import EndpointStopped, Failure
from fdarx_core.llm.limits import Limits
from fdarx_core.llm.patience import Patience
from fdarx_core.records import Request, Response


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
    sent_at: float = 0.0
    retries: int = 0
    latency_s: float = 0.0

    def send(self) -> None:
        """To be called in the slot, before a try is sent. Raises what `admit` does, before the first."""
        if not self.patience.sent:
            self.admit()
            self.sent_at = time.monotonic()
        self.patience.sent += 1


OneAsked = TypeVar("OneAsked", bound=Asking)


class Tries(ABC, Generic[OneAsked]):
    """The tries of all requests to one server, within limits that hold for all of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.counters = Counters()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a request as asked, and as abandoned where the block is left by an error or a cancellation."""
        self.counters.asked += 1
        try:
            yield
        except BaseException:
            self.counters.abandoned += 1
            raise

    @asynccontextmanager
    async def slot(self, asking: OneAsked, tokens: int = 0, waited: bool = False) -> AsyncIterator[None]:
        """A slot for one try, given back however the block ends. Raises EndpointStopped for a fatal failure in it.

        One that `waited` already, or was tried before, gets it before those that come first.
        """
        entered_at = await self.limits.enter(tokens, again=waited or asking.patience.sent > 0)
        self.counters.in_flight += 1
        try:
            yield
        except Failure as failure:
            if failure.fatal:  # before the slot goes to one who would ask in vain
                raise self.stopped(failure) from None
            if failure.told_to_wait:
                self.limits.refused(entered_at, failure.retry_after)
            raise
        finally:
            self.counters.in_flight -= 1
            self.limits.leave()
        self.limits.accepted()

    async def wait_after(self, asking: OneAsked, failure: Failure) -> None:
        """Returns when the next try is due. Raises the failure where none is, EndpointStopped where nothing answers."""
        await self.limits.pause(self.seconds_after(asking, failure))
        asking.retries += 1
        self.counters.retries += 1

    def count(self, response: Response) -> None:
        """A request has its response."""
        self.counters.done += 1
        self.counters.failed += bool(response.reason)

    def stopped(self, failure: Failure) -> EndpointStopped:
        """The error of a server that will answer nobody, which from now on all get who wait."""
        error = EndpointStopped(self.complaint(failure))
        self.limits.stop(error)
        return error

    @abstractmethod
    def seconds_after(self, asking: OneAsked, failure: Failure) -> float:
        """Until the next try is due. Raises as `wait_after`."""

    @abstractmethod
    def complaint(self, failure: Failure) -> str:
        """What is wrong with the server, where it is, and what can be done."""
