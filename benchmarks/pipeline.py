"""The Ray flow against a plain loop over the same functions, and its memory when there are eight times the labels.

    python -m benchmarks.pipeline [--labels PATH] [--cpus 2] [--memory]

Both build the same labels with the same steps and write the same parts; starting Ray and its first, warming run are
left out of the flow's time. `--memory` adds the second measurement: peak memory of the driver and all of Ray's
processes (proportional set size, so shared pages count once) for the labels and for eight copies under other set ids.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import Identity, find_sources, read_source
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.flow import Flow, identify_all, numbered_parts
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.plan import baseline, build_steps
from fdarx_core.pipeline.sink import Sink
from fdarx_core.pipeline.stepping import AskBaseline, run_steps
from fdarx_core.storage import RunDirectory
from jobs.ray_session import ray_session

COPIES = 8


class PeakMemory:
    """Peak of the summed proportional set sizes of this process and its descendants, in MiB, sampled every 0.5 s."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.5):
            self.peak = max(self.peak, sum(map(_pss_kib, _descendants(os.getpid()))) / 1024)


def _descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sorted(family)


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def loop(labels: Sequence[Identity], out: str) -> float:
    """Seconds of a plain loop over the steps, part by part."""
    run = RunDirectory.begin(out, job="benchmark", config={}, versions={})
    sink, steps, answer = (
        Sink(run),
        build_steps(Amounts()),
        AskBaseline(baseline(), ResponseStore(run.file("responses"))),
    )
    start = time.perf_counter()
    for number, part in numbered_parts(labels):
        sink(number, run_steps(steps, [Dossier(identity) for identity in part], answer))
    return time.perf_counter() - start


def flow(labels: Sequence[Identity], out: str) -> float:
    """Seconds of the Ray flow over the same steps."""
    run = RunDirectory.begin(out, job="benchmark", config={}, versions={})
    whole = Flow(build_steps(Amounts()), ResponseStore(run.file("responses")), Outside())
    start = time.perf_counter()
    for _ in whole.build_parts(numbered_parts(labels), Sink(run)):
        pass
    return time.perf_counter() - start


def identities(path: str) -> list[Identity]:
    """All documents under a path, by set id."""
    found = [one for block in identify_all(find_sources([path]).sources) for one in block.identities]
    return sorted(found, key=lambda one: one.set_id)


def copies(path: str, folder: Path) -> str:
    """A bulk release with every label of `path` eight times, each time under another set id."""
    target = folder / "copies.zip"
    documents = [
        doc for source in find_sources([path]).sources for doc in read_source(source) if isinstance(doc, tuple)
    ]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as bulk:
        for position, (_, data) in enumerate(documents):
            for copy in range(COPIES):
                inner = io.BytesIO()
                with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                    archive.writestr("label.xml", data.replace(b'<setId root="', f'<setId root="{copy}'.encode()))
                bulk.writestr(f"prescription/{position:05d}_{copy}.zip", inner.getvalue())
    return str(target)


def main() -> int:
    """Print the ratios; exit 1 when the flow is no faster than the loop, or memory grows with the labels."""
    data = os.environ.get("FDARX_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--labels", default=f"{data}/spl/dm_spl_release_human_rx.zip")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument(
        "--memory", action="store_true", help="also measure memory with eight times the labels; minutes"
    )
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder, ray_session(options.cpus):
        once = identities(options.labels)
        flow(once[:32], f"{folder}/warm")
        with PeakMemory() as small:
            seconds = flow(once, f"{folder}/flow")
        plain = loop(once, f"{folder}/loop")
        print(f"{len(once)} labels: loop {plain:.1f} s, flow on {options.cpus} CPUs {seconds:.1f} s")
        print(f"ratio flow / loop: {seconds / plain:.2f}")
        failed = seconds >= plain
        if options.memory:
            many = identities(copies(options.labels, Path(folder)))
            with PeakMemory() as large:
                flow(many, f"{folder}/many")
            growth = large.peak / small.peak
            print(f"peak memory: {small.peak:.0f} MiB for {len(once)} labels, {large.peak:.0f} MiB for {len(many)}")
            print(f"ratio of peaks: {growth:.2f}")
            failed = failed or not 0.8 <= growth <= 1.2
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
