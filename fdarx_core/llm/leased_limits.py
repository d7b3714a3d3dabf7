"""The limits of a worker that shares them with others: what `LimitPool` leases to it, and how it asks for more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

from fdarx_core.llm.attempts import AsyncEndpoint
from fdarx_core.llm.failures import AskingStopped, EndpointStopped
from fdarx_core.llm.limit_pool import EndpointLease, EndpointReport, WorkerLease, WorkerReport
from fdarx_core.llm.limits import EndpointLimits, RequestLimiter

_SLICE_S = 0.05
"""Seconds between two exchanges with the pool, while there is demand."""
_HEARTBEAT_S = 1.0


class LimitLeases:
    """What a worker has leased for all its endpoints. It belongs to one event loop.

    Args:
        worker: the worker's number.
        servers: the endpoints, whose `limits` become leased ones.
        exchange: passes a report to the pool, and returns the lease. Its errors stop all asking.
    """

    def __init__(
        self,
        worker: int,
        servers: Mapping[str, AsyncEndpoint],
        exchange: Callable[[WorkerReport], Awaitable[WorkerLease]],
    ) -> None:
        self.sent = 0
        self.admissions: int | None = 0
        self.exhausted = ""
        self._worker, self._start, self._exchange = worker, uuid4().hex, exchange
        self._servers, self._wanted = servers, asyncio.Event()
        self._exchanging: asyncio.Task[None] | None = None
        self._limits = {name: LeasedLimiter(self, server.limits.given) for name, server in servers.items()}
        for name, server in servers.items():
            server.limits = self._limits[name]

    def want(self) -> None:
        """Note that a request needs what is not leased yet."""
        self._wanted.set()

    def admit(self) -> str:
        """Count a request that is about to be sent; return why it may not be, or ""."""
        if self.admissions is not None:
            if self.admissions < 1:
                return self.exhausted or "no request of the run's limit is left for this process"
            self.admissions -= 1
        self.sent += 1
        return ""

    @property
    def admits(self) -> bool:
        """Whether `admit` can tell: there is an admission left, or there will be none."""
        return self.admissions is None or self.admissions > 0 or bool(self.exhausted)

    def start(self) -> None:
        """Begin to exchange reports for leases, unless that has begun."""
        if self._exchanging is None:
            self._exchanging = asyncio.create_task(self._keep_exchanging())

    async def close(self) -> None:
        """Exchange no more. Call it when nothing is in flight."""
        if self._exchanging is not None:
            self._exchanging.cancel()
            await asyncio.wait([self._exchanging])

    async def _keep_exchanging(self) -> None:
        while True:
            heartbeat = asyncio.get_running_loop().call_later(_HEARTBEAT_S, self._wanted.set)
            await self._wanted.wait()  # not wait_for: before 3.12 it may lose a cancellation
            heartbeat.cancel()
            self._wanted.clear()
            try:
                self._take(await self._exchange(self._report()))
            except Exception as error:
                for limits in self._limits.values():
                    limits.stop(AskingStopped(f"the limits of the run cannot be shared any more: {error}"))
                return
            if any(limits.waiting for limits in self._limits.values()):
                self._wanted.set()
            await asyncio.sleep(_SLICE_S)

    def _report(self) -> WorkerReport:
        reports = {name: limits.report() for name, limits in self._limits.items()}
        for name, report in reports.items():
            counters = self._servers[name].counters
            report.done, report.in_flight, report.cost = counters.done, counters.in_flight, counters.cost
        wanted = sum(limits.admissions_wanted for limits in self._limits.values()) - (self.admissions or 0)
        if self.admissions is None:
            wanted = 0
        elif wanted < 0:
            self.admissions += wanted
        return WorkerReport(self._worker, self._start, reports, wanted, self.sent)

    def _take(self, lease: WorkerLease) -> None:
        if lease.admissions is None or self.admissions is None:
            self.admissions = lease.admissions
        else:
            self.admissions += max(0, lease.admissions)
        self.exhausted = lease.exhausted
        for name, one in lease.endpoints.items():
            if one.stopped:
                self._limits[name].stop(EndpointStopped(one.stopped))
            self._limits[name].take(one)


class LeasedLimiter(RequestLimiter):
    """The limits of one endpoint as far as they are leased; nothing at first."""

    def __init__(self, leases: LimitLeases, given: EndpointLimits) -> None:
        super().__init__(0, None, None)
        self._leases, self.given = leases, given
        self._held = self._surplus = 0
        self._starts: float | None = 0.0
        self._tokens_left: float | None = 0.0
        self._to_start = self._waiting_tokens = self._spent_tokens = 0  # of requests that have a slot
        self._started = self._accepted = 0
        self._refusals: list[tuple[float, float | None]] = []
        self._granted: asyncio.Future[None] | None = None

    @property
    def waiting(self) -> bool:
        """Whether a request waits for a lease."""
        return bool(self._to_start or self._new or self._retrying)

    @property
    def admissions_wanted(self) -> int:
        """How many requests may be admitted until the next exchange."""
        return self._expected_starts()

    def report(self) -> EndpointReport:
        """Return what is held and wanted, and give back what is not."""
        report = EndpointReport(self.given, self._held, self._held - self._free + len(self._new) + len(self._retrying))
        report.requests = self._expected_starts() - (self._starts or 0.0) if self._starts is not None else 0.0
        if self._starts is not None:
            self._starts += min(0.0, report.requests)
        if self._tokens_left is not None:
            report.tokens = self._waiting_tokens + self._spent_tokens - self._tokens_left
            self._tokens_left += min(0.0, report.tokens)
            report.debt = max(0.0, -self._tokens_left)
        report.started, report.accepted, report.refusals = self._started, self._accepted, self._refusals
        report.stopped = str(self._stopped) if isinstance(self._stopped, EndpointStopped) else ""
        self._started = self._accepted = self._spent_tokens = 0
        self._refusals = []
        return report

    def take(self, lease: EndpointLease) -> None:
        """Use a lease; slots beyond its target are given back as they become free."""
        self._starts = None if lease.requests is None else (self._starts or 0.0) + max(0.0, lease.requests)
        self._tokens_left = None if lease.tokens is None else (self._tokens_left or 0.0) + max(0.0, lease.tokens)
        if lease.pause_s:
            self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + lease.pause_s)
        self._held += lease.slots
        for _ in range(lease.slots):
            super()._hand_over()
        self._surplus = max(0, self._held - lease.target)
        unused = min(self._surplus, self._free)
        self._free, self._held, self._surplus = self._free - unused, self._held - unused, self._surplus - unused
        if unused:
            self._leases.want()
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)

    def accepted(self) -> None:
        self._accepted += 1

    def refused(self, acquired_at: float, retry_after: float | None) -> None:
        self._refusals.append((acquired_at, retry_after))
        self._leases.want()

    def correct_tokens(self, estimated: int, counted: int) -> None:
        if self._tokens_left is not None:
            self._tokens_left -= counted - estimated

    def stop(self, error: AskingStopped) -> None:
        super().stop(error)
        self._leases.want()

    async def _slot(self, queue: deque[asyncio.Future[None]]) -> None:
        if not self._free:
            self._leases.want()
        await super()._slot(queue)

    def _hand_over(self) -> None:
        if not self._surplus:
            super()._hand_over()
            if not self._free:
                return
        else:
            self._surplus, self._held = self._surplus - 1, self._held - 1
        self._leases.want()  # which tells the pool, for the others

    async def _wait_for_rates(self, tokens: int) -> None:
        self._to_start, self._waiting_tokens = self._to_start + 1, self._waiting_tokens + tokens
        try:
            async with self._head:
                while not self._may_start():
                    self._leases.want()
                    self._granted = asyncio.get_running_loop().create_future()
                    await self.wait_for(self._granted)
                await self._sleep_until(0.0)
                if self._starts is not None:
                    self._starts -= 1
                if self._tokens_left is not None:
                    self._tokens_left -= tokens
                self._started, self._spent_tokens = self._started + 1, self._spent_tokens + tokens
        finally:
            self._to_start, self._waiting_tokens = self._to_start - 1, self._waiting_tokens - tokens

    def _may_start(self) -> bool:
        starts, tokens = self._starts, self._tokens_left
        return (starts is None or starts >= 1 - 1e-9) and (tokens is None or tokens > 0) and self._leases.admits

    def _expected_starts(self) -> int:
        """Return how many requests may start until the next lease: those that have a slot, and as many as of late."""
        return self._to_start + min(2 * self._started, len(self._new) + self._started)
