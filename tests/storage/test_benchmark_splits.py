"""A benchmark is read by its splits, from the run of a build and from its published files alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from fdarx_core.storage import RunDirectory, StorageError
from fdarx_core.storage.benchmark_reader import Benchmark, read_benchmark
from fdarx_core.storage.benchmark_writer import write_benchmark
from fdarx_core.storage.splits import SplitChoice
from tests.storage.test_benchmark_writer import ABOUT, DEV, SPLIT, build, rows

SPLITS: dict[SplitChoice, list[str]] = {
    "test": ["00000000-aaaa", "00000002-aaaa"],
    "dev": [DEV],
    "all": ["00000000-aaaa", DEV, "00000002-aaaa"],
}


def finished(folder: Path, about: dict[str, Any]) -> RunDirectory:
    run = build(folder, rows(3), parts=2)
    write_benchmark(run, about=about)
    run.finish({"splits": about["splits"]} if "splits" in about else {})
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return finished(tmp_path / "run", SPLIT)


def labels(benchmark: Benchmark) -> list[str]:
    return [one.subject.set_id for one in benchmark.items()]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("place", ["", "benchmark"])
def test_a_split_has_its_labels_and_their_questions(run: RunDirectory, place: str, split: SplitChoice) -> None:
    found = read_benchmark(str(run.file(place)), split)
    assert labels(found) == SPLITS[split]
    count = len(SPLITS[split])
    assert found.about["split"] == split and not found.rejects
    assert (found.about["labels"], found.about["whole_labels"], found.about["passages"]) == (count, count, 4 * count)
    assert found.about["questions"] == {"factual": 3 * count, "multihop": count, "refusal": count}
    assert all(len(one.questions) == 5 for one in found.items())


@pytest.mark.parametrize("place", ["", "benchmark"])
def test_the_test_split_is_the_default_and_splits_have_digests_of_their_own(run: RunDirectory, place: str) -> None:
    address = str(run.file(place))
    digests = {split: read_benchmark(address, split).about["digest"] for split in SPLITS}
    assert read_benchmark(address).about["digest"] == digests["test"]
    assert len(set(digests.values())) == 3


def test_a_run_without_splits_is_the_test_split_with_the_digest_that_it_had(tmp_path: Path, run: RunDirectory) -> None:
    older = finished(tmp_path / "older", ABOUT)
    for place in ("", "benchmark"):
        address = str(older.file(place))
        first, everything = read_benchmark(address), read_benchmark(address, "all")
        assert labels(first) == labels(everything) == SPLITS["all"]
        assert first.about["digest"] == everything.about["digest"]
        with pytest.raises(StorageError, match="has no dev split; give --split test, or all"):
            read_benchmark(address, "dev")
    assert read_benchmark(str(older.root)).about["digest"] == read_benchmark(str(run.root), "all").about["digest"]


def test_a_single_file_is_read_whole_with_the_labels_of_its_split(run: RunDirectory) -> None:
    for name, wanted in (("qa.jsonl", SPLITS["test"]), ("qa_dev.jsonl", [DEV])):
        found = read_benchmark(str(run.file(f"benchmark/{name}")))
        assert labels(found) == wanted and found.about["whole_labels"] == len(wanted)


def test_a_split_without_labels_of_its_own_finds_them_in_the_others_file(run: RunDirectory, tmp_path: Path) -> None:
    folder = tmp_path / "published"
    (folder / "qa").mkdir(parents=True)
    (folder / "labels").mkdir()
    both = [run.file(f"benchmark/{name}").read_bytes() for name in ("labels.jsonl", "labels_dev.jsonl")]
    (folder / "labels" / "labels.jsonl").write_bytes(b"".join(both))
    for name in ("qa.jsonl", "qa_dev.jsonl"):
        (folder / "qa" / name).write_bytes(run.file(f"benchmark/{name}").read_bytes())
    dev = read_benchmark(str(folder), "dev")
    asked = {one.subject.set_id: len(one.questions) for one in dev.items()}
    assert asked == {"00000000-aaaa": 0, DEV: 5, "00000002-aaaa": 0}
    (folder / "qa" / "qa.jsonl").unlink()
    with pytest.raises(StorageError, match="has no test split; give --split dev, or all"):
        read_benchmark(str(folder))


def test_a_bad_row_is_rejected_only_where_its_split_is_read(run: RunDirectory) -> None:
    file = run.file("benchmark/qa_dev.jsonl")
    row = orjson.loads(file.read_bytes().splitlines()[0])
    file.write_bytes(file.read_bytes() + orjson.dumps({**row, "context": []}) + b"\n")
    assert not read_benchmark(str(run.file("benchmark"))).rejects
    assert [one.reason for one in read_benchmark(str(run.file("benchmark")), "dev").rejects] == ["no_context"]
