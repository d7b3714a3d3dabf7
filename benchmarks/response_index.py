"""A response store of up to 20 million responses: time, memory and file reads to open it, to resume, and to sum it up.

    python -m benchmarks.response_index [--sizes 200000 2000000 20000000] [--folder DIRECTORY] [--s3 s3://bucket/prefix]

A generator writes segments of 256 short responses in the store's own format, for all but 1 % of the requests (50,000
labels x 10 models x 4 settings x 10 questions are 20 million). Each step then runs in a process of its own, which says
how long it took, its highest resident memory, and how many files, ranges and folders it read:

    compact   write the index of a store that has none; this reads the columns of keys and counts of all segments
    open      begin a job on the store with its index: list the segments, open the key files
    resume    look up every request of the run, part by part, to find the 1 % that are missing; no response is read
    part      unpickle the store, as each Ray task does, and read the responses of one part of 320 requests
    ledger    sum up requests, tokens and latencies by task and model

The slope is the logarithm of the ratio of two CPU times over that of the sizes: 1 is a straight line through zero. With
`--s3`, the store of the smallest size is also copied there, and S3 requests are counted. The stores are deleted at the
end. Exits 1 where a step takes 1 GB of memory, or where its CPU time grows with a slope above 1.2.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import run
from fdarx_core.llm import ResponseStore, ledger
from fdarx_core.records import Response, arrow_schema
from fdarx_core.storage import Location, local

ROWS = 256
"""Responses of a segment, as the writer of a busy run makes them."""
PART = 320
"""Requests of 8 labels x 4 settings x 10 questions, the part of one model."""
TASKS = ("answer_closed_book", "answer_full_label", "answer_oracle", "answer_retrieved")
MODELS = 10
MOST_MB, MOST_SLOPE = 1000, 1.2
MODULE = "benchmarks.response_index"
_COLUMNS = ("seconds", "cpu_s", "peak_mb", "reads")


def request_keys(start: int, stop: int) -> list[str]:
    """Return the keys of the requests by number: hashes of 32 hexadecimal digits."""
    numbers = np.arange(2 * start, 2 * stop, dtype=np.uint64)
    with np.errstate(over="ignore"):  # the finalizer of SplitMix64
        mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        digits = (mixed ^ (mixed >> np.uint64(31))).astype(">u8").tobytes().hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def is_missing(number: int) -> bool:
    return number % 100 == 37


def generate(root: Location, size: int) -> None:
    """Write the segments of a store for the requests of this number; a task's segments lie in its own folder."""
    schema = arrow_schema(Response)
    latencies = np.random.default_rng(0).lognormal(0.5, 0.6, ROWS)

    def write(at: int) -> None:
        start, stop = at * ROWS, min(size, (at + 1) * ROWS)
        keys = sorted(key for number, key in enumerate(request_keys(start, stop), start) if not is_missing(number))
        rows, task, model = len(keys), TASKS[at % len(TASKS)], f"model-{at // len(TASKS) % MODELS}"
        columns: dict[str, Any] = {
            "key": keys,
            "task": [task] * rows,
            "task_version": [1] * rows,
            "endpoint": [model] * rows,
            "text": [f'{{"answer": "{key[:12]} mg once daily", "cited": [3]}}' for key in keys],
            "reason": [""] * rows,
            "finish_reason": ["stop"] * rows,
            "prompt_tokens": [14_000] * rows,
            "completion_tokens": [40] * rows,
            "latency_s": np.roll(latencies, at)[:rows],
            "cached_tokens": [13_000] * rows,
            "attempts": [1] * rows,
            "written_tokens": [0] * rows,
        }
        place = Path(root.address) / task / f"{keys[0][:24]}.parquet"
        pq.write_table(pa.table(columns, schema), place, compression="zstd")

    for task in TASKS:
        (Path(root.address) / task).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as writers:
        for _ in writers.map(write, range(-(-size // ROWS))):
            pass


def _compact(root: Location, size: int) -> dict[str, Any]:
    ResponseStore(root).compact()
    return {}


def _open(root: Location, size: int) -> dict[str, Any]:
    store = ResponseStore(root)
    store.compact(prune=True)
    return {"found": len(store.find(request_keys(0, 1)))}


def _resume(root: Location, size: int) -> dict[str, Any]:
    store = ResponseStore(root)
    store.compact(prune=True)
    missing = 0
    for start in range(0, size, PART):
        keys = request_keys(start, min(size, start + PART))
        missing += len(keys) - len(store.find(keys))
    return {"missing": missing}


def _part(root: Location, size: int) -> dict[str, Any]:
    """Measure a process that unpickles the store and reads a part."""
    store = ResponseStore(root)
    store.compact()
    pickled = pickle.dumps(store)
    given = pickle.dumps((pickled, request_keys(size // 2, size // 2 + PART)))
    return call_in_process(MODULE, "read_part()", given) | {"pickled_bytes": len(pickled)}


def read_part() -> None:
    """Read a pickled store and the keys of a part from standard input; print what it takes to read the responses."""
    pickled, keys = pickle.loads(sys.stdin.buffer.read())
    print_measured(lambda: {"responses": len(pickle.loads(pickled).get(keys))})


def _ledger(root: Location, size: int) -> dict[str, Any]:
    rows = ledger(ResponseStore(root), {})
    return {"requests": sum(row["requests"] for row in rows)}


STEPS: dict[str, Callable[[Location, int], dict[str, Any]]] = {
    "compact": _compact,
    "open": _open,
    "resume": _resume,
    "part": _part,
    "ledger": _ledger,
}


def print_step(name: str, address: str, size: int) -> None:
    """Take one step in this process, and print what it took as JSON."""
    print_measured(lambda: STEPS[name](Location(address), size))


def call_in_process(module: str, call: str, given: bytes = b"") -> dict[str, Any]:
    """Call a function of a module in a new process, and return what its last line, JSON, says."""
    code = f"from {module} import *; {call}"
    made = subprocess.run([sys.executable, "-c", code], input=given, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(made.stdout.splitlines()[-1]))


def print_measured(step: Callable[[], Mapping[str, Any]]) -> None:
    """Print what a step returns, its seconds and CPU seconds, the peak of resident memory, and its reads, as JSON."""
    reads = _count_reads()
    began, cpu = time.perf_counter(), time.process_time()
    found = step()
    taken = {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps({**taken, "peak_mb": peak_mb, "reads": len(reads)} | dict(found)))


def _count_reads() -> list[str]:
    """Return a list to which each file, range or folder that is read, or each S3 request, is added from now on."""
    reads: list[str] = []

    def counted(function: Callable[..., Any], address: str, *arguments: Any) -> Any:
        reads.append(address)
        return function(address, *arguments)

    for name in ("open_input", "read_range", "walk"):
        setattr(local, name, partial(counted, getattr(local, name)))
    if os.environ.get("AWS_ENDPOINT_URL_S3"):
        from fdarx_core.storage.s3_client import client

        client().meta.events.register("before-send.s3", lambda request, **_: reads.append(request.url))
    return reads


def _measure(root: Location, size: int) -> dict[str, dict[str, Any]]:
    """Take all steps, and print a line for each."""
    results = {}
    for name in STEPS:
        found = results[name] = call_in_process(MODULE, f"print_step({name!r}, {root.address!r}, {size})")
        more = ", ".join(f"{key} {value:,}" for key, value in found.items() if key not in _COLUMNS)
        numbers = f"{found['seconds']:9.2f} | {found['cpu_s']:7.2f} | {found['peak_mb']:6,} | {found['reads']:8,}"
        line = f"{size:>12,} | {name:8s} | {numbers} | {more}"
        print(line, flush=True)
    return results


def main(
    sizes: Sequence[int] = (200_000, 2_000_000, 20_000_000), folder: Path | None = None, s3: str | None = None
) -> int:
    print(f"{'requests':>12s} | step     | {'seconds':>9s} | {'CPU s':>7s} | {'MB':>6s} | {'reads':>8s} |")
    results = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            root = Location(place)
            began = time.perf_counter()
            generate(root, size)
            print(f"{size:>12,} | generate | {time.perf_counter() - began:9.2f}", flush=True)
            if s3 and size == min(sizes):
                for file in root.list(recursive=True):
                    (Location(s3) / str(file).removeprefix(f"{place}/")).write_bytes(file.read_bytes())
                print(f"on {s3}:")
                _measure(Location(s3), size)
            results[size] = _measure(root, size)
    failed = False
    for name in STEPS:
        times = [results[size][name]["cpu_s"] for size in sizes]
        slopes = [
            math.log(times[at + 1] / times[at]) / math.log(sizes[at + 1] / sizes[at]) for at in range(len(sizes) - 1)
        ]
        print(f"{name:8s} slopes {', '.join(f'{slope:.2f}' for slope in slopes)}")
        peak = max(results[size][name]["peak_mb"] for size in sizes)
        failed |= peak >= MOST_MB or any(slope > MOST_SLOPE for slope in slopes)
    return int(failed)


if __name__ == "__main__":
    run(main)
