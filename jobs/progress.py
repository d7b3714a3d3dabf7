"""One line that tells how far a job is: redrawn in a terminal, written now and then into a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from fdarx_core.pipeline.control import Asked, Control, asked_so_far

_LOG_EVERY_S = 10.0
_DRAW_EVERY_S = 0.5


class ProgressLine:
    """Shows phase, done of total, what a job says of it, asking, rate and time left on standard error.

    `phases` name what is counted in each phase; models are asked in the phase `asking`.
    """

    def __init__(self, phases: Mapping[str, str], asking: str) -> None:
        self._phases, self._asking_phase = phases, asking
        self._live = sys.stderr.isatty()
        self._phase = ""
        self._started = self._shown = 0.0
        self._first = 0
        self._latest: tuple[int, int, str] = (0, 0, "")
        self._asked: Asked | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_line()

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None:
        """`total` is 0 where it is not known."""
        with self._lock:
            if phase != self._phase:
                self._end_line()
                self._phase, self._started, self._first, self._shown = phase, time.monotonic(), done, 0.0
            self._latest = (done, total, note)
            self._draw(last=bool(total) and done >= total)

    def tell(self, line: str) -> None:
        """A line of its own, which stays."""
        with self._lock:
            print(f"\r\x1b[K{line}" if self._live else line, file=sys.stderr, flush=True)

    @contextmanager
    def watching(self, control: Callable[[], Control | None]) -> Iterator[None]:
        """While a job runs, also show how its asking goes. `control` gives the handle once there is one."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_DRAW_EVERY_S):
                asked = asked_so_far(control())
                with self._lock:
                    if asked is not None and self._phase == self._asking_phase:
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
        done, total, note = self._latest
        what = self._phases[self._phase]
        if (done, total) == (0, 1):
            return what
        rate = (done - self._first) / seconds if seconds > 1 and done > self._first else 0.0
        left = f", {rate:.1f}/s" if rate else ""
        left += f", {(total - done) / rate:.0f} s left" if rate and total else ""
        of = f" of {total:,}" if total else ""
        return f"{done:,}{of} {what}{', ' if note else ''}{note}{self._asking(seconds)}{left}"

    def _asking(self, seconds: float) -> str:
        asked = self._asked
        if asked is None or self._phase != self._asking_phase or not (asked.done or asked.in_flight):
            return ""
        cost = f", {asked.cost:.2f} USD" if asked.cost else ""
        rate = f" ({asked.done / seconds:.1f}/s)" if seconds > 1 else ""
        return f", {asked.done:,} answers{rate}, {asked.in_flight} in flight, {asked.retries:,} retries{cost}"

    def _end_line(self) -> None:
        if self._live and self._phase:
            print(file=sys.stderr)
        self._phase = ""
