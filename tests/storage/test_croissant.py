"""`croissant.json` as MLCommons' own library reads and validates it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import RunDirectory, read_table
from fdarx_core.storage.benchmark_reader import write_benchmark
from tests.storage.test_benchmark_writer import CONFIGS, SPLIT, build, rows

mlcroissant = pytest.importorskip("mlcroissant")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = build(tmp_path_factory.mktemp("run"), rows(3))
    write_benchmark(made, about=SPLIT)
    return made


@pytest.fixture(scope="module")
def dataset(run: RunDirectory) -> Any:
    return mlcroissant.Dataset(jsonld=str(run.file("benchmark/croissant.json")))


def plain(value: Any) -> Any:
    """A value without the ids of fields, which are paths, and with texts for the bytes of the library."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {name.rpartition("/")[2]: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_the_metadata_is_valid_without_a_warning(dataset: Any) -> None:
    issues = dataset.metadata.ctx.issues
    assert not issues.errors and not issues.warnings
    assert dataset.metadata.date_published.date().isoformat() == "2026-11-21"
    assert "fdarxbench" in dataset.metadata.cite_as and dataset.metadata.license
    assert dataset.metadata.version.startswith("1.0.0+")


@pytest.mark.parametrize("split", ["test", "dev"])
@pytest.mark.parametrize("config", CONFIGS)
def test_the_records_are_the_rows_of_the_files(run: RunDirectory, dataset: Any, config: str, split: str) -> None:
    table = read_table(run.file(f"benchmark/{config}/{split}.parquet"))
    assert [plain(one) for one in dataset.records(f"{config}/{split}")] == table.to_pylist()


def test_every_file_is_there_with_its_digest_and_size(run: RunDirectory) -> None:
    folder = Path(run.file("benchmark").address)
    listed = json.loads((folder / "croissant.json").read_bytes())["distribution"]
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert {one["contentUrl"] for one in listed} == names - {"README.md", "croissant.json"}
    for one in listed:
        content = (folder / one["contentUrl"]).read_bytes()
        assert one["sha256"] == hashlib.sha256(content).hexdigest()
        assert one["contentSize"] == f"{len(content)} B"


def test_the_version_changes_with_the_content(run: RunDirectory, tmp_path: Path) -> None:
    versions = []
    for number in (3, 2):
        other = build(tmp_path / str(number), rows(number))
        write_benchmark(other, about=SPLIT)
        versions.append(json.loads(other.file("benchmark/croissant.json").read_bytes())["version"])
    assert versions[0] == json.loads(run.file("benchmark/croissant.json").read_bytes())["version"] != versions[1]


def test_a_benchmark_of_unknown_date_has_none(tmp_path: Path) -> None:
    made = build(tmp_path, rows(1))
    write_benchmark(made, about={})
    assert "datePublished" not in json.loads(made.file("benchmark/croissant.json").read_bytes())
