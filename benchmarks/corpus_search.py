"""Search of a corpus in segments on disk, compared with one collection in memory: time, memory, and equal rankings.

    python -m benchmarks.corpus_search [--labels 200] [--sizes 1 4 16] [--questions 240]

The passages are those of each fourth real label of $FDARX_DATA, and of copies under other names, as `relabelled_build`
makes them; the questions are those in marked/label_evidence.jsonl, which people wrote on labels. Each size is written
as an evaluation with `--retrieval-scope corpus` writes it, and searched by BM25 for the ten best passages, 24 questions
at a time, in segments and in memory, each in a new process.

Printed are CPU seconds, and the peak of what each process has more than after its imports: memory of its own, and pages
of mapped files, which processes of a machine share and which the system drops where memory is short. The last table has
what a million passages add. Exits 1 where rankings differ.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from benchmarks import cpu_timed, json_lines, read_documents, run
from benchmarks.relabelled_build import renamer
from benchmarks.retrieval import QUESTIONS
from fdarx_core.labels import parse_document
from fdarx_core.pipeline.corpus_files import local_corpus, write_corpus
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import batches
from fdarx_core.records import Label, Passage
from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.corpus import open_corpus
from fdarx_core.retrieval.lexical import RankedList
from fdarx_core.storage import Location, RunDirectory
from fdarx_core.storage.node_copies import NodeCopies

T = TypeVar("T")

K = 10
QUESTIONS_AT_ONCE = 24
LABELS_A_PART = 8
_SAMPLE_S = 0.005
_MIB = 1024

ParsedLabel = tuple[Label, list[Passage]]


@dataclass
class Cost:
    """What a step took.

    Attributes:
        seconds: CPU seconds of the thread that does it.
        own: peak of the memory of its own in MiB.
        mapped: peak of the pages of mapped files in MiB.
    """

    seconds: float = 0.0
    own: float = 0.0
    mapped: float = 0.0


def memory() -> tuple[float, float]:
    """Return the resident memory of this process's own, and the resident pages of files that it maps, in MiB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own, mapped = (int(status[name].split()[0]) / _MIB for name in ("RssAnon", "RssFile"))
    return own, mapped


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure the CPU time and memory of the block beyond that before it."""
    cost, stopped, before, start = Cost(), threading.Event(), memory(), time.thread_time()

    def sample() -> None:
        while True:
            own, mapped = memory()
            cost.own, cost.mapped = max(cost.own, own - before[0]), max(cost.mapped, mapped - before[1])
            if stopped.wait(_SAMPLE_S):
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield cost
    finally:
        cost.seconds = time.thread_time() - start
        stopped.set()
        thread.join()


def part_files(folder: str) -> PartFiles:
    return PartFiles(RunDirectory(Location(folder)), "benchmark")


def write_passages(folder: str, labels: Sequence[ParsedLabel], copies: int) -> tuple[int, int]:
    """Write the passages of all copies in parts, as an evaluation has them; return the parts and the passages."""
    parts, passages, number = part_files(folder), 0, -1
    for number, group in enumerate(batches(_copied(labels, copies), LABELS_A_PART)):
        rows = [row for label in group for row in label]
        passages += len(rows)
        parts.write("passages", number, rows, Passage)
    return number + 1, passages


def _copied(labels: Sequence[ParsedLabel], copies: int) -> Iterator[list[Passage]]:
    for copy in range(copies):
        for label, passages in labels:
            renamed = renamer({*label.aliases, *label.substances}, copy) if copy else str
            yield [replace(one, set_id=f"{copy}-{one.set_id}", text=renamed(one.text)) for one in passages]


def build(folder: str, parts: int) -> Cost:
    """Write the segments and statistics."""
    with measured() as cost:
        write_corpus(LocalExecutor(), part_files(folder), [], range(parts), lambda done, of: None)
    return cost


def open_mapped(folder: str, parts: int) -> Collection:
    files = part_files(folder)
    return open_corpus(local_corpus(files, NodeCopies(files.run.root), [], range(parts)))[0]


def open_in_memory(folder: str, parts: int) -> Collection:
    files = part_files(folder)
    rows = [row for number in range(parts) for row in files.read("passages", number, Passage)]
    collection = Collection([passage_search_text(row) for row in rows])
    _ = collection.bm25
    return collection


def search(
    opened: Callable[[str, int], Collection], folder: str, parts: int, questions: Sequence[str]
) -> tuple[Cost, Cost, list[RankedList]]:
    """Return what it takes to open the corpus, and then to search it, with the rankings."""
    bm25, found = get_retriever("bm25"), list[RankedList]()
    with measured() as opening:
        collection = opened(folder, parts)
    with measured() as searching:
        for some in batches(questions, QUESTIONS_AT_ONCE):
            found += bm25.rank(Queries(some), collection, K)
    searching.own, searching.mapped = searching.own + opening.own, searching.mapped + opening.mapped
    return opening, searching, found


def in_new_process(function: Callable[[], T]) -> T:
    """Return the result of a call in a process of its own."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.relabelled_build", "fdarx_core.pipeline.corpus_files"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function).result()


@dataclass
class CorpusFigures:
    """What a corpus of so many passages took."""

    passages: int
    bytes: int
    build: Cost
    mapped: Cost
    whole: Cost
    equal: bool


def measure(labels: Sequence[ParsedLabel], copies: int, questions: Sequence[str]) -> CorpusFigures:
    """Write and search a corpus of so many copies of the labels."""
    with TemporaryDirectory() as folder:
        parts, passages = write_passages(folder, labels, copies)
        built = in_new_process(partial(build, folder, parts))
        size = sum(file.stat().st_size for file in Path(folder, "corpus").rglob("*.arrow"))
        _, mapped, ours = in_new_process(partial(search, open_mapped, folder, parts, questions))
        _, whole, theirs = in_new_process(partial(search, open_in_memory, folder, parts, questions))
    return CorpusFigures(passages, size, built, mapped, whole, ours == theirs)


def print_tables(figures: Sequence[CorpusFigures], questions: int) -> None:
    """Print the figures of each size, and what a million passages add to the memory."""
    print("\n| passages | build µs a passage | its own MiB | bytes a passage | q/s mapped | q/s in memory | same |")
    print("|--:|--:|--:|--:|--:|--:|---|")
    for one in figures:
        rates = f"{questions / one.mapped.seconds:.1f} | {questions / one.whole.seconds:.1f}"
        built = f"{1e6 * one.build.seconds / one.passages:.0f} | {one.build.own:.0f} | {one.bytes / one.passages:.0f}"
        print(f"| {one.passages:,} | {built} | {rates} | {'yes' if one.equal else 'NO'} |")
    print("\n| passages | mapped: own MiB | pages of files MiB | in memory: own MiB |\n|--:|--:|--:|--:|")
    for one in figures:
        print(f"| {one.passages:,} | {one.mapped.own:.1f} | {one.mapped.mapped:.0f} | {one.whole.own:.0f} |")
    if len(figures) > 1:
        sizes = [one.passages / 1e6 for one in figures]
        values = zip(*((one.mapped.own, one.mapped.mapped, one.whole.own) for one in figures), strict=True)
        slopes = [float(np.polyfit(sizes, value, 1)[0]) for value in values]
        print(f"| a million more | {' | '.join(f'{slope:.0f}' for slope in slopes)} |")


def main(*, labels: int = 200, sizes: tuple[int, ...] = (1, 4, 16), questions: int = 240) -> int:
    """Print the tables; return 1 where rankings differ."""
    parsed, seconds = cpu_timed(lambda: [parse_document(data) for data in read_documents()[::4][:labels]])
    print(f"{len(parsed)} labels parsed in {seconds:.0f} s of CPU")
    asked = Random(0).sample([row["question"] for row in json_lines(QUESTIONS)], questions)
    figures = []
    for copies in sizes:
        figures.append(measure(parsed, copies, asked))
        print(figures[-1], flush=True)
    print_tables(figures, questions)
    return int(not all(one.equal for one in figures))


if __name__ == "__main__":
    run(main)
