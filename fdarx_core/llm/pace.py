"""Rates: a fixed one, and one that is found out."""

from __future__ import annotations

_CATCH_UP_S = 0.05
_EPOCH_S, _EPOCH_REQUESTS = 1.0, 3
_FLOODED_S, _FLOOD = 0.1, 32
_TOLERATED, _PROBE = 0.15, 1.1
_FIRST_GROWTH, _MOST_GROWTH = 1.1, 2.0
_STEEPEST = 0.25
_SLOWEST = 0.2


class Pace:
    """Evenly spaced starts: at most `rate` a second, with no burst beyond what a late timer has to catch up."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._next = 0.0

    def book(self, now: float, amount: float = 1.0) -> float:
        """The time at which this amount may start; what is booked next starts after it."""
        start = max(self._next, now - _CATCH_UP_S)
        self._next = start + amount / self.rate
        return start


class AdaptivePace:
    """The rate that a server turns out to take, in requests a second; unlimited until it refuses some.

    Once a second (after three requests, if that is later; sooner, while most are refused) the rate follows from what
    was sent since. More than 15 % refused: it becomes what was taken, and a tenth more to find out whether the server
    takes more, but no less than a quarter of what it was. Where it was lowered already and about the same share is
    refused, that does not depend on us, and the rate returns. Fewer refused: it grows, by ever more, and falls away
    once it holds nothing back. A few refusals cost a retry each, which holds no slot; a rate that falls with each of
    them would never recover from those that come whatever the rate.
    """

    def __init__(self) -> None:
        self._pace: Pace | None = None
        self._growth = _FIRST_GROWTH
        self._since, self._latest = 0.0, 0.0
        self._sent = self._refused = 0
        self._before: tuple[float, float] | None = None

    @property
    def rate(self) -> float | None:
        return self._pace.rate if self._pace else None

    def book(self, now: float) -> float:
        """The time at which one request may start."""
        idle_s = _EPOCH_S + (1 / self._pace.rate if self._pace else 0)
        if now - self._latest > idle_s:  # a pause says nothing about the server
            self._begin(now)
        self._settle(now)
        start = self._pace.book(now) if self._pace else now
        self._latest = max(now, start)
        self._sent += 1
        return start

    def refused(self, now: float, sent_at: float) -> None:
        if sent_at >= self._since:  # else it went out under an earlier rate
            self._refused += 1
            self._settle(now)

    def _begin(self, now: float) -> None:
        self._since, self._sent, self._refused = now, 0, 0

    def _settle(self, now: float) -> None:
        seconds = now - self._since
        flooded = self._refused >= _FLOOD and 2 * self._refused > self._sent
        if seconds < (_FLOODED_S if flooded else _EPOCH_S) or self._sent < _EPOCH_REQUESTS:
            return
        sent = self._sent / seconds
        if self._refused > _TOLERATED * self._sent:
            self._slow_down(sent, self._refused / self._sent)
        elif self._pace:
            self._grow(sent)
        self._begin(now)

    def _slow_down(self, sent: float, share: float) -> None:
        self._growth = _FIRST_GROWTH
        if self._before and share > _halfway(*self._before, sent):
            self._turn_to(max(self._before[0], sent) * _PROBE)
            self._before = None
            return
        slowest = max(_SLOWEST, _STEEPEST * (self.rate or sent))
        self._turn_to(max(slowest, sent * (1 - share) * _PROBE))
        self._before = (sent, share)

    def _grow(self, sent: float) -> None:
        rate = self._growth * (self.rate or sent)
        if rate < 4 * sent:
            self._turn_to(rate)
        else:
            self._pace = None
        self._before = None
        self._growth = min(_MOST_GROWTH, self._growth**2)

    def _turn_to(self, rate: float) -> None:
        if self._pace:
            self._pace.rate = rate  # what is booked stays booked
        else:
            self._pace = Pace(rate)


def _halfway(sent_before: float, share_before: float, sent: float) -> float:
    """The share refused that lies midway between that before and what a server of fixed rate would refuse now.

    1 where that can't be told: most was refused before, or no less is sent now.
    """
    if share_before > 0.5 or sent >= 0.95 * sent_before:
        return 1.0
    expected = 1 - (1 - share_before) * sent_before / sent
    return (share_before + max(0.0, expected)) / 2
