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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
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

BOUND = 0.60
"""The highest ratio of the flow's time on two CPUs to that of the loop."""
_WARM_PARTS = 4
DRIVER, WORKER, SYSTEM = "driver", "workers", "Ray's own processes"
"""What a process does. Ray's own processes are its raylet, GCS, agents and monitors."""


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


def work_on(build: Build, folder: str, parts: Sequence[Part]) -> Work:
    """Return the work of a build on some parts, to be written into a new run."""
    build.run = RunDirectory.begin(folder, job="benchmark", config={}, versions={})
    store = ResponseStore(build.run.file("responses"))
    store.index()
    [(stage, _)] = build.stages(planned=False)
    return build.work([(stage, parts)], store, planned=False)


def make_part(item: tuple[Any, Part, Any]) -> None:
    """Make a part in a plain process, from its stage, the part and what answers requests."""
    stage, part, answer = item
    stage.write(part.number, run_steps(stage.steps, stage.read(part), answer))


def compare(folder: str, labels: str, cpus: int, sample: int | None, rounds: int) -> float:
    """Print the seconds and CPU seconds of each way; return the median ratio of the flow to the loop."""
    pool, on_ray, local = ProcessPoolExecutor(cpus, mp_context=get_context("spawn")), RayExecutor(), LocalExecutor()
    build = prepared(f"{folder}/labels", labels, local, sample)
    [(_, parts)] = build.stages(planned=False)

    def on_plain_processes(work: Work) -> Iterable[Any]:
        [(stage, parts)] = work.stages
        return pool.map(make_part, [(stage, part, work.answer) for part in parts])

    ways: dict[str, Callable[[Work], Iterable[Any]]] = {
        "loop": local.run,
        f"flow on {cpus} CPUs": on_ray.run,
        f"{cpus} plain processes": on_plain_processes,
    }
    for name, way in ways.items():
        list(way(work_on(build, f"{folder}/warm {name}", parts[:_WARM_PARTS])))
    print(f"{len(build.corpus.labels)} labels in {len(parts)} parts")
    print(f"| | seconds | over the loop | CPU s: {DRIVER} | {WORKER} | {SYSTEM} |\n|---|--:|--:|--:|--:|--:|")
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        seconds: dict[str, float] = {}
        for name, way in ways.items():
            work = work_on(build, f"{folder}/{turn} {name}", parts)
            before, start = cpu_seconds(), time.perf_counter()
            list(way(work))
            seconds[name], after = time.perf_counter() - start, cpu_seconds()
            ratios[name].append(seconds[name] / seconds["loop"])
            # without the seconds of processes that have ended
            used = {kind: after[kind] - before[kind] if kind in after else 0 for kind in (DRIVER, WORKER, SYSTEM)}
            cpu = " | ".join(f"{number:.1f}" for number in used.values())
            print(f"| {name} | {seconds[name]:.1f} | {ratios[name][-1]:.2f} | {cpu} |", flush=True)
    pool.shutdown()
    return median(ratios[f"flow on {cpus} CPUs"])


def cpu_seconds() -> Counter[str]:
    """Return the CPU seconds so far of this process and of those of its descendants that are alive, by kind."""
    import psutil  # of the models extra, or Ray's own

    found: Counter[str] = Counter()
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used, command = process.cpu_times(), " ".join(process.cmdline())
            is_worker = "Agent" not in command if command.startswith("ray::") else "multiprocessing" in command
            kind = WORKER if is_worker else SYSTEM
            found[DRIVER if process == own else kind] += used.user + used.system
    return found


def main(*, labels: str = str(PRESCRIPTION_LABELS), cpus: int = 2, sample: int | None = None, rounds: int = 1) -> int:
    """Print the ratios; exit 1 where Ray takes more than 0.60 of the loop's time."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    with tempfile.TemporaryDirectory() as folder, ray_session(cpus):
        ratio = compare(folder, labels, cpus, sample, rounds)
        print(f"ratio flow / loop: {ratio:.2f}, bound {BOUND:.2f}")
    return int(ratio > BOUND)


if __name__ == "__main__":
    run(main)
