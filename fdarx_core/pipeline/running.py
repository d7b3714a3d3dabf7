"""What all work on a run shares: how far it is, how long its phases take, and answers of other runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from fdarx_core.llm import ResponseStore
from fdarx_core.storage import RunDirectory

Progress = Callable[[str, int, int, str], None]
"""Called with a phase, how much of it is done, of how much, and what is worth saying of it."""


@contextmanager
def timed(timings: dict[str, float], phase: str) -> Iterator[None]:
    """Notes the seconds that the block takes, once it has ended well."""
    start = time.perf_counter()
    yield
    timings[phase] = round(time.perf_counter() - start, 2)


def store_of(run: RunDirectory, reuse: Iterable[RunDirectory] = ()) -> ResponseStore:
    """The run's responses, with those of other runs among them."""
    store = ResponseStore(run.file("responses"))
    for other in reuse:
        store.take_over(ResponseStore(other.file("responses")))
    return store
