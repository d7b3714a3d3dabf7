"""Figures of an evaluation of up to 20 million answers: time, memory and calls of `write_results`.

    python -m benchmarks.evaluation_figures [--sizes 200000 2000000 20000000] [--folder DIRECTORY] [--s3 MOST]
        [--repeat TIMES]

The scores are of 10 models in 4 settings with 10 questions a label, in parts of 8 labels and files of 320 rows, as an
evaluation writes them; ten labels have one drug, which is what the bootstrap draws. One process is the driver of the
job, two others run its tasks, so that time and memory of each kind are known. With `--repeat`, the driver is measured
once more, on the results of the tasks of the largest size, each that many times, of other labels and drugs each time.
With `--s3`, the scores of sizes up to MOST are also put on a Swift server, and S3 requests are counted. The slope is
the logarithm of the ratio of two CPU times over that of the sizes. The scores are deleted at the end. Exits 1 where a
process takes 1 GB, or where the CPU time of all grows with a slope above 1.2.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import run
from benchmarks.response_index import (
    MOST_MB,
    MOST_SLOPE,
    call_in_process,
    copy_to_s3,
    count_calls,
    measured_columns,
    print_measured,
    s3_server,
    slopes,
)
from fdarx_core.evaluation.cell_sums import CellCounts
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.pipeline.evaluation_results import write_results
from fdarx_core.pipeline.evaluation_steps import LABELS_PER_PART
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.records import Score, SettingProgress, arrow_schema
from fdarx_core.storage import Location, RunDirectory

Item = TypeVar("Item")
Result = TypeVar("Result")

MODELS, QUESTIONS, LABELS_PER_DRUG = 10, 10, 10
PER_LABEL = MODELS * len(SETTINGS) * QUESTIONS
TYPES = ("factual", "factual", "multihop", "refusal")
CATEGORIES = ("Adverse reactions", "Dosage", "Indications", "Interactions", "Pharmacology")
WORKERS = 2
DRAWN = 64
"""Parts of a model whose outcomes are drawn at random; later parts repeat them, for other labels."""


def generate(folder: Path, labels: int) -> None:
    """Write the scores of all models in all parts of a new run directory."""
    RunDirectory.begin(str(folder), job="evaluate", config={}, versions={}).release()
    parts = range(-(-labels // LABELS_PER_PART))
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as writers:
        list(writers.map(_write_model, *zip(*((folder, model, parts, labels) for model in range(MODELS)), strict=True)))


def _write_model(folder: Path, model: int, parts: Sequence[int], labels: int) -> None:
    (folder / f"scores/model-{model}").mkdir(parents=True)
    drawn = [_outcomes(np.random.default_rng([model, number]), number) for number in parts[:DRAWN]]
    for part in parts:
        numbers = range(part * LABELS_PER_PART, min(labels, (part + 1) * LABELS_PER_PART))
        table = _identified(drawn[part % DRAWN].slice(0, len(numbers) * QUESTIONS * len(SETTINGS)), model, numbers)
        pq.write_table(table, folder / f"scores/model-{model}/part-{part:06d}.parquet", compression="zstd")


def _identified(drawn: pa.Table, model: int, labels: Sequence[int]) -> pa.Table:
    """Return drawn rows with the ids of these labels and their questions."""
    asked = [(label, setting, number) for label in labels for setting in SETTINGS for number in range(QUESTIONS)]
    columns = {
        "prediction_id": [f"q-{label:07d}-{number:02d}-{setting}-{model}" for label, setting, number in asked],
        "question_id": [f"q-{label:07d}-{number:02d}" for label, _, number in asked],
        "set_id": [f"label-{label:07d}" for label, *_ in asked],
        "cluster": [f"drug-{label // LABELS_PER_DRUG:06d}" for label, *_ in asked],
        "model": [f"model-{model}"] * len(asked),
        "setting": [setting for _, setting, _ in asked],
    }
    names = drawn.column_names
    return pa.table({**{name: drawn[name] for name in names}, **columns}).select(arrow_schema(Score).names)


def _outcomes(dice: np.random.Generator, part: int) -> pa.Table:
    """Return the columns of a part that do not name its label, question, model and setting."""
    label = np.repeat(np.arange(LABELS_PER_PART) + part * LABELS_PER_PART, QUESTIONS * len(SETTINGS))
    question, rows = np.tile(np.arange(QUESTIONS), LABELS_PER_PART * len(SETTINGS)), len(label)
    type_ = np.asarray(TYPES)[(label + question) % len(TYPES)]
    gold = np.where(type_ == "refusal", 0, 1 + question % 3)
    cited = dice.integers(0, 4, rows)
    hits = np.minimum(dice.integers(0, 4, rows), np.minimum(gold, cited))
    columns = {
        "retriever": [""] * rows,
        "type": type_,
        "answer_kind": type_,
        "category": np.asarray(CATEGORIES)[question % len(CATEGORIES)],
        "section": np.asarray(CATEGORIES)[label % len(CATEGORIES)],
        "numeric": question % 2 == 0,
        "label_characters": 10_000 + label % 997,
        "outcome": dice.choice(["answered", "refused", "failed"], rows, p=[0.8, 0.19, 0.01]),
        "grade": dice.choice(["correct", "incorrect", "not_attempted", ""], rows, p=[0.6, 0.3, 0.09, 0.01]),
        "gold": gold,
        "cited": cited,
        **dict.fromkeys(("hits", "eq_hits", "eq_right"), hits),
        **{name: dice.random(rows) for name in ("bleu", "meteor", "rouge_l")},
        "bert_score": pa.nulls(rows, pa.float64()),
        "prompt_tokens": np.full(rows, 14_000),
        "cached_tokens": np.full(rows, 13_000),
        "completion_tokens": np.full(rows, 40),
        "latency_s": dice.lognormal(0.5, 0.6, rows),
        "cost": np.full(rows, 0.004),
        "extra": [{}] * rows,
    }
    schema = arrow_schema(Score)
    return pa.table(columns, pa.schema([schema.field(name) for name in columns]))


class WorkerExecutor(LocalExecutor):
    """Runs tasks in other processes, and adds up their CPU time and their calls; each result comes `repeat` times."""

    def __init__(self, repeat: int) -> None:
        super().__init__()
        self.cpu_s, self.calls, self._repeat = 0.0, Counter[str](), repeat
        self.pool = ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"))

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting: deque[Future[tuple[Result, float, Counter[str]]]] = deque()
        for item in items:
            waiting.append(self.pool.submit(_measured, function, item))
            if len(waiting) > 2 * WORKERS:
                yield from _repeated(self._result(waiting.popleft()), self._repeat)
        for one in waiting:
            yield from _repeated(self._result(one), self._repeat)

    def _result(self, future: Future[tuple[Result, float, Counter[str]]]) -> Result:
        result, cpu_s, calls = future.result()
        self.cpu_s += cpu_s
        self.calls += calls
        return result


def _repeated(numbered: Any, times: int) -> Iterator[Any]:
    """Yield the numbered result of a task several times, with other numbers and other names of labels and drugs."""
    number, result = numbered
    for time_ in range(times):
        yield number * times + time_, {key: _renamed(one, f"-{time_}") for key, one in result.items()}


def _renamed(one: Any, suffix: str) -> Any:
    if isinstance(one, CellCounts):
        lengths = {name + suffix: length for name, length in one.lengths.items()}
        return replace(one, lengths=lengths, clusters={name + suffix for name in one.clusters})
    described, clusters, matrix = one
    return described, [name + suffix for name in clusters], matrix


def _measured(function: Callable[[Item], Result], item: Item) -> tuple[Result, float, Counter[str]]:
    calls, cpu = _calls(), time.process_time()
    calls.clear()
    result = function(item)
    return result, time.process_time() - cpu, Counter(calls)


@cache
def _calls() -> Counter[str]:
    return count_calls()


def print_figures(address: str, labels: int, repeat: int = 1) -> None:
    """Write the figures with this process as the driver, and print what it and the tasks took as JSON."""
    directory = RunDirectory.open(address)
    models = [f"model-{number}" for number in range(MODELS)]
    due = labels * QUESTIONS * repeat
    cells = [SettingProgress(model, one, "", "done", due=due) for model in models for one in SETTINGS]

    def figures() -> dict[str, Any]:
        executor = WorkerExecutor(repeat)
        with executor.pool:
            write_results(executor, directory, cells, [], seed=0, resamples=2000)
        peak_mb = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
        return {"tasks_cpu_s": executor.cpu_s, "tasks_peak_mb": peak_mb, "tasks_calls": dict(executor.calls)}

    print_measured(figures)


def _measure(root: Location, size: int, repeat: int = 1) -> dict[str, Any]:
    """Write the figures, and print a line."""
    call = f"print_figures({str(root)!r}, {size // PER_LABEL}, {repeat})"
    found = call_in_process("benchmarks.evaluation_figures", call)
    calls = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found["tasks_calls"].items()) if count)
    tasks = f"{found['tasks_cpu_s']:8.2f} | {found['tasks_peak_mb']:5,} | {calls}"
    print(f"{size * repeat:>12,} | {measured_columns(found)} | {tasks}", flush=True)
    return found


def main(
    sizes: Sequence[int] = (200_000, 2_000_000, 20_000_000),
    folder: Path | None = None,
    s3: int = 0,
    repeat: int = 0,
) -> int:
    print("     answers |  seconds | driver's CPU s | waited s | MB | calls | tasks' CPU s | MB | calls")
    made = []
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            began = time.perf_counter()
            generate(Path(place) / "run", size // PER_LABEL)
            print(f"{size:>12,} | generated in {time.perf_counter() - began:.0f} s", flush=True)
            made.append(_measure(Location(f"{place}/run"), size))
            if repeat and size == max(sizes):
                _measure(Location(f"{place}/run"), size, repeat)
            if size <= s3:
                with s3_server(Path(place) / "swift") as bucket:
                    copy_to_s3(Path(place) / "run", bucket / "run")
                    _measure(bucket / "run", size)
    found = slopes(sizes, [one["cpu_s"] + one["tasks_cpu_s"] for one in made])
    print(f"slopes {', '.join(f'{slope:.2f}' for slope in found)}")
    highest = max(one[name] for one in made for name in ("peak_mb", "tasks_peak_mb"))
    return int(highest >= MOST_MB or any(slope > MOST_SLOPE for slope in found))


if __name__ == "__main__":
    run(main)
