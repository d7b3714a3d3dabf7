"""Limits that several processes share: one pool leases them to workers, in slices of a fraction of a second.

A worker reports what it holds and what it could use about twenty times a second, and gets its next slice. So a request
costs no round trip, the sum of all slices is the limit, and what one worker does not use is leased to the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fdarx_core.llm.asker import cost_reached, requests_reached
from fdarx_core.llm.limits import ALL_REFUSED, AdaptiveRateLimiter, EndpointLimits

_CATCH_UP_S = 0.5
"""Seconds of a rate that the pool saves up while reports are late: less than a hundredth of a limit per minute."""
_EXPIRES_S = 10.0
"""Seconds without a report after which the leases of a worker are free again."""


@dataclass(slots=True)
class EndpointReport:
    """What a worker holds, wants and has seen of one endpoint since its last report.

    Args:
        limits: the limits of the endpoint, equal in all workers.
        held: slots, used or free.
        slots: slots that it could use, those in use included.
        requests, tokens: starts and tokens that it wants beyond those it has; negative for those that it returns.
        debt: tokens that it has spent beyond its leases.
        started, accepted: attempts started, and replies.
        refusals: for each throttled attempt, the time of its start and the seconds of Retry-After.
        done, in_flight, cost: its counters since it began; `cost` in US dollars.
        stopped: why the endpoint answers no request, or "".
    """

    limits: EndpointLimits
    held: int = 0
    slots: int = 0
    requests: float = 0.0
    tokens: float = 0.0
    debt: float = 0.0
    started: int = 0
    accepted: int = 0
    refusals: list[tuple[float, float | None]] = field(default_factory=list)
    done: int = 0
    in_flight: int = 0
    cost: float = 0.0
    stopped: str = ""


@dataclass(slots=True)
class EndpointLease:
    """What a worker gets: slots and a target for all that it holds; starts and tokens (None: unlimited); a pause."""

    slots: int = 0
    target: int = 0
    requests: float | None = None
    tokens: float | None = None
    pause_s: float = 0.0
    stopped: str = ""


@dataclass(slots=True)
class WorkerReport:
    """The report of a worker. `start` tells its starts apart: what an earlier one held is free at once.

    `admissions` are requests that it wants to send beyond those it may, or returns where negative; `sent` are those
    that it has sent since it began.
    """

    worker: int
    start: str
    endpoints: dict[str, EndpointReport]
    admissions: int = 0
    sent: int = 0


@dataclass(slots=True)
class WorkerLease:
    """The lease of a worker. `admissions` is None without a limit of the run; `exhausted` says why no more are left."""

    endpoints: dict[str, EndpointLease]
    admissions: int | None = None
    exhausted: str = ""


@dataclass(slots=True)
class _Worker:
    start: str
    seen_at: float
    report: WorkerReport
    admitted: int = 0

    @property
    def outstanding(self) -> int:
        """Requests that it may still send."""
        return self.admitted - self.report.sent


class LimitPool:
    """Leases the limits of endpoints, and of a run, to workers. Times are those of one monotonic clock, in seconds.

    Args:
        max_requests, max_cost, sent, spent: as of `Asker`, for all workers together.
    """

    def __init__(
        self, max_requests: int | None = None, max_cost: float | None = None, sent: int = 0, spent: float = 0.0
    ) -> None:
        self._endpoints: dict[str, _EndpointPool] = {}
        self._max_requests, self._max_cost = max_requests, max_cost
        self._sent, self._spent = sent, spent  # of workers that are gone, too
        self._workers: dict[int, _Worker] = {}

    def exchange(self, report: WorkerReport, now: float) -> WorkerLease:
        """Take the report of a worker, and return its next lease."""
        for number, other in list(self._workers.items()):
            if number == report.worker and other.start != report.start:
                self._forget(number)
            elif now - other.seen_at > _EXPIRES_S:
                self._release(number)
        worker = self._workers.setdefault(report.worker, _Worker(report.start, now, report))
        worker.seen_at, worker.report = now, report
        leases = {}
        for name, one in report.endpoints.items():
            if name not in self._endpoints:
                self._endpoints[name] = _EndpointPool(one.limits)
            leases[name] = self._endpoints[name].lease(report.worker, one, now)
        granted, exhausted = self._admit(worker, report.admissions)
        return WorkerLease(leases, granted, exhausted)

    def _forget(self, number: int) -> None:
        """Count what a worker that has ended may have sent and spent."""
        worker = self._workers.pop(number)
        self._sent += worker.admitted
        self._spent += sum(one.cost for one in worker.report.endpoints.values())
        self._release(number)

    def _release(self, number: int) -> None:
        for endpoint in self._endpoints.values():
            endpoint.release(number)

    def _admit(self, worker: _Worker, wanted: int) -> tuple[int | None, str]:
        if self._max_requests is None and self._max_cost is None:
            return None, ""
        if wanted < 0:
            worker.admitted += wanted
            return wanted, ""
        left = min(self._requests_left(), self._affordable())
        granted = int(min(max(0.0, left), wanted))
        worker.admitted += granted
        outstanding = sum(one.outstanding for one in self._workers.values())
        return granted, self._reason() if left < 1 and not outstanding else ""

    def _requests_left(self) -> float:
        if self._max_requests is None:
            return math.inf
        return self._max_requests - self._sent - sum(one.admitted for one in self._workers.values())

    def _affordable(self) -> float:
        """Return how many more requests the limit of cost admits, if each costs the mean, like those in flight."""
        if self._max_cost is None:
            return math.inf
        reports = self._reports()
        mean = sum(one.cost for one in reports) / max(1, sum(one.done for one in reports))
        under_way = sum(one.in_flight for one in reports) + sum(one.outstanding for one in self._workers.values())
        committed = self.cost + mean * under_way
        if committed > self._max_cost:
            return 0.0
        return 1 + (self._max_cost - committed) // mean if mean else math.inf

    @property
    def cost(self) -> float:
        """US dollars spent so far by all workers."""
        return self._spent + sum(one.cost for one in self._reports())

    def _reports(self) -> Sequence[EndpointReport]:
        return [one for worker in self._workers.values() for one in worker.report.endpoints.values()]

    def _reason(self) -> str:
        if self._max_requests is not None and self._requests_left() < 1:
            return requests_reached(self._max_requests)
        return cost_reached(self.cost)


class _Bucket:
    """What a rate has accrued and was not leased yet. It saves up half a second, or one request."""

    def __init__(self, rate: float) -> None:
        self.rate, self._level, self._at = rate, 1.0, -math.inf
        self._wanted: dict[int, float] = {}

    def lease(self, worker: int, wanted: float, now: float) -> float:
        """Return what a worker gets of what it wants; where others want as well, its share of what has accrued."""
        self._fill(now)
        if wanted <= 0:
            self._wanted.pop(worker, None)
            self.put_back(-wanted)
            return wanted
        self._wanted[worker] = wanted
        share = min(wanted, max(0.0, self._level) * wanted / sum(self._wanted.values()))
        self._level -= share
        return share

    def put_back(self, amount: float) -> None:
        self._level = min(self._level + amount, self._most)

    def drop(self, worker: int, debt: float) -> None:
        """Forget a worker; its debt is paid by the others."""
        self._wanted.pop(worker, None)
        self._level -= debt

    @property
    def _most(self) -> float:
        return max(1.0, self.rate * _CATCH_UP_S)

    def _fill(self, now: float) -> None:
        if self._at > -math.inf:
            self.put_back((now - self._at) * self.rate)
        self._at = now


class _EndpointPool:
    """The limits of one endpoint."""

    def __init__(self, limits: EndpointLimits) -> None:
        self._limits = limits
        self._reports: dict[int, EndpointReport] = {}
        per_minute, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = _Bucket(per_minute / 60) if per_minute else None
        self._tokens = _Bucket(tokens / 60) if tokens else None
        self._adaptive = AdaptiveRateLimiter()
        self._refused_in_a_row, self._paused_until = 0, 0.0
        self._stopped = ""

    def lease(self, worker: int, report: EndpointReport, now: float) -> EndpointLease:
        self._reports[worker] = report
        self._stopped = self._stopped or report.stopped
        self._note(report, now)
        requests = self._requests.lease(worker, report.requests, now) if self._requests else None
        tokens = self._tokens.lease(worker, report.tokens, now) if self._tokens else None
        target = self._target(worker)
        free = self._limits.max_in_flight - sum(one.held for one in self._reports.values())
        slots = max(0, min(free, target - report.held))
        report.held += slots
        return EndpointLease(slots, target, requests, tokens, max(0.0, self._paused_until - now), self._stopped)

    def release(self, worker: int) -> None:
        report = self._reports.pop(worker, None)
        if report is not None:
            for bucket, debt in ((self._requests, 0.0), (self._tokens, report.debt)):
                if bucket:
                    bucket.drop(worker, debt)

    def _note(self, report: EndpointReport, now: float) -> None:
        """Adapt the rate to what the server refuses, as `RequestLimiter` does for one process."""
        for _ in range(report.started):
            self._adaptive.reserve(now)
        self._refused_in_a_row = 0 if report.accepted else self._refused_in_a_row + len(report.refusals)
        for started_at, retry_after in report.refusals:
            self._adaptive.refused(now, started_at)
            if retry_after and self._refused_in_a_row >= ALL_REFUSED:
                self._paused_until = max(self._paused_until, now + retry_after)
        fixed, adapted = self._limits.requests_per_minute, self._adaptive.rate
        rate = min(fixed / 60 if fixed else math.inf, adapted or math.inf)
        if rate == math.inf:
            self._requests = None
        elif self._requests is None:
            self._requests = _Bucket(rate)
        else:
            self._requests.rate = rate

    def _target(self, worker: int) -> int:
        """Return how many slots a worker may hold: what it wants, up to an equal share where others want more."""
        left, sharing = self._limits.max_in_flight, sorted(self._reports, key=lambda one: self._reports[one].slots)
        targets: dict[int, int] = {}
        for at, one in enumerate(sharing):
            targets[one] = min(self._reports[one].slots, left // (len(sharing) - at))
            left -= targets[one]
        spare, more = divmod(left, len(sharing))  # nobody wants these now: they wait where a request may come
        return targets[worker] + spare + (sharing.index(worker) < more)
