"""For how long a server that fails is asked again: seconds where nothing was ever had of it, else minutes.

A job that begins with a wrong endpoint is told at once; one in the middle of its work sits out a server's restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

PATIENCE_S = 300.0
"""For so long a request is repeated, and a server that nothing is had of is asked at all."""

FIRST_S = 3.0
"""The same, before anything was had of it."""

_THREAD = threading.local()


@dataclass(slots=True)
class Link:
    """What this process has had of its server, over all threads: whether anything, and since when nothing any more."""

    reached: bool = False
    silent_since: float | None = None
    heard_at: float = 0.0

    def heard(self) -> None:
        self.reached, self.silent_since, self.heard_at = True, None, time.monotonic()

    def failed(self, began: float) -> None:
        """What was begun then has failed: since then, or since something else was had, there was nothing."""
        if self.silent_since is None:
            self.silent_since = max(began, self.heard_at)

    def left(self, began: float) -> float:
        """Seconds in which what was begun then may be tried again."""
        since = min(began, began if self.silent_since is None else self.silent_since)
        bound = min(PATIENCE_S if self.reached else FIRST_S, getattr(_THREAD, "bound", PATIENCE_S))
        return since + bound - time.monotonic()


LINK = Link()


@contextmanager
def hurried(seconds: float) -> Iterator[None]:
    """In this block, in this thread, patience ends after so many seconds."""
    _THREAD.bound = seconds
    try:
        yield
    finally:
        del _THREAD.bound
