"""One line that tells how far a job is: redrawn in a terminal, written now and then into a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from fdarx_core.records import StageCount

_LOG_EVERY_S = 10.0
_DRAW_EVERY_S = 0.2
_PHASES = {"identify": "files identified", "build": "labels built", "publish": "writing the benchmark and the report"}


class ProgressLine:
    """Shows phase, done of total, questions, rejects, rate and time left on standard error."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._phase = ""
        self._started = self._shown = 0.0
        self._first = 0

    def __call__(self, phase: str, done: int, total: int, counts: Sequence[StageCount]) -> None:
        """Matches `pipeline.build.Progress`."""
        now = time.monotonic()
        if phase != self._phase:
            self._end_line()
            self._phase, self._started, self._first, self._shown = phase, now, done, 0.0
        if now - self._shown < (_DRAW_EVERY_S if self._live else _LOG_EVERY_S) and done < total:
            return
        self._shown = now
        line = self._line(phase, done, total, counts, now - self._started)
        print(f"\r\x1b[K{line}" if self._live else line, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def _line(self, phase: str, done: int, total: int, counts: Sequence[StageCount], seconds: float) -> str:
        if phase == "publish":
            return _PHASES[phase]
        made = next((count.rows_out for count in counts if count.stage == "duplicates"), None)
        lost = sum(count.rejected for count in counts)
        questions = "" if made is None else f", {made:,} questions, {lost:,} rejects"
        rate = (done - self._first) / seconds if seconds > 1 and done > self._first else 0.0
        left = f", {rate:.0f}/s, {(total - done) / rate:.0f} s left" if rate else ""
        return f"{done:,} of {total:,} {_PHASES[phase]}{questions}{left}"

    def _end_line(self) -> None:
        if self._live and self._phase:
            print(file=sys.stderr)

    def close(self) -> None:
        """Leave the cursor on a line of its own."""
        self._end_line()
        self._phase = ""
