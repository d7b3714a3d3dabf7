"""One line that tells how far a job is: redrawn in a terminal, written now and then into a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from fdarx_core.pipeline.build import Build
from fdarx_core.pipeline.control import Asked, asked_so_far
from fdarx_core.pipeline.plan import STAGES
from fdarx_core.records import StageCount

_LOG_EVERY_S = 10.0
_DRAW_EVERY_S = 0.5
_PHASES = {
    "identify": "files identified",
    "plan": "parts planned",
    "build": "labels built",
    "publish": "writing the benchmark and the report",
}


class ProgressLine:
    """Shows phase, done of total, questions, rejects, asking, rate and time left on standard error."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._phase = ""
        self._started = self._shown = 0.0
        self._first = 0
        self._latest: tuple[int, int, Sequence[StageCount]] = (0, 0, ())
        self._asked: Asked | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_line()

    def __call__(self, phase: str, done: int, total: int, counts: Sequence[StageCount]) -> None:
        """Matches `pipeline.corpus.Progress`."""
        with self._lock:
            if phase != self._phase:
                self._end_line()
                self._phase, self._started, self._first, self._shown = phase, time.monotonic(), done, 0.0
            self._latest = (done, total, counts)
            self._draw(last=done >= total)

    @contextmanager
    def watching(self, build: Build) -> Iterator[None]:
        """While a build runs, also show how its asking goes."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_DRAW_EVERY_S):
                asked = asked_so_far(build.flow.control) if build.flow else None
                with self._lock:
                    if asked is not None and self._phase == "build":
                        self._asked = asked
                        self._draw()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(timeout=5)

    def _draw(self, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < (_DRAW_EVERY_S if self._live else _LOG_EVERY_S):
            return
        self._shown = now
        line = self._line(now - self._started)
        print(f"\r\x1b[K{line}" if self._live else line, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        done, total, counts = self._latest
        if self._phase == "publish":
            return _PHASES[self._phase]
        made = next((count.rows_out for count in counts if count.stage == STAGES[-1]), None)
        lost = sum(count.rejected for count in counts)
        questions = "" if made is None else f", {made:,} questions, {lost:,} rejects"
        rate = (done - self._first) / seconds if seconds > 1 and done > self._first else 0.0
        left = f", {rate:.1f}/s, {(total - done) / rate:.0f} s left" if rate else ""
        return f"{done:,} of {total:,} {_PHASES[self._phase]}{questions}{self._asking(seconds)}{left}"

    def _asking(self, seconds: float) -> str:
        asked = self._asked
        if asked is None or self._phase != "build":
            return ""
        cost = f", {asked.cost:.2f} USD" if asked.cost else ""
        rate = f" ({asked.done / seconds:.1f}/s)" if seconds > 1 else ""
        return f", {asked.done:,} answers{rate}, {asked.in_flight} in flight, {asked.retries:,} retries{cost}"

    def _end_line(self) -> None:
        if self._live and self._phase:
            print(file=sys.stderr)
        self._phase = ""
