"""Labels into an index from their zips, over the way through a build; and an update of ten labels.

    python -m benchmarks.indexing

Each command runs in a process of its own; its CPU seconds and its peak of resident memory are measured. `fdarx index`
reads both bulk releases of the real data; the other way is `fdarx build` of all types and routes by the built-in rules,
then `fdarx index` of the run. Both make the same chunks. The update is a release of the same labels in which ten have a
newer version: only the chunks of these are new. Exits 1 where the chunks differ, where an update makes more than it
must, or where `fdarx index` of both bulk releases takes a minute or more.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import DATA, read_documents, run
from fdarx_core.retrieval.index import IndexReader

RELEASES = (str(DATA / "spl" / "dm_spl_release_human_rx.zip"), str(DATA / "spl" / "dm_spl_release_other.zip"))
CHANGED = 10
LIMIT_SECONDS = 60.0
_MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""
"""Runs a command from a small process: the peak memory of a process is at least that of the one that started it."""

_VERSION = re.compile(rb'<versionNumber value="(\d+)"')


def measured(*command: str) -> tuple[dict[str, Any], float, float]:
    """Run a command of FDARx; return its JSON, its CPU seconds, and its peak of resident memory in MiB."""
    job = [sys.executable, "-m", "jobs.cli", *command, "--json", "-q"]
    done = subprocess.run([sys.executable, "-c", _MEASURE, *job], stdout=subprocess.PIPE, check=True)
    result, _, used = done.stdout.decode().rstrip().rpartition("\n")
    seconds, peak = map(float, used.split())
    return json.loads(result), seconds, peak / 1024


def release(path: Path, labels: Sequence[bytes], changed: int) -> str:
    """Write a bulk release of labels, the first of which have a newer version and a changed text; return its path."""
    with zipfile.ZipFile(path, "w") as bulk:
        for number, data in enumerate(labels):
            inner = io.BytesIO()
            if number < changed:
                data = _VERSION.sub(lambda found: b'<versionNumber value="%d"' % (int(found[1]) + 1), data, count=1)
            with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.writestr(f"{number}.xml", data)
            bulk.writestr(f"labels/{number:05d}.zip", inner.getvalue())
    return str(path)


def updated(folder: Path, labels: Sequence[bytes]) -> bool:
    """Index a release and then its update; print both, and return whether only chunks of changed labels were new."""
    out, first = str(folder / "updated"), release(folder / "first.zip", labels, 0)
    made, seconds, memory = measured("index", "--documents", first, "--words-only", "--out", out)
    print(f"{made['documents']} labels: {made['embedded']:,} new chunks, {seconds:.1f} CPU s, {memory:.0f} MiB")
    changed = release(folder / "update.zip", labels, CHANGED)
    made, seconds, memory = measured("index", "--documents", changed, "--words-only", "--out", out)
    reader = IndexReader.open(out)
    own = {segment.name for segment in reader.manifest.segments[-1:]}
    last = [entry for entry in reader.manifest.entries.values() if entry.segment in own]
    print(
        f"update of {len(last)} of them: {made['embedded']:,} new chunks, {made['unchanged']} labels not read again, "
        f"{seconds:.1f} CPU s, {memory:.0f} MiB"
    )
    return len(last) == CHANGED and made["embedded"] == sum(entry.chunks for entry in last)


def main() -> int:
    """Print times, peaks and ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = perf_counter()
        made, direct, memory = measured("index", "--documents", *RELEASES, "--words-only", "--out", str(folder / "a"))
        wall = perf_counter() - start
        labels = f"{made['documents']} labels, {made['chunks']:,} chunks"
        print(f"fdarx index of {labels}: {wall:.1f} s (below {LIMIT_SECONDS}), {direct:.1f} CPU s, {memory:.0f} MiB")
        types = IndexReader.open(str(folder / "a")).filter_values("", 0)["document_type"]
        everything = ("--document-types", *(kind.value for kind in types), "--exclude-routes", "none")
        run_folder = str(folder / "run")
        _, build, peak = measured(
            "build", "--labels", *RELEASES, *everything, "--executor", "local", "--out", run_folder
        )
        second, index, more = measured("index", "--documents", run_folder, "--words-only", "--out", str(folder / "b"))
        print(f"fdarx build {build:.1f} CPU s, {peak:.0f} MiB; fdarx index {index:.1f} CPU s, {more:.0f} MiB")
        print(f"ratio of times: {direct / (build + index):.2f}, of peaks: {memory / max(peak, more):.2f}")
        same = IndexReader.open(str(folder / "a")).manifest.same_content(IndexReader.open(str(folder / "b")).manifest)
        print(f"same chunks: {'yes' if same else 'no'} ({made['chunks']:,} and {second['chunks']:,})")
        right = updated(folder, read_documents(RELEASES))
    return int(not (same and right and wall < LIMIT_SECONDS))


if __name__ == "__main__":
    run(main)
