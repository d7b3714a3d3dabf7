"""What is counted about requests; who counts (Ray's metrics, a test) is given to the app."""

from __future__ import annotations

from typing import Literal, Protocol

Rejection = Literal["key", "rate", "concurrency"]


class Meter(Protocol):
    """Called in the event loop, several times a request: each call must return at once."""

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request ended. `route` is a template such as /v1/passages/{chunk_id}; 499: the client went away."""
        ...

    def phase(self, phase: str, seconds: float) -> None:
        """How long rewrite, search, postprocess or answer took."""
        ...

    def in_flight(self, requests: int) -> None:
        """Requests now being worked on."""
        ...

    def degraded(self, reason: str) -> None:
        """An answer had to do without a part. `reason` is a fixed name."""
        ...

    def rejected(self, why: Rejection) -> None:
        """A request was refused before any work was done for it."""
        ...
