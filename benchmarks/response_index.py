"""A response store of up to 20 million responses: time, memory and file reads to open it, to resume, and to sum it up.

    python -m benchmarks.response_index [--sizes 200000 2000000 20000000] [--folder DIRECTORY] [--s3 MOST]

A generator writes segments of 256 short responses in the store's own format, for all but 1 % of the requests (50,000
labels x 10 models x 4 settings x 10 questions are 20 million). Each step then runs in a process of its own, which says
how long it took, its highest resident memory, and how many files, ranges and folders it read:

    compact   write the index of a store that has none; this reads the columns of keys and counts of all segments
    open      begin a job on the store with its index: list the segments, open the key files
    resume    look up every request of the run, part by part, to find the 1 % that are missing; no response is read
    part      unpickle the store, as each Ray task does, and read the responses of one part of 320 requests
    ledger    sum up requests, tokens and latencies by task and model

The slope is the logarithm of the ratio of two CPU times over that of the sizes: 1 is a straight line through zero. With
`--s3`, stores of up to MOST requests are also copied to a Swift server, and S3 requests are counted. The stores are
deleted at the end. Exits 1 where a step takes 1 GB of memory, or where its CPU time grows with a slope above 1.2.
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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import run
from fdarx_core.llm import ResponseStore, ledger
from fdarx_core.records import Response, arrow_schema
from fdarx_core.storage import Location, local
from tests.storage import swift_server

ROWS = 256
"""Responses of a segment, as the writer of a busy run makes them."""
PART = 320
"""Requests of 8 labels x 4 settings x 10 questions, the part of one model."""
TASKS = ("answer_closed_book", "answer_full_label", "answer_oracle", "answer_retrieved")
MODELS = 10
MOST_MB, MOST_SLOPE = 1000, 1.2
MODULE = "benchmarks.response_index"
_COLUMNS = ("seconds", "cpu_s", "waited_s", "peak_mb", "calls")


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
            "batched": [False] * rows,
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
    """Print what a step returns and what it took, as JSON: the columns of the table, and its calls by kind."""
    calls = count_calls()
    began, cpu, waited = time.perf_counter(), time.process_time(), _waited_s()
    found = step()
    taken = {
        "seconds": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "waited_s": _waited_s() - waited,
    }
    peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps({**taken, "peak_mb": peak_mb, "calls": dict(calls)} | dict(found)))


def _waited_s() -> float:
    """Return how long the main thread has waited for a processor, as Linux counts it."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def count_calls() -> Counter[str]:
    """Return a counter of files, ranges and folders that are read on a disk, and of S3 requests, from now on."""
    calls: Counter[str] = Counter()

    def counted(kind: str, function: Callable[..., Any], *arguments: Any) -> Any:
        calls[kind] += 1
        if kind == "ranges":
            calls["files"] -= 1  # a range is read of a file that is opened
        return function(*arguments)

    def count_request(request: Any, **_: Any) -> None:
        listing = request.method == "GET" and "list-type" in request.url
        calls["LIST" if listing else request.method] += 1

    for kind, name in (
        ("files", "open_input"),
        ("ranges", "read_range"),
        ("folders", "walk"),
        ("written", "open_output"),
    ):
        setattr(local, name, partial(counted, kind, getattr(local, name)))
    if os.environ.get("AWS_ENDPOINT_URL"):
        from fdarx_core.storage.s3_client import client

        client().meta.events.register("before-send.s3", count_request)
    return calls


def _measure(root: Location, size: int) -> dict[str, dict[str, Any]]:
    """Take all steps, and print a line for each."""
    results = {}
    for name in STEPS:
        found = results[name] = call_in_process(MODULE, f"print_step({name!r}, {root.address!r}, {size})")
        more = ", ".join(f"{key} {value:,}" for key, value in found.items() if key not in _COLUMNS)
        line = f"{size:>12,} | {name:8s} | {measured_columns(found)} | {more}"
        print(line, flush=True)
    return results


def measured_columns(found: Mapping[str, Any]) -> str:
    """Return the columns of what `print_measured` printed, for a table."""
    seconds = " | ".join(f"{found[name]:8.2f}" for name in ("seconds", "cpu_s", "waited_s"))
    calls = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found["calls"].items()) if count)
    return f"{seconds} | {found['peak_mb']:5,} | {calls or 'none'}"


@contextmanager
def s3_server(folder: Path) -> Iterator[Location]:
    """Run Swift, which lists 1,000 objects a request as Amazon does, on data in a new folder; give a bucket of it."""
    from fdarx_core.storage.s3_client import client

    folder.mkdir()
    swift_server.PAGE = 1000
    with swift_server.running(folder) as server:
        os.environ.update(swift_server.settings(server))
        client.cache_clear()
        client().create_bucket(Bucket="benchmark")
        yield Location("s3://benchmark")


def copy_to_s3(folder: Path, place: Location) -> None:
    """Copy the files of a folder, without hidden ones: on S3, the index is written anew."""

    def copy(file: Location) -> None:
        (place / str(file).removeprefix(f"{folder}/")).write_bytes(file.read_bytes())

    with ThreadPoolExecutor(8) as writers:
        for _ in writers.map(copy, Location(folder).list(recursive=True)):
            pass


def slopes(sizes: Sequence[int], times: Sequence[float]) -> list[float]:
    """Return the logarithm of the ratio of each two times over that of the sizes; 1 is a straight line through zero."""
    steps = zip(pairwise(times), pairwise(sizes), strict=True)
    return [math.log(after / before) / math.log(larger / size) for (before, after), (size, larger) in steps]


def main(sizes: Sequence[int] = (200_000, 2_000_000, 20_000_000), folder: Path | None = None, s3: int = 0) -> int:
    print(f"{'requests':>12s} | step     |  seconds |    CPU s | waited s |    MB | calls | found")
    results = {}
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            root = Location(f"{place}/responses")
            began = time.perf_counter()
            generate(root, size)
            print(f"{size:>12,} | generate | {time.perf_counter() - began:9.2f}", flush=True)
            results[size] = _measure(root, size)
            if size <= s3:
                with s3_server(Path(place) / "swift") as bucket:
                    copy_to_s3(Path(root.address), bucket / "responses")
                    _measure(bucket / "responses", size)
    failed = False
    for name in STEPS:
        found = slopes(sizes, [results[size][name]["cpu_s"] for size in sizes])
        print(f"{name:8s} slopes {', '.join(f'{slope:.2f}' for slope in found)}")
        peak = max(results[size][name]["peak_mb"] for size in sizes)
        failed |= peak >= MOST_MB or any(slope > MOST_SLOPE for slope in found)
    return int(failed)


if __name__ == "__main__":
    run(main)
