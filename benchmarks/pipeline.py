"""The time of a build on Ray over the same build in this process, and where it goes.

    python -m benchmarks.pipeline [--labels PATH] [--cpus 2] [--sample N] [--rounds 1]

Three ways make and write the same parts with the same steps, one after the other in each round: a loop in this process,
the flow of Ray, and plain processes that share the parts, as many as CPUs, without Ray. The last is the floor: what it
takes more than its share of the loop is the machine's and the parts', and not Ray's. CPU seconds are shown beside the
seconds, since other programs on the machine slow the three by different amounts. The start of processes and a first run
to warm up are not counted. Ray's workers get the niceness of this process, and not 15 as by default.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import PRESCRIPTION_LABELS, run
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build import Build
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.executor import Executor, Work
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Part, run_steps
from fdarx_core.storage import RunDirectory
from jobs.ray_session import ray_session
from tests.engine.serve_models import descendants

BOUND = 0.60
"""The highest ratio of the flow's time on two CPUs to that of the loop."""
_WARM_PARTS = 4
DRIVER, WORKER, SYSTEM = "driver", "workers", "Ray's own processes"
"""What a process does. Ray's own processes are its raylet, GCS, agents and monitors."""
_TICKS = os.sysconf("SC_CLK_TCK")


def prepared(out: str, labels: str, executor: Executor, sample: int | None = None) -> Build:
    """Return a build into a new run directory, whose labels are identified."""
    run = RunDirectory.begin(out, job="benchmark", config={}, versions={})
    build = Build(
        run=run,
        executor=executor,
        progress=lambda *_: None,
        clients=ClientPool(baseline()),
        inputs=find_sources([labels]),
        selection=Selection(sample=sample),
    )
    build.prepare(planned=False)
    return build


def work_on(build: Build, parts: Sequence[Part]) -> Work:
    """Return the work on some parts of a build."""
    store = ResponseStore(build.run.file("responses"))
    store.index()
    [(stage, _)] = build.stages(planned=False)
    return build.work([(stage, parts)], store, planned=False)


def run_through(executor: Executor, work: Work) -> None:
    """Make the parts by an executor."""
    for _ in executor.run(work):
        pass


class PlainProcesses:
    """Processes that share the parts of some work, without Ray."""

    def __init__(self, number: int) -> None:
        self._pool = ProcessPoolExecutor(number, mp_context=get_context("spawn"))

    def __call__(self, work: Work) -> None:
        """Make the parts."""
        [(stage, parts)] = work.stages
        list(self._pool.map(_make, [(stage, part, work.answer) for part in parts]))

    def close(self) -> None:
        self._pool.shutdown()


def _make(item: tuple[Any, Part, Any]) -> None:
    stage, part, answer = item
    stage.write(part.number, run_steps(stage.steps, stage.read(part), answer))


def compare(folder: str, labels: str, cpus: int, sample: int | None, rounds: int) -> float:
    """Print the seconds and CPU seconds of each way; return the median ratio of the flow to the loop."""
    plain, on_ray, local = PlainProcesses(cpus), RayExecutor(), LocalExecutor()
    build = prepared(f"{folder}/labels", labels, local, sample)
    [(_, parts)] = build.stages(planned=False)
    ways: dict[str, Callable[[Work], None]] = {
        "loop": lambda work: run_through(local, work),
        f"flow on {cpus} CPUs": lambda work: run_through(on_ray, work),
        f"{cpus} plain processes": plain,
    }
    for name, way in ways.items():
        way(_in_new_run(build, f"{folder}/warm {name}", parts[:_WARM_PARTS]))
    print(f"{len(build.corpus.labels)} labels in {len(parts)} parts")
    print(f"| | seconds | over the loop | CPU s: {DRIVER} | {WORKER} | {SYSTEM} |\n|---|--:|--:|--:|--:|--:|")
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        seconds: dict[str, float] = {}
        for name, way in ways.items():
            work = _in_new_run(build, f"{folder}/{turn} {name}", parts)
            before, start = cpu_seconds(), time.perf_counter()
            way(work)
            seconds[name], used = time.perf_counter() - start, cpu_since(before)
            ratios[name].append(seconds[name] / seconds["loop"])
            cpu = " | ".join(f"{used.get(kind, 0):.1f}" for kind in (DRIVER, WORKER, SYSTEM))
            print(f"| {name} | {seconds[name]:.1f} | {ratios[name][-1]:.2f} | {cpu} |", flush=True)
    plain.close()
    return median(ratios[f"flow on {cpus} CPUs"])


def _in_new_run(build: Build, folder: str, parts: Sequence[Part]) -> Work:
    """Return the work of a build on some parts, to be written into another run."""
    build.run = RunDirectory.begin(folder, job="benchmark", config={}, versions={})
    return work_on(build, parts)


def cpu_seconds() -> Counter[str]:
    """Return the CPU seconds so far of this process and of those of its descendants that are alive, by kind."""
    found: Counter[str] = Counter()
    for pid in (os.getpid(), *descendants(os.getpid())):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[_kind(pid)] += (int(fields[11]) + int(fields[12])) / _TICKS  # type: ignore[assignment]
        except OSError:
            continue
    return found


def cpu_since(before: Counter[str]) -> dict[str, float]:
    """Return the CPU seconds since an earlier `cpu_seconds`, by kind, without those of processes that have ended."""
    return {kind: seconds - before[kind] for kind, seconds in cpu_seconds().items()}


def _kind(pid: int) -> str:
    if pid == os.getpid():
        return DRIVER
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return SYSTEM
    if command.startswith("ray::"):
        return SYSTEM if "Agent" in command else WORKER
    return WORKER if "multiprocessing" in command else SYSTEM


def main(
    *,
    labels: str = str(PRESCRIPTION_LABELS),
    cpus: int = 2,
    sample: int | None = None,
    rounds: int = 1,
) -> int:
    """Print the ratios; exit 1 where Ray takes more than 0.60 of the loop's time."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    with tempfile.TemporaryDirectory() as folder, ray_session(cpus):
        ratio = compare(folder, labels, cpus, sample, rounds)
        print(f"ratio flow / loop: {ratio:.2f}, bound {BOUND:.2f}")
    return int(ratio > BOUND)


if __name__ == "__main__":
    run(main)
