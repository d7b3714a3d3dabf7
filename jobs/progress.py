"""The progress of a job: a moving bar in a terminal, a line every ten seconds in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from fdarx_core.pipeline.asking import AskProgress

_LOG_EVERY_S = 10.0
_POLL_S = 0.5

_PHASES = {"ray": "starting Ray", "plan": "parts planned", "publish": "computing figures and intervals"}
"""The names of phases that several jobs have."""


@contextmanager
def busy(text: str, *, quiet: bool) -> Iterator[None]:
    """Show in a terminal that something of unknown length is done while the block runs."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
    else:
        with console.status(text):
            yield


def batches_text(states: Sequence[str]) -> str:
    """Return the number of batches, with the states of the first three."""
    shown = "; ".join([*states[:3], *(["..."] if len(states) > 3 else [])])
    return f"{len(states)} batch{'es' if len(states) > 1 else ''} ({shown})"


@contextmanager
def repeated(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call a function from a thread every so many seconds while the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)


class ProgressLine:
    """Shows phase, done of total, a note, the state of asking, rate and time left on standard error.

    `phases` name what is counted in each phase. With `quiet` nothing is shown.
    """

    def __init__(self, phases: Mapping[str, str], *, quiet: bool = False) -> None:
        self._phases, self._quiet = _PHASES | dict(phases), quiet
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        if self._console.is_terminal and not quiet:
            columns = (SpinnerColumn(), BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=self._console, transient=False)
        self._phase = ""
        self._started = self._shown = 0.0
        self._first = 0
        self._printed = ""
        self._latest: tuple[int, int, str] = (0, 0, "")
        self._asked: AskProgress | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressLine:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Show how much of a phase is done; `total` is 0 where it is not known."""
        with self._lock:
            if phase != self._phase:
                self._phase, self._started, self._first, self._shown = phase, time.monotonic(), done, 0.0
                self._asked = None
                self._task = self._bar.add_task("", total=total or None) if self._bar else None
            self._latest = (done, total, note)
            self._draw(at_once=bool(total) and done >= total)

    def tell(self, line: str) -> None:
        """Print a line of its own, which stays."""
        with self._lock:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def watching(self, asking: Callable[[], AskProgress | None], phase: str) -> Iterator[None]:
        """Show the progress of asking, which `asking` returns, in a phase while the block runs."""

        def look() -> None:
            asked = asking() if self._phase == phase else None
            with self._lock:
                if asked is not None and self._phase == phase:
                    self._asked = asked
                    self._draw()

        with repeated(look, _POLL_S):
            yield

    def _draw(self, at_once: bool = False) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        line = self._line(now - self._started)
        if self._bar and self._task is not None:
            done, total, _ = self._latest
            self._bar.update(self._task, completed=done, total=total or None, description=line)
        elif at_once or now - self._shown >= _LOG_EVERY_S:
            self._shown = now
            # where nothing is done of an unknown number, there is nothing to say
            if line != self._printed and self._latest[:2] != (0, 0):
                self._printed = line
                print(line, file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        done, total, note = self._latest
        name = self._phases[self._phase]
        if (done, total) == (0, 1):
            return name
        rate = (done - self._first) / seconds if seconds > 1 and done > self._first else 0.0
        left = f", {_rate_text(rate)}" if rate else ""
        left += f", {(total - done) / rate:.0f} s left" if rate and total > done else ""
        of = f" of {total:,}" if total else ""
        asking = "" if total and done >= total else self._asking(seconds)  # which was looked at before the end
        return f"{done:,}{of} {name}{', ' if note else ''}{note}{asking}{left}"

    def _asking(self, seconds: float) -> str:
        asked = self._asked
        if asked is None or not (asked.done or asked.in_flight):
            return ""
        cost = f", {asked.cost:.2f} USD" if asked.cost else ""
        rate = f" ({_rate_text(asked.done / seconds)})" if seconds > 1 and asked.done else ""
        where = f" in {batches_text(asked.batches)}" if asked.batches else ""
        waiting = f"{asked.in_flight:,} in flight{where}"
        return f", {asked.done:,} answers{rate}, {waiting}, {asked.retries:,} retries{cost}"


def _rate_text(rate: float) -> str:
    """Return a number per second, or per minute where it is below one in ten seconds."""
    return f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"
