"""Where a benchmark lies: a build's run, or files in the published format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from fdarx_core.storage.benchmark.card import CONFIGS
from fdarx_core.storage.benchmark.examined import Benchmark, Examined
from fdarx_core.storage.benchmark.imported import PublishedFiles, import_benchmark
from fdarx_core.storage.benchmark.reading import read_labels
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.rundir import RunDirectory
from fdarx_core.storage.tables import read_table

_BUILD = "build_benchmark"
_REMEDY = "give the run of a build, a folder with qa*.jsonl, or a .jsonl file of questions"


def read_benchmark(address: str) -> Benchmark:
    """What is to be evaluated, from a local or `s3://` address.

    Args:
        address: the run of a finished build; or a folder with `qa*.jsonl` and, where at hand, `labels.jsonl`, both
            perhaps in `qa/` and `labels/`; or one `.jsonl` file of questions, with its labels beside it.

    Raises `StorageError` where there is nothing of the kind, the build is unfinished, or no question can be read.
    """
    place = Location(address)
    if (place / "run.json").exists():
        return _of_run(open_build(address), address)
    return import_benchmark(_published(place), name=_name(place), address=address)


def open_build(address: str) -> RunDirectory:
    """The run of a finished build. `StorageError` for any other."""
    run = RunDirectory.open(address)
    job = run.info().get("job")
    if job != _BUILD:
        raise StorageError(f"{address} is a run of {job}, not of {_BUILD}; give the run of a build")
    if not run.complete:
        status = run.info().get("status")
        raise StorageError(f"{address} is an unfinished build ({status}); finish it with the command that began it")
    return run


def _of_run(run: RunDirectory, address: str) -> Benchmark:
    about = {"name": _name(run.root), "kind": "build_run", "address": address, **_counts(run)}
    if not any(about["questions"].values()):
        raise StorageError(f"{address} is a build without questions; its rejects/ say why none was kept")
    return Benchmark(about, lambda: _examined(run))


def _examined(run: RunDirectory) -> Iterator[Examined]:
    for rows in read_labels(run):
        passages = list(rows.passages.values())
        yield Examined.of(rows.label.set_id, rows.label.drug_name, True, passages, rows.questions)


def _counts(run: RunDirectory) -> dict[str, Any]:
    digest = blake2b(digest_size=16)
    for kind in ("passages", "questions"):
        for part in run.parts(kind):
            digest.update(part.read_bytes())
    types: Counter[str] = Counter()
    for part in run.parts("questions"):
        types.update(read_table(part, ["type"])["type"].to_pylist())
    labels = _rows(run, "labels")
    return {
        "digest": digest.hexdigest(),
        "labels": labels,
        "whole_labels": labels,
        "passages": _rows(run, "passages"),
        "questions": {name: types[name] for name in CONFIGS},
        "rejected": 0,
    }


def _rows(run: RunDirectory, kind: str) -> int:
    return sum(int(read_table(part, ["set_id"]).num_rows) for part in run.parts(kind))


def _published(place: Location) -> PublishedFiles:
    if place.is_dir():
        return _in_folder(place)
    if not place.exists():
        raise StorageError(f"there is nothing at {place}; {_REMEDY}")
    if place.suffix != ".jsonl":
        raise StorageError(f"{place} is no benchmark; {_REMEDY}")
    return PublishedFiles([place], _labels(place.parent))


def _in_folder(place: Location) -> PublishedFiles:
    for folder in (place, place / "qa"):
        found = [file for file in folder.list() if file.name.startswith("qa") and file.suffix == ".jsonl"]
        if found:
            return PublishedFiles(found, _labels(folder))
    raise StorageError(
        f"{place} holds no benchmark: neither run.json (the run of a build) nor qa*.jsonl (questions as FDARxBench "
        "publishes them), nor a folder qa/ with them; give a folder that does"
    )


def _labels(folder: Location) -> Location | None:
    """Beside the questions, or in `labels/` beside their folder, as FDARxBench's repository has them."""
    places = (folder / "labels.jsonl", folder.parent / "labels" / "labels.jsonl")
    return next((place for place in places if place.exists()), None)


def _name(place: Location) -> str:
    """A folder's name, or a file's without its ending; `RUN/benchmark` goes by its run."""
    named = [part for part in place.address.split("/") if part not in ("", ".", "..", "benchmark")]
    return named[-1].removesuffix(".jsonl") if named else "benchmark"
