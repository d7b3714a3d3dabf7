"""Runs in Weights & Biases, offline: what the library would send is read from its folder."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import Figure
from fdarx_core.storage import Location, read_records
from tests.jobs.in_process import run_job

pytest.importorskip("wandb")
SECRET = "planted-key-0123456789012345678901234567890123456789"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "wandb_dir").mkdir()
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    return tmp_path


_BLOCK, _FILE_HEADER, _HEADER = 32 * 1024, 7, struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4


def records(folder: Path) -> list[Any]:
    """The records of the only offline run, in the order in which they were logged.

    The file has the format of LevelDB's logs: blocks of pieces, of which each has its checksum, length and kind.
    """
    from wandb.proto import wandb_internal_pb2

    [file] = (folder / "wandb_dir").glob("wandb/offline-run-*/run-*.wandb")
    data, at, found, record = file.read_bytes(), _FILE_HEADER, [], b""
    while at < len(data):
        if _BLOCK - at % _BLOCK < _HEADER.size:  # the rest of a block, too short for a header, is empty
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = _HEADER.unpack_from(data, at)
        at += _HEADER.size + length
        record += data[at - length : at]
        if kind in (_WHOLE, _LAST):
            found.append(wandb_internal_pb2.Record.FromString(record))
            record = b""
    return found


def items(rows: Any) -> dict[str, Any]:
    return {row.key or "/".join(row.nested_key): json.loads(row.value_json) for row in rows}


def test_configuration_figures_tables_and_page_are_in_the_offline_run(finished: Path, folder: Path) -> None:
    done = run_job("track", finished, "--track", "wandb:team/labels")
    assert done.returncode == 0, done.stderr
    rows = records(folder)
    [run] = [row.run for row in rows if row.WhichOneof("record_type") == "run"][:1]
    assert (run.entity, run.project, run.display_name) == ("team", "labels", finished.name)
    config = items(run.config.update) | {
        key: value for row in rows if row.HasField("config") for key, value in items(row.config.update).items()
    }
    assert config["judge"] == "baseline" and config["versions.fdarx"] and config["status"] == "complete"
    logged = {key: value for row in rows if row.HasField("history") for key, value in items(row.history.item).items()}
    figures = list(read_records(Location(str(finished / "metrics.parquet")), Figure))
    numbers = [number for one in figures for number in (one.value, one.low, one.high) if number is not None]
    metrics = [value for name, value in logged.items() if not name.startswith(("_", "tables/", "questions/", "total_"))]
    assert sorted(metrics) == pytest.approx(sorted(numbers))
    assert logged["tables/metrics/nrows"] == len(figures) and logged["_step"] == 0
    assert any(row.HasField("artifact") and row.artifact.name.endswith("-report") for row in rows)


def test_nothing_of_this_process_is_logged(finished: Path, folder: Path) -> None:
    done = run_job("track", finished, "--track", "wandb:labels")
    assert done.returncode == 0 and SECRET not in done.stderr + done.stdout
    assert not [file for file in folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert not [*folder.rglob("requirements.txt"), *folder.rglob("wandb-metadata.json"), *folder.rglob("*.patch")]
