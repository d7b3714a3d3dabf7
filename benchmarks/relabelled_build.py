"""Builds by loopback models on more and more labels: labels an hour, and whether memory and time a label stay the same.

    python -m benchmarks.relabelled_build [--sizes 823 1646 3292] [--executor local] [--cpus 2] [--servers 1] \
        [--passages 16] [--section-pairs 12] [--twins 20] [--transfers 12]

The first labels of a size are the real ones. The others are copies under other names: a copy has a set id and UNIIs of
its own, and the words of the names that SPL gives to its products and substances have two more letters wherever they
stand in the text. A copy is thus a label of another drug, whose prompts differ from those of the first, so that nothing
is answered from the store; the labels of a drug stay labels of one drug. Names of other drugs are not changed.

The models are those of `loopback_build`, in processes of their own. Each size is built in a new process. Printed are
labels an hour, CPU seconds, the peak memory of the driver by phase and of the largest worker (proportional set size),
and for each of them what 1,000 more labels add. For near duplicates and the artifact audit, which are run once more on
the finished build, the CPU time is printed; the slope of its logarithm is 1 where it grows as the number of labels.
Exits 1 where a slope is above 1.2.
"""

from __future__ import annotations

import io
import math
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import PRESCRIPTION_LABELS, cpu_timed, read_documents, run, server_process
from benchmarks.loopback_build import ROLES, LoopbackModels
from benchmarks.processes import ASKING, DRIVER, SYSTEM, WORKER, PeakMemory, cpu_seconds, peak_memory
from fdarx_core.filters import drop_duplicates
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import find_sources, parse_document
from fdarx_core.labels.drugs import WORD
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.build import Build, BuildSpec
from fdarx_core.pipeline.build_audit import audit_build
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.records import QuestionAnswer
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.splits import Splits
from tests.llm.loopback_server import LoopbackServer

STEEPEST = 1.2
"""The slope of the logarithm of CPU seconds up to which a stage counts as growing as the number of labels."""
_SHORTEST_WORD = 5
_TEXT = re.compile(r">[^<>]+<")
_UNII = re.compile(r'(<code code="[A-Z0-9]{8})[A-Z0-9]{2}(" codeSystem="2\.16\.840\.1\.113883\.4\.9")')


def relabelled(document: bytes, copy: int) -> bytes:
    """Return a label under other names, as the module says; as it is for copy 0.

    Args:
        document: the SPL XML of a label, in UTF-8.
        copy: the number of the copy, up to 675; copies of equal numbers have the same names for the same drugs.
    """
    if not copy:
        return document
    text = document.decode(errors="surrogateescape")
    renamed = renamer(_names(document), copy)
    text = _TEXT.sub(lambda found: renamed(found[0]), text)
    text = _UNII.sub(rf"\g<1>{_letters(copy).upper()}\g<2>", text)
    return text.replace('<setId root="', f'<setId root="{copy}', 1).encode(errors="surrogateescape")


def renamer(names: Iterable[str], copy: int) -> Callable[[str], str]:
    """Return the function that gives the long words of the names in a text the two letters of a copy."""
    words = {word for name in names for word in WORD.findall(name.casefold())}
    words = {word for word in words if len(word) >= _SHORTEST_WORD and word.isalpha()}
    if not words:
        return str
    letters = _letters(copy)
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b", re.IGNORECASE)

    def longer(found: re.Match[str]) -> str:
        return found[0] + (letters.upper() if found[0].isupper() else letters)

    return lambda text: pattern.sub(longer, text)


def _letters(copy: int) -> str:
    return "".join(chr(ord("a") + one) for one in divmod(copy, 26))


def _names(document: bytes) -> set[str]:
    """Return the names of a label's products and substances; none of a label that is refused."""
    try:
        label, _ = parse_document(document)
    except InputError:
        return set()
    return {*label.aliases, *label.substances}


def release(documents: Sequence[bytes], size: int, target: Path) -> str:
    """Write a bulk release of so many labels, a zip of zips as DailyMed's; return its path."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as bulk:
        for number in range(size):
            copy, place = divmod(number, len(documents))
            inner = io.BytesIO()
            with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.writestr("label.xml", relabelled(documents[place], copy))
            bulk.writestr(f"prescription/{place:05d}_{copy}.zip", inner.getvalue())
    return str(target)


@dataclass(slots=True)
class SizeFigures:
    """What a build of so many labels took.

    Attributes:
        labels: the labels that were selected.
        questions: the questions that were kept.
        requests: the requests to the models.
        seconds: of the whole build.
        cpu: the CPU seconds of the build by kind of process, without those of the models.
        phases: the CPU seconds of the driver by phase.
        memory: the peak memory.
        stages: the CPU seconds of the stages that are run once more.
    """

    labels: int
    questions: int
    requests: int
    seconds: float
    cpu: dict[str, float]
    phases: dict[str, float]
    memory: PeakMemory
    stages: dict[str, float]


@dataclass(slots=True)
class _PhaseClock:
    """Notes the CPU seconds of this process by phase, and tells the phase to what measures the memory."""

    memory: PeakMemory
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.process_time)

    def __call__(self, phase: str, *_: Any) -> None:
        if phase == self.memory.phase:
            return
        now = time.process_time()
        if self.memory.phase:
            self.memory.sample()
            self.seconds[self.memory.phase] = self.seconds.get(self.memory.phase, 0.0) + now - self.last
        self.memory.phase, self.last = phase, now


def measured(
    labels: str, folder: str, addresses: Sequence[str], amounts: GenerationConfig, executor: str, cpus: int
) -> SizeFigures:
    """Build a benchmark of all labels of a release, in this process or on a Ray of its own."""
    configs = {
        name: ModelConfig(name=name, model=name, base_url=addresses[place % len(addresses)])
        for place, name in enumerate(ROLES)
    }
    spec = BuildSpec(find_sources([labels]), amounts=amounts, roles=Roles(configs, "writer", "reader", ("judge",)))
    begun = RunDirectory.begin(folder, job="build_benchmark", config={}, versions={})
    with ExitStack() as stack:
        chosen: Any = LocalExecutor()
        if executor == "ray":
            from fdarx_core.pipeline.ray_executor import RayExecutor
            from jobs.ray_session import ray_session

            stack.enter_context(ray_session(cpus))
            chosen = RayExecutor()
        before, start = cpu_seconds(), time.perf_counter()
        memory = stack.enter_context(peak_memory())
        clock = _PhaseClock(memory)
        build = Build(run=begun, executor=chosen, progress=clock, spec=spec)
        info = build.run_all()
        clock("")
        seconds, used = time.perf_counter() - start, cpu_seconds()
        used.subtract(before)
    asked = sum(row["requests"] for row in info["asked"] if row["endpoint"] in ROLES)
    questions = sum(info["questions"].values())
    stages = _once_more(begun, info)
    return SizeFigures(len(build.corpus.labels), questions, asked, seconds, dict(used), clock.seconds, memory, stages)


def _once_more(run: RunDirectory, info: dict[str, Any]) -> dict[str, float]:
    """Return the CPU seconds of the stages that could grow faster than the number of labels."""
    _, audit = cpu_timed(lambda: audit_build(run, Splits.of_run(info)))
    duplicates = sum(cpu_timed(partial(drop_duplicates, candidates))[1] for candidates in _candidates(run))
    return {"near duplicates": duplicates, "artifact audit": audit}


def _candidates(run: RunDirectory) -> Iterator[list[QuestionAnswer]]:
    for part in run.parts("candidates"):
        for _, rows in groupby(read_records(part, QuestionAnswer), key=lambda one: one.set_id):
            yield list(rows)


def slope(figures: Sequence[SizeFigures], value: Callable[[SizeFigures], float], *, logarithms: bool = False) -> float:
    """Return what a label more adds to a value, or by logarithms the power of the number of labels; NaN of one size."""
    if len(figures) < 2:
        return math.nan
    points = [(one.labels, value(one)) for one in figures]
    x, y = np.log(points).T if logarithms else np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def print_tables(figures: Sequence[SizeFigures]) -> bool:
    """Print all figures; return whether no stage grows faster than the number of labels."""
    print(
        "\n| labels | questions | requests | seconds | labels an hour | CPU s: driver | workers | asking | Ray's own |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for one in figures:
        cpu = " | ".join(f"{one.cpu.get(kind, 0):.0f}" for kind in (DRIVER, WORKER, ASKING, SYSTEM))
        rate = 3600 * one.labels / one.seconds
        print(f"| {one.labels:,} | {one.questions:,} | {one.requests:,} | {one.seconds:.0f} | {rate:,.0f} | {cpu} |")
    sizes = [f"{one.labels:,}" for one in figures]
    print(f"\n| peak memory in MiB | {' | '.join(sizes)} | for each 1,000 labels |\n|---|{'--:|' * (len(sizes) + 1)}")
    for phase in figures[0].phases:
        _print_memory(f"driver: {phase}", figures, partial(_driver_memory, phase))
    for kind in (WORKER, ASKING):
        if any(one.memory.of(kind) for one in figures):
            _print_memory(f"largest of {kind}", figures, partial(_kind_memory, kind))
    print(f"\n| CPU seconds | {' | '.join(sizes)} | slope |\n|---|{'--:|' * (len(sizes) + 1)}")
    for phase in figures[0].phases:
        _print_seconds(f"driver: {phase}", figures, partial(_phase_seconds, phase))
    slopes = [_print_seconds(name, figures, partial(_stage_seconds, name)) for name in figures[0].stages]
    return not any(one > STEEPEST for one in slopes)


def _driver_memory(phase: str, one: SizeFigures) -> float:
    return one.memory.by_kind.get((phase, DRIVER), 0.0)


def _kind_memory(kind: str, one: SizeFigures) -> float:
    return one.memory.of(kind)


def _phase_seconds(phase: str, one: SizeFigures) -> float:
    return one.phases.get(phase, 0.0)


def _stage_seconds(name: str, one: SizeFigures) -> float:
    return one.stages[name]


def _print_memory(name: str, figures: Sequence[SizeFigures], value: Callable[[SizeFigures], float]) -> None:
    row = " | ".join(f"{value(one):.0f}" for one in figures)
    print(f"| {name} | {row} | {1000 * slope(figures, value):.0f} |")


def _print_seconds(name: str, figures: Sequence[SizeFigures], value: Callable[[SizeFigures], float]) -> float:
    """Print a row; return the slope of the logarithms."""
    found = slope(figures, lambda one: max(value(one), 1e-3), logarithms=True)
    print(f"| {name} | {' | '.join(f'{value(one):.1f}' for one in figures)} | {found:.2f} |")
    return found


def serve() -> None:
    """Serve the loopback models; print the address, and answer until the process is ended."""
    with LoopbackServer(LoopbackModels(), keep_calls=False) as server:
        print(server.openai_url, flush=True)
        while True:
            time.sleep(60)


def main(
    *,
    labels: str = str(PRESCRIPTION_LABELS),
    sizes: tuple[int, ...] = (823, 1646, 3292),
    executor: str = "local",
    cpus: int = 2,
    servers: int = 1,
    passages: int = 16,
    section_pairs: int = 12,
    twins: int = 20,
    transfers: int = 12,
    serve_models: bool = False,
) -> int:
    """Print the tables after each size. With --serve-models, serve the models instead, as the script itself does in its
    processes."""
    if serve_models:
        serve()
    amounts = GenerationConfig(passages=passages, section_pairs=section_pairs, twins=twins, transfers=transfers)
    documents, figures, straight = read_documents([labels]), list[SizeFigures](), True
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        addresses = [
            stack.enter_context(server_process("benchmarks.relabelled_build", "--serve-models")) for _ in range(servers)
        ]
        for size in sizes:
            path = release(documents, size, Path(folder) / f"{size}.zip")
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                built = pool.submit(measured, path, f"{folder}/{size}", addresses, amounts, executor, cpus)
                figures.append(built.result())
            straight = print_tables(figures)
    return int(not straight)


if __name__ == "__main__":
    run(main)
