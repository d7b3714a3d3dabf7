"""CPU seconds and memory of this process and its descendants, by what they do."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.serve_models import descendants

DRIVER, WORKER, ASKING, SYSTEM = "driver", "workers", "asking actor", "Ray's own processes"
"""What a process does. Ray's own processes are its raylet, GCS, agents and monitors."""

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.5


def cpu_seconds() -> Counter[str]:
    """Return the CPU seconds so far of this process and of those of its descendants that are alive, by kind."""
    found: Counter[str] = Counter()
    for pid in _processes():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[_kind(pid)] += (int(fields[11]) + int(fields[12])) / _TICKS  # type: ignore[assignment]
        except OSError:
            continue
    return found


def cpu_since(before: Counter[str]) -> dict[str, float]:
    """Return the CPU seconds since an earlier `cpu_seconds`, by kind, without those of processes that have ended."""
    return {kind: seconds - before[kind] for kind, seconds in cpu_seconds().items()}


@dataclass(slots=True)
class PeakMemory:
    """The highest proportional set sizes in MiB, in which shared pages count once.

    Attributes:
        together: of this process and its descendants, summed.
        by_kind: by phase and kind, of the largest single process; of Ray's own processes, summed.
        phase: the name of the phase to which samples are counted, which the caller sets.
    """

    together: float = 0.0
    by_kind: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    phase: str = ""

    def of(self, kind: str) -> float:
        """Return the highest peak of a kind over all phases, 0 where there was no such process."""
        return max((value for (_, one), value in self.by_kind.items() if one == kind), default=0.0)

    def sample(self) -> None:
        """Measure the processes that are alive now."""
        sizes: dict[str, list[float]] = defaultdict(list)
        for pid in _processes():
            sizes[_kind(pid)].append(_pss_kib(pid) / 1024)
        self.together = max(self.together, sum(map(sum, sizes.values())))
        for kind, found in sizes.items():
            key = self.phase, kind
            self.by_kind[key] = max(self.by_kind[key], sum(found) if kind == SYSTEM else max(found))


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Measure the memory of the block every 0.5 s."""
    peak, stopped = PeakMemory(), threading.Event()

    def sample() -> None:
        while not stopped.wait(_SAMPLE_S):
            peak.sample()

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stopped.set()
        thread.join()
        peak.sample()


def _processes() -> list[int]:
    return [os.getpid(), *descendants(os.getpid())]


def _kind(pid: int) -> str:
    if pid == os.getpid():
        return DRIVER
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return SYSTEM
    if command.startswith("ray::"):
        return ASKING if "Ask" in command else SYSTEM if "Agent" in command else WORKER
    return WORKER if "multiprocessing" in command else SYSTEM


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
