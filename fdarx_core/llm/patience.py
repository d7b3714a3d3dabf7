"""How long one request keeps trying."""

from __future__ import annotations

from hashlib import blake2b

from fdarx_core.llm.exchange import Failure

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0


class Patience:
    """Bounded tries and bounded waiting for one request.

    Waits double from half a second to a minute, each shortened by up to half; by how much follows from the key, so
    that requests that fail together do not come back together, and a repeated run waits alike. Being told to wait
    counts as no failed try: it is bounded by the waiting alone, which Retry-After sets, never cut short.
    """

    def __init__(self, key: str, max_tries: int, max_wait_s: float) -> None:
        self.sent = 0
        self._key, self._tries_left, self._seconds_left = key, max_tries, max_wait_s

    def seconds_after(self, failure: Failure) -> float | None:
        """Seconds to wait before the next try; None to give up."""
        if not failure.transient:
            return None
        self._tries_left -= not failure.told_to_wait
        seconds = self._wait(failure.retry_after)
        if self._tries_left < 1 or seconds > self._seconds_left:
            return None
        self._seconds_left -= seconds
        return seconds

    def _wait(self, asked: float | None) -> float:
        draw = blake2b(f"{self._key} {self.sent}".encode(), digest_size=4).digest()
        share = int.from_bytes(draw, "big") / 2**32
        if asked:
            return max(asked, _FIRST_WAIT_S / 2) + share * min(1.0, asked / 10)
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(self.sent - 1, 10))
        return longest * (1 - share / 2)
