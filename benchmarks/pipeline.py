"""The time of a build on Ray over the same build in this process, and its memory with eight times the labels.

    python -m benchmarks.pipeline [--labels PATH] [--cpus 2] [--memory]

Both make and write the same parts with the same steps; the start of Ray and a first run to warm up are not counted.
`--memory` adds the second measurement: the peak memory of the driver and Ray's processes (proportional set size, where
shared pages count once) for the labels and for eight copies with other set ids.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import PRESCRIPTION_LABELS, read_documents, run
from fdarx_core.labels import find_sources
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.build import Build, BuildSpec
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Part
from fdarx_core.storage import RunDirectory
from jobs.ray_session import ray_session
from tests.engine.serve_models import descendants

COPIES = 8
RAY_NICENESS = 15
"""The niceness of Ray's workers. The loop gets the same, so that other programs slow both alike."""


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Sample the proportional set sizes of this process and its descendants every 0.5 s, summed, in MiB."""
    samples = [0.0]
    stopped = threading.Event()

    def sample() -> None:
        while not stopped.wait(0.5):
            samples.append(sum(map(_pss_kib, [os.getpid(), *descendants(os.getpid())])) / 1024)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def job(out: str, labels: str, executor: Executor) -> Build:
    """Return a build into a new run directory, whose labels are identified."""
    run = RunDirectory.begin(out, job="benchmark", config={}, versions={})
    spec = BuildSpec(find_sources([labels]))
    build = Build(run=run, executor=executor, progress=lambda *_: None, spec=spec)
    build.prepare(planned=False)
    return build


def seconds_of(build: Build, parts: Sequence[Part]) -> float:
    """Return the seconds that the executor takes to make these parts and to write them."""
    store = ResponseStore(build.run.file("responses"))
    store.index()
    start = time.perf_counter()
    [(stage, _)] = build.stages(planned=False)
    for _ in build.executor.run(build.work([(stage, parts)], store, planned=False)):
        pass
    return time.perf_counter() - start


def copies(path: str, folder: Path) -> str:
    """Write a bulk release with eight copies of each label, each with its own set id; return its path."""
    target = folder / "copies.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as bulk:
        for position, data in enumerate(read_documents([path])):
            for copy in range(COPIES):
                inner = io.BytesIO()
                with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                    archive.writestr("label.xml", data.replace(b'<setId root="', f'<setId root="{copy}'.encode()))
                bulk.writestr(f"prescription/{position:05d}_{copy}.zip", inner.getvalue())
    return str(target)


def main(*, labels: str = str(PRESCRIPTION_LABELS), cpus: int = 2, memory: bool = False) -> int:
    """Print the ratios; exit 1 where Ray takes more than 0.70 of the time, or memory grows with the labels."""
    failed = False
    with tempfile.TemporaryDirectory() as folder, ray_session(cpus):
        on_ray = RayExecutor()
        warm, flow, loop = (
            job(f"{folder}/{name}", labels, executor)
            for name, executor in (("warm", on_ray), ("flow", on_ray), ("loop", LocalExecutor()))
        )
        once, parts = loop.corpus.labels, loop.corpus.parts
        seconds_of(warm, parts[:4])
        seconds = seconds_of(flow, parts)
        os.nice(RAY_NICENESS)
        plain = seconds_of(loop, parts)
        print(f"{len(once)} labels: loop {plain:.1f} s, flow on {cpus} CPUs {seconds:.1f} s")
        print(f"ratio flow / loop: {seconds / plain:.2f}")
        failed = seconds > 0.70 * plain
        if memory:
            again = job(f"{folder}/again", labels, on_ray)
            with peak_memory() as small:
                seconds_of(again, parts)
            large_build = job(f"{folder}/many", copies(labels, Path(folder)), on_ray)
            many = large_build.corpus
            with peak_memory() as large:
                seconds_of(large_build, many.parts)
            growth = max(large) / max(small)
            print(f"peak memory in MiB: {max(small):.0f} of {len(once)} labels, {max(large):.0f} of {len(many.labels)}")
            print(f"ratio of peaks: {growth:.2f}")
            failed = failed or not 0.8 <= growth <= 1.2
    return int(failed)


if __name__ == "__main__":
    run(main)
