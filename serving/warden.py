"""What watches over a sweep's applications: they outlive the process that made them, and cards are dear.

A process that is killed can take nothing down. The warden is an actor that outlives it too, hears its beats, and takes
the applications down when they stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from typing import Any

import ray
from ray import serve

BEAT_S = 3.0
PATIENCE_S = 30.0
_GONE_WITHIN_S = 150.0
_NAMESPACE = "fdarx"


class Warden:
    """An actor. `mark` is what the names of the applications begin with; `serve_too`: end Serve itself when no others
    are on it."""

    def __init__(self, mark: str, serve_too: bool, patience_s: float) -> None:
        self._mark, self._serve_too, self._patience_s = mark, serve_too, patience_s
        self._heard = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        self._heard = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._heard < self._patience_s:
            time.sleep(1)
        try:
            take_down(self._mark, self._serve_too)
        finally:
            ray.kill(ray.get_runtime_context().current_actor)


@contextmanager
def watched(mark: str, serve_too: bool) -> Iterator[None]:
    """A warden is told, while the block runs, that this process lives; at its end the applications are taken down."""
    made: Any = ray.remote(Warden)
    lasting = {"lifetime": "detached", "namespace": _NAMESPACE, "name": f"{mark}warden", "max_restarts": -1}
    warden = made.options(num_cpus=0, **lasting).remote(mark, serve_too, PATIENCE_S)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with suppress(ray.exceptions.RayError):
                warden.beat.remote()

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        take_down(mark, serve_too)
        ended.set()
        ray.kill(warden)


def take_down(mark: str, serve_too: bool) -> None:
    """Delete the applications whose names begin so, and wait, within a bound, until their replicas are gone."""
    until = time.monotonic() + _GONE_WITHIN_S
    asked: set[str] = set()
    while (names := set(serve.status().applications)) and time.monotonic() < until:
        ours = {name for name in names if name.startswith(mark)}
        for name in ours - asked:
            serve.delete(name, _blocking=False)
        asked |= ours
        if not ours:
            break
        time.sleep(0.2)
    if serve_too and not serve.status().applications:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # Ray tells of what ends as it should
            serve.shutdown()  # type: ignore[no-untyped-call]
